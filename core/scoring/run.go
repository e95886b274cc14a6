// Package scoring turns an agent's output into a verdict: it serves the
// capability calls of evaluators and judges with fresh sandboxes, the skill's
// judge and the run's model.
package scoring

import (
	"bytes"
	"context"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// Runner answers the capability "sandbox": each request gets a sandbox of its own.
type Runner interface {
	Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error)
}

// Sandboxes is the Runner that makes real sandboxes. It is safe for concurrent use.
type Sandboxes struct {
	Driver sandbox.Driver
	Limits sandbox.Limits
	// Retries is how often a run whose sandbox failed is begun again in a fresh one.
	// Nothing outlives a sandbox, so that is always safe. Default: never.
	Retries int
}

// Run makes the sandbox, applies patches and then changes, runs the commands in
// order and destroys it. It blocks for as long as the commands take. A command
// that fails is a log; a patch that does not apply is a diag.Error of KindData;
// a sandbox that fails is one of KindSandbox.
func (s Sandboxes) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	for attempt := 0; ; attempt++ {
		out, err := s.once(ctx, r)
		if diag.KindOf(err) != diag.KindSandbox || attempt >= s.Retries || ctx.Err() != nil {
			return out, err
		}
	}
}

func (s Sandboxes) once(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	w := r.Workspace
	w.Patches = append(append([]string(nil), w.Patches...), r.Patches...)
	box, err := s.Driver.Create(ctx, sandbox.Spec{Name: "run", Workspace: w, Limits: s.Limits})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	if len(r.Changes) > 0 {
		if err := box.Write(ctx, r.Changes...); err != nil {
			return nil, diag.Wrap(diag.KindSandbox, "apply changes", "", err)
		}
	}
	out := &sdk.RunResponse{Logs: make([]sdk.Log, 0, len(r.Commands))}
	for _, c := range r.Commands {
		res, err := box.Exec(ctx, sandbox.Command{Shell: c.Shell, Env: c.Env, Timeout: time.Duration(c.Millis) * time.Millisecond})
		if err != nil {
			return nil, err
		}
		out.Logs = append(out.Logs, sdk.Log{
			Output:    string(bytes.ToValidUTF8(res.Output, []byte("�"))),
			ExitCode:  int64(res.ExitCode),
			TimedOut:  res.TimedOut,
			Truncated: res.Truncated,
			Millis:    res.Took.Milliseconds(),
		})
	}
	return out, nil
}
