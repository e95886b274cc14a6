package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/python/venv"
	"github.com/valence-rl/valence/sdk/wire"
)

// wildPython is the plugin of the Python SDK that misbehaves.
func wildPython(t *testing.T) *Plugin {
	bin, err := venv.Bin(t.Context(), "../../sdk/python")
	if errors.Is(err, venv.ErrNoPython) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return load(t, "wild-python", Options{Grants: []string{"sandbox", "log"}})
}

// runs answers each command with what it was.
type runs struct{ services }

func (*runs) Run(_ context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	return &sdk.RunResponse{Logs: []sdk.Log{{Output: "ran " + r.Commands[0].Shell}}}, nil
}

// TestPythonFails holds each failure to its reason, and the next call to an answer.
func TestPythonFails(t *testing.T) {
	p := wildPython(t)
	for _, c := range []struct {
		prompt string
		limit  int64 // milliseconds; 0: far away
		reason transport.Reason
		words  []string
	}{
		{"error", 0, transport.ReasonError, []string{"an orderly error"}},
		{"bug", 0, transport.ReasonPanic, []string{"panic: ZeroDivisionError: division by zero", "  | Traceback (most recent call last):", "skill.py"}},
		{"mistyped", 0, transport.ReasonPanic, []string{"panic: TypeError: Verdict.reason: want str, got int"}},
		{"exit", 0, transport.ReasonPanic, []string{"panic: SystemExit: enough"}},
		{"recurse", 0, transport.ReasonPanic, []string{"panic: RecursionError: maximum recursion depth exceeded"}},
		{"memory", 0, transport.ReasonPanic, []string{"panic: MemoryError"}},
		{"die", 0, transport.ReasonExit, []string{"status 7", "  | last words"}},
		{"loop", 300, transport.ReasonDeadline, []string{"deadline: no answer after 300ms"}},
		{"wait", 300, transport.ReasonDeadline, []string{"deadline: no answer after 300ms"}},
		{"score 1.5", 0, transport.ReasonAnswer, []string{"score is 1.5, want 0 to 1"}},
		{"long answer", 0, transport.ReasonError, []string{"answer of 67108869 bytes, 67108864 is the most"}},
		{"model", 0, transport.ReasonError, []string{`capability model: denied: plugin wild-python does not declare it`}},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			_, err := p.Evaluate(t.Context(), &runs{}, &sdk.EvaluateRequest{Task: sdk.Task{Key: "k", Prompt: c.prompt}, Timeout: c.limit})
			wants(t, err, diag.KindPlugin, append(c.words, "evaluate: wild-python 1.2.3: k: ")...)
			var f *transport.Failure
			if !errors.As(err, &f) || f.Reason != c.reason {
				t.Errorf("%v: want reason %s", err, c.reason)
			}
			if v, err := evaluate(t, p, &runs{}, "fine"); err != nil || v.Score != 0.5 {
				t.Errorf("afterwards: %+v, %v", v, err)
			}
		})
	}
}

func TestPythonServices(t *testing.T) {
	p := wildPython(t)
	if v, err := evaluate(t, p, &runs{}, "many"); err != nil || v.Score != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	var heard services
	if _, err := evaluate(t, p, &heard, "log"); err != nil || strings.Join(heard.logs, "") != "info a word" {
		t.Errorf("%q, %v", heard.logs, err)
	}
	broken := diag.Errorf(diag.KindSandbox, "run", "", "no sandbox left: %s", strings.Repeat("é", 4000))
	_, err := evaluate(t, p, &services{run: func(context.Context) (*sdk.RunResponse, error) { return nil, broken }}, "run")
	wants(t, err, diag.KindSandbox, broken.Error())
	late, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = p.Evaluate(late, &services{run: func(ctx context.Context) (*sdk.RunResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "run"}})
	wants(t, err, diag.KindSandbox, "waiting for a service")
	v, err := evaluate(t, p, &runs{}, "environment")
	if err != nil || strings.Contains(v.Reason, "GO") || !strings.HasPrefix(v.Reason, "HOME ") || !strings.Contains(v.Reason, " VALENCE_PLUGIN in [") {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestPythonAtOnce has 200 calls meet in a service.
func TestPythonAtOnce(t *testing.T) {
	const calls = 200
	p := wildPython(t)
	var here, all sync.WaitGroup
	here.Add(calls)
	for n := range calls {
		all.Go(func() {
			h := &services{run: func(context.Context) (*sdk.RunResponse, error) {
				here.Done()
				here.Wait()
				return &sdk.RunResponse{Logs: []sdk.Log{{Output: fmt.Sprint("answer ", n)}}}, nil
			}}
			v, err := p.Evaluate(t.Context(), h, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "run", Key: fmt.Sprint(n)}})
			if err != nil {
				t.Error(err)
				here.Done() // it did not come
			} else if v.Reason != fmt.Sprint("answer ", n) {
				t.Errorf("%q in call %d", v.Reason, n)
			}
		})
	}
	all.Wait()
}

// TestPythonMessages are as large as they may be.
func TestPythonMessages(t *testing.T) {
	p := wildPython(t)
	long := strings.Repeat("v", wire.MaxMessage-1000)
	v, err := p.Evaluate(t.Context(), &runs{}, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "run", Key: long}})
	if err != nil || len(v.Reason) != len(long)+len("ran ") {
		t.Error(err)
	}
}
