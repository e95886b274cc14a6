// Package toolbox is what the sandboxes of all drivers with a tool server have in
// common: the methods of sandbox.Sandbox that go through it.
package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// Box asks the tool server of one sandbox. It is all of a sandbox.Sandbox but Close.
type Box struct {
	Name   string
	Dir    string   // the workspace's, absolute
	Env    []string // of every command
	Limits sandbox.Limits
	Client *toolserver.Client
	// Place gives where a clean absolute path of the contract lies for the tool
	// server. Default: there.
	Place func(path string) string
	// Kill ends a sandbox that does not answer, and makes Client fail.
	Kill func(reason string)
}

// slack is how much longer than its own deadline an answer may take before the
// sandbox counts as dead.
const slack = 20 * time.Second

// patience is the deadline of requests that have none of their own.
const patience = 2 * time.Minute

// request sends a request and waits for its answer, for most at most: a sandbox
// that takes longer counts as dead.
func (b *Box) request(ctx context.Context, k toolserver.Kind, most time.Duration, ask func(*toolserver.Encoder), answer func(*toolserver.Decoder)) error {
	timer := time.AfterFunc(most, func() { b.Kill(fmt.Sprintf("it did not answer within %s", most)) })
	defer timer.Stop()
	return b.Client.Call(ctx, k, ask, answer)
}

// Exec runs a command; see sandbox.Sandbox.
func (b *Box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	const op = "run command"
	if c.Shell == "" && len(c.Args) == 0 {
		return sandbox.Result{}, diag.Errorf(diag.KindUnknown, op, b.Name, "there is none")
	}
	if err := sandbox.CheckEnv(c.Env); err != nil {
		return sandbox.Result{}, diag.Errorf(diag.KindUnknown, op, b.Name, "%w", err)
	}
	r := toolserver.Exec{Shell: c.Shell, Args: c.Args, Dir: b.path(c.Dir), Env: sandbox.MergeEnv(b.Env, c.Env), Stdin: c.Stdin,
		Timeout: c.Timeout, Output: uint64(b.Limits.Output)}
	if r.Timeout <= 0 {
		r.Timeout = b.Limits.Command
	}
	var result toolserver.Result
	err := b.request(ctx, toolserver.KindExec, r.Timeout+slack, r.Encode, result.Decode)
	return sandbox.Result(result), b.outcome(op, err)
}

// path makes a path of the contract one of the tool server.
func (b *Box) path(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(b.Dir, p)
	}
	p = path.Clean(p)
	if b.Place != nil {
		return b.Place(p)
	}
	return p
}

// outcome classifies an error: what concerns a file or the caller's context stays
// as it is, everything else is the sandbox's failure.
func (b *Box) outcome(op string, err error) error {
	var file *fs.PathError
	if errors.Is(err, toolserver.ErrTooLarge) {
		return fmt.Errorf("%s: %s: %w", op, b.Name, sandbox.ErrTooLarge)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &file):
		return fmt.Errorf("%s: %s: %w", op, b.Name, err)
	}
	return diag.Wrap(diag.KindSandbox, op, b.Name, err)
}

// defaultLimit is that of Read and Diff.
const defaultLimit = 16 << 20

// Read gives a file's bytes; see sandbox.Sandbox.
func (b *Box) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	var data []byte
	err := b.request(ctx, toolserver.KindRead, patience,
		func(e *toolserver.Encoder) { e.String(b.path(name)); e.Uint(uint64(limit)) },
		func(d *toolserver.Decoder) { data = d.Bytes() })
	return data, b.outcome("read file", err)
}

// Write makes or removes files; see sandbox.Sandbox.
func (b *Box) Write(ctx context.Context, changes ...sdk.Change) error {
	out := make([]sdk.Change, len(changes))
	for i, c := range changes {
		c.Path = b.path(c.Path)
		out[i] = c
	}
	err := b.request(ctx, toolserver.KindWrite, patience, func(e *toolserver.Encoder) { e.Changes(out) }, nil)
	return b.outcome("write files", err)
}

// Diff gives what differs from the workspace as it was; see sandbox.Sandbox.
func (b *Box) Diff(ctx context.Context, limit int64) ([]sdk.Change, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	var changes []sdk.Change
	err := b.request(ctx, toolserver.KindDiff, patience, func(e *toolserver.Encoder) { e.Uint(uint64(limit)) },
		func(d *toolserver.Decoder) { changes = d.Changes() })
	return changes, b.outcome("collect changes", err)
}
