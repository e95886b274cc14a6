package image

import (
	"errors"
	"fmt"

	"github.com/valence-rl/valence/core/diag"
)

// Reason says why an image cannot be had.
type Reason string

// The reasons. The first five are the image's fault, and another attempt gives the
// same; errors of these are of [diag.KindData]. The others are of [diag.KindSandbox].
const (
	Invalid     Reason = "invalid"     // the reference is none
	Absent      Reason = "absent"      // there is no such image, or not for this machine
	Malformed   Reason = "malformed"   // it is not what it says it is
	Unsafe      Reason = "unsafe"      // it names files outside its root
	TooLarge    Reason = "too large"   // it exceeds a limit
	Denied      Reason = "denied"      // the registry wants other credentials
	Changed     Reason = "changed"     // the bytes are not those that the digest names
	Unreachable Reason = "unreachable" // no answer, or one that says "later"
)

// Error is the cause, within a [diag.Error], of every failure but those of this
// machine's file system and the end of a context.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

func refuse(r Reason, format string, args ...any) error {
	return &Error{r, fmt.Errorf(format, args...)}
}

// reasonOf is "" for what is no Error.
func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// failed adds what was being done, and the kind that the cause has.
func failed(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	kind := diag.KindSandbox
	switch reasonOf(err) {
	case Invalid, Absent, Malformed, Unsafe, TooLarge:
		kind = diag.KindData
	}
	return diag.Wrap(kind, op, subject, err)
}
