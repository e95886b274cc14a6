package grade

import (
	"fmt"
	"slices"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Written finds the regular file that the agent left at a path. It reports false
// if there is none, or if the agent removed it or made it a link.
func Written(o *sdk.Output, path string) ([]byte, bool) {
	for i := range o.Changes {
		c := &o.Changes[i]
		if c.Path == path {
			return c.Data, !c.Deleted && c.Symlink == ""
		}
	}
	return nil, false
}

// Code gives those changes of the output that an evaluator may apply before it
// runs tests: regular files and removals within allowed, without anything that
// [IsTest], that was compiled, or that the hidden tests bring themselves. A file
// that [Configures] passes only if allowed names it. dropped has the other paths.
func Code(o *sdk.Output, allowed []string, tests ...string) (kept []sdk.Change, dropped []string) {
	for _, c := range o.Changes {
		if c.Symlink != "" || !slices.Contains(allowed, c.Path) || IsTest(c.Path) || compiled(c.Path) || slices.Contains(tests, c.Path) {
			dropped = append(dropped, c.Path)
			continue
		}
		kept = append(kept, c)
	}
	return kept, dropped
}

// Hide packs what the evaluator of a task needs of a record into [sdk.Task.Hidden].
func Hide(r *sdk.Record) []byte { return wire.Marshal(r) }

// Reveal unpacks [sdk.Task.Hidden]. An error means that the task was not made by
// [Hide]: a failure of the host or of the store, never the agent's.
func Reveal(t *sdk.Task) (*sdk.Record, error) {
	if len(t.Hidden) == 0 {
		return nil, fmt.Errorf("read hidden part: %s: it is empty", t.Key)
	}
	r := new(sdk.Record)
	if err := wire.Unmarshal(t.Hidden, r); err != nil {
		return nil, fmt.Errorf("read hidden part: %s: %w", t.Key, err)
	}
	return r, nil
}

// Fail is the verdict on an output that earns nothing; the reason is formatted as
// by fmt.Sprintf.
func Fail(format string, args ...any) *sdk.Verdict {
	return &sdk.Verdict{Reason: fmt.Sprintf(format, args...)}
}

// Skip is the answer of a builder to a record that does not suit its skill.
func Skip(format string, args ...any) *sdk.BuildResponse {
	return &sdk.BuildResponse{Skipped: fmt.Sprintf(format, args...)}
}
