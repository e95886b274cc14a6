package scoring

import (
	"context"
	"errors"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// failing is a driver and its sandbox, whose first commands fail so.
type failing struct {
	sandbox.Driver
	fail         error
	left         int
	made, closed int
}

func (f *failing) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	f.made++
	return box{failing: f}, nil
}

type box struct {
	sandbox.Sandbox
	*failing
}

func (b box) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	if b.left > 0 {
		b.left--
		return sandbox.Result{}, b.fail
	}
	return sandbox.Result{Output: []byte("ok")}, nil
}

func (b box) Close() error {
	b.closed++
	return nil
}

func TestRetries(t *testing.T) {
	gone := diag.Errorf(diag.KindSandbox, "run command", "x", "it is gone")
	for _, c := range []struct {
		name       string
		fail       error
		left, most int
		made       int
		ok         bool
	}{
		{"none needed", gone, 0, 2, 1, true},
		{"gone twice", gone, 2, 2, 3, true},
		{"gone too often", gone, 3, 2, 3, false},
		{"never retried", gone, 1, 0, 1, false},
		{"another failure", errors.New("no"), 1, 2, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &failing{fail: c.fail, left: c.left}
			r, err := Sandboxes{Driver: f, Retries: c.most}.Run(t.Context(), &sdk.RunRequest{Commands: []sdk.Command{{Shell: "x"}}})
			if (err == nil) != c.ok || f.made != c.made || f.closed != f.made {
				t.Errorf("%d made, %d closed, %v", f.made, f.closed, err)
			}
			if c.ok && (len(r.Logs) != 1 || r.Logs[0].Output != "ok") {
				t.Errorf("got %+v", r)
			}
		})
	}
}
