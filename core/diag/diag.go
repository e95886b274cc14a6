// Package diag carries what went wrong from the place that noticed it to the
// person who can mend it: a [Diagnostic] names file, line, key and remedy, and an
// [Error] carries the [Kind] that decides the exit code, the retry and the count.
//
// It is a leaf: it imports nothing of Valence.
package diag

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says at which boundary an error arose. An error without a Kind is
// KindUnknown and counts as a failure of the program, never as a score.
type Kind string

// The boundaries of Valence. The exit code of each is given by [Kind.ExitCode].
const (
	KindUnknown     Kind = "unknown"
	KindConfig      Kind = "config"      // the run's TOML or the command line
	KindPlugin      Kind = "plugin"      // a plugin was refused, trapped, timed out or answered nonsense
	KindSandbox     Kind = "sandbox"     // the sandbox could not be created, died, or did not answer
	KindPolicy      Kind = "policy"      // the policy could not be loaded or did not answer
	KindJudge       Kind = "judge"       // the judge failed; never to be read as "no"
	KindData        Kind = "data"        // a record or a stored file is malformed
	KindInterrupted Kind = "interrupted" // the user asked to stop
)

// ExitCode is the process exit code for an error of this kind: 10 config, 11
// plugin, 12 sandbox, 13 policy, 130 interrupted, 1 for everything else.
func (k Kind) ExitCode() int {
	switch k {
	case KindConfig:
		return 10
	case KindPlugin:
		return 11
	case KindSandbox:
		return 12
	case KindPolicy:
		return 13
	case KindInterrupted:
		return 130
	}
	return 1
}

// Error is `op: subject: cause` with a Kind. Subject may be empty.
type Error struct {
	Kind    Kind
	Op      string // what was being done, e.g. "create sandbox"
	Subject string // to what, e.g. the task's key
	Err     error
}

// Errorf makes an *Error whose cause is formatted as by fmt.Errorf (%w works).
func Errorf(kind Kind, op, subject, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Subject: subject, Err: fmt.Errorf(format, args...)}
}

// Wrap adds op, subject and kind to err. A kind that err already carries wins,
// so that the boundary nearest to the cause classifies. Wrap(nil) is nil.
func Wrap(kind Kind, op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if k := KindOf(err); k != KindUnknown {
		kind = k
	}
	return &Error{Kind: kind, Op: op, Subject: subject, Err: err}
}

func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if e.Op != "" {
		parts = append(parts, e.Op)
	}
	if e.Subject != "" {
		parts = append(parts, e.Subject)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf finds the kind of the outermost *Error or Diagnostic in err's chain.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var d *Diagnostic
	if errors.As(err, &d) {
		return d.Kind
	}
	var l List
	if errors.As(err, &l) && len(l) > 0 {
		return l[0].Kind
	}
	return KindUnknown
}
