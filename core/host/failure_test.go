package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
)

// TestMisbehaviour lets the plugin fail in every way. Each is an error of its own
// reason, never a verdict, and the plugin goes on serving.
func TestMisbehaviour(t *testing.T) {
	p := wild(t)
	for _, c := range []struct {
		prompt string
		millis int64 // deadline; 0: the default
		reason transport.Reason
		words  []string
	}{
		{"error", 0, transport.ReasonError, []string{"evaluate: wild 1.2.3: wild/1: an orderly error"}},
		{"nil", 0, transport.ReasonError, []string{"neither an answer nor an error"}},
		{"panic", 0, transport.ReasonPanic, []string{"panic: assignment to entry in nil map", "  | ", "main.go:"}},
		{"panic in a goroutine", 0, transport.ReasonTrap, []string{"the plugin's runtime gave up: panic: elsewhere"}},
		{"deadlock", 0, transport.ReasonTrap, []string{"all goroutines are asleep"}},
		{"exit", 0, transport.ReasonExit, []string{"ended its program with status 7\n  | on standard output\n  | on standard error"}},
		{"exit as if the deadline had passed", 0, transport.ReasonExit, []string{"status 4026531839"}},
		{"loop", 200, transport.ReasonDeadline, []string{"deadline: ", "no answer after 200ms"}},
		{"sleep for ever", 200, transport.ReasonDeadline, []string{"deadline: ", "no answer after 200ms"}},
		{"memory", 0, transport.ReasonMemory, []string{"more than 128 MiB of memory wanted"}},
		{"recurse", 0, transport.ReasonStack, []string{"evaluate: wild 1.2.3: wild/1: stack overflow"}},
		{"score 1.5", 0, transport.ReasonAnswer, []string{"the answer makes no sense: score is 1.5, want 0 to 1"}},
		{"score -0.1", 0, transport.ReasonAnswer, []string{"score is -0.1"}},
		{"score NaN", 0, transport.ReasonAnswer, []string{"score is NaN"}},
		{"component Inf", 0, transport.ReasonAnswer, []string{`component "a" is +Inf`}},
		{"component without name", 0, transport.ReasonAnswer, []string{"a component has no name"}},
		{"model", 0, transport.ReasonError, []string{"capability model: denied: plugin wild does not declare it"}},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			v, err := p.Evaluate(t.Context(), new(services), &sdk.EvaluateRequest{
				Task: sdk.Task{Key: "wild/1", Prompt: c.prompt}, Timeout: c.millis})
			wants(t, err, diag.KindPlugin, c.words...)
			if v != nil {
				t.Errorf("a verdict beside the error: %+v", v)
			}
			var f *transport.Failure
			if !errors.As(err, &f) || f.Reason != c.reason {
				t.Errorf("reason %+v, want %s", f, c.reason)
			}
			if c.reason == transport.ReasonDeadline && !errors.Is(err, context.DeadlineExceeded) {
				t.Error("not a context.DeadlineExceeded")
			}
			if v, err := evaluate(t, p, nil, "fine"); err != nil || v.Score != 0.5 {
				t.Errorf("afterwards: %v, %v", v, err)
			}
		})
	}
}

func TestServiceErrorsKeepTheirKind(t *testing.T) {
	t.Run("module", func(t *testing.T) { serviceErrors(t, wild(t)) })
	t.Run("process", func(t *testing.T) { serviceErrors(t, wildProcess(t)) })
}

func serviceErrors(t *testing.T, p *Plugin) {
	broken := diag.Errorf(diag.KindSandbox, "create sandbox", "s1", "no space left")
	plain := errors.New("plain")
	for _, c := range []struct {
		prompt   string
		run, ask error
		kind     diag.Kind
		is       error // that errors.Is must find; nil: none
		words    string
	}{
		{"run", broken, nil, diag.KindSandbox, broken, "run the tests: create sandbox: s1: no space left"},
		{"run", plain, nil, diag.KindSandbox, plain, "run the tests: plain"},
		{"run", diag.Errorf(diag.KindPolicy, "x", "", "y"), nil, diag.KindPolicy, nil, "x: y"},
		{"run, own words", broken, nil, diag.KindSandbox, broken, "the tests could not be run"},
		{"run, panic", broken, nil, diag.KindSandbox, broken, "panic: create sandbox: s1: no space left"},
		{"run, ask, error", broken, nil, diag.KindPlugin, nil, "something else"},
		{"run, ask, error", nil, plain, diag.KindJudge, plain, "something else"},
		{"ask", nil, plain, diag.KindJudge, plain, "plain"},
	} {
		t.Run(c.prompt+" "+string(c.kind), func(t *testing.T) {
			_, err := evaluate(t, p, &services{
				run: func(context.Context) (*sdk.RunResponse, error) { return &sdk.RunResponse{}, c.run },
				ask: func(context.Context) (*sdk.JudgeResponse, error) { return &sdk.JudgeResponse{}, c.ask },
			}, c.prompt)
			wants(t, err, c.kind, "evaluate: wild 1.2.3: wild/1: ", c.words)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("the service's error is not in the chain of %v", err)
			}
			if c.is == nil && c.kind == diag.KindPlugin && errors.Is(err, broken) {
				t.Errorf("a service is blamed: %v", err)
			}
		})
	}
	t.Run("overcome", func(t *testing.T) {
		v, err := evaluate(t, p, &services{run: func(context.Context) (*sdk.RunResponse, error) { return nil, broken }}, "run, then score")
		if err != nil || v.Reason != broken.Error() {
			t.Error(v, err)
		}
	})
	t.Run("panic of a service", func(t *testing.T) {
		_, err := evaluate(t, p, &services{run: func(context.Context) (*sdk.RunResponse, error) { panic("oh") }}, "run")
		wants(t, err, diag.KindUnknown, "the host's service panicked: oh")
	})
	t.Run("no response", func(t *testing.T) {
		_, err := evaluate(t, p, &services{run: func(context.Context) (*sdk.RunResponse, error) { return nil, nil }}, "run")
		wants(t, err, diag.KindSandbox, "gave no response")
	})
	t.Run("not offered", func(t *testing.T) {
		_, err := evaluate(t, p, nil, "run")
		wants(t, err, diag.KindPlugin, "capability sandbox: not offered to evaluate")
	})
}

// lapse is a context whose deadline passes when the test says so.
type lapse struct {
	context.Context
	over chan struct{}
}

func (l lapse) Done() <-chan struct{} { return l.over }

func (l lapse) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestDeadlineInAService(t *testing.T) {
	t.Run("module", func(t *testing.T) { deadlineInService(t, wild(t)) })
	t.Run("process", func(t *testing.T) { deadlineInService(t, wildProcess(t)) })
}

func deadlineInService(t *testing.T, p *Plugin) {
	l := lapse{t.Context(), make(chan struct{})}
	h := &services{run: func(ctx context.Context) (*sdk.RunResponse, error) {
		close(l.over)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, err := p.Evaluate(l, h, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "run"}})
	wants(t, err, diag.KindSandbox, "waiting for a service: ")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error("not a context.DeadlineExceeded")
	}
}

func TestInterrupted(t *testing.T) {
	t.Run("module", func(t *testing.T) { interrupted(t, wild(t)) })
	t.Run("process", func(t *testing.T) { interrupted(t, wildProcess(t)) })
}

func interrupted(t *testing.T, p *Plugin) {
	ctx, cancel := context.WithCancel(t.Context())
	h := &services{run: func(ctx context.Context) (*sdk.RunResponse, error) {
		cancel()
		return nil, ctx.Err()
	}}
	_, err := p.Evaluate(ctx, h, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "run"}})
	wants(t, err, diag.KindInterrupted)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("not a context.Canceled: %v", err)
	}
	_, err = p.Evaluate(ctx, h, &sdk.EvaluateRequest{})
	wants(t, err, diag.KindInterrupted)
}

func TestLogIsBounded(t *testing.T) {
	t.Run("module", func(t *testing.T) { boundedLog(t, wild(t)) })
	t.Run("process", func(t *testing.T) { boundedLog(t, wildProcess(t)) })
}

func boundedLog(t *testing.T, p *Plugin) {
	h := new(services)
	if _, err := evaluate(t, p, h, "log"); err != nil {
		t.Fatal(err)
	}
	if len(h.logs) != 3 || h.logs[0] != "warn a word" || h.logs[1] != "info at no known level" || len(h.logs[2]) > maxLine+16 {
		t.Errorf("%d lines: %.80q", len(h.logs), h.logs)
	}
	h = new(services)
	if _, err := evaluate(t, p, h, "flood"); err != nil {
		t.Fatal(err)
	}
	if len(h.logs) != maxLines || !strings.Contains(h.logs[maxLines-1], "are dropped") {
		t.Errorf("%d lines, the last %q", len(h.logs), h.logs[len(h.logs)-1])
	}
}

// TestNothingCarriesOver: each evaluation gets a fresh instance.
func TestNothingCarriesOver(t *testing.T) {
	p := wild(t)
	for range 5 {
		if v, err := evaluate(t, p, nil, "count"); err != nil || v.Reason != "1" {
			t.Fatal(v, err)
		}
	}
}

// TestSameRequestSameWorld: clock, randomness and the order of maps are the same
// for the same request, whatever was served before, and others for another.
func TestSameRequestSameWorld(t *testing.T) {
	ask := func(p *Plugin, seed uint64) string {
		v, err := p.Evaluate(t.Context(), nil, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "world"}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return v.Reason
	}
	p, q := wild(t), wild(t)
	first := ask(p, 1)
	if again := ask(p, 1); again != first {
		t.Errorf("%s\n%s", first, again)
	}
	if elsewhere := ask(q, 1); elsewhere != first {
		t.Errorf("%s\n%s", first, elsewhere)
	}
	if other := ask(p, 2); other == first {
		t.Error("another seed, the same randomness")
	}
	if !strings.Contains(first, "2020-01-01 00:00:00") || !strings.Contains(first, " true ") {
		t.Errorf("the clock: %s", first)
	}
}

func TestPrison(t *testing.T) {
	v, err := evaluate(t, wild(t), nil, "prison")
	if err != nil || !strings.HasPrefix(v.Reason, "closed []") {
		t.Error(v, err)
	}
}

// TestHammer has many goroutines evaluate at once, with good and bad behaviour and
// service calls mixed; each must get its own answer.
func TestHammer(t *testing.T) {
	p := wild(t)
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for n := range 12 {
				switch (g + n) % 4 {
				case 0:
					if _, err := evaluate(t, p, nil, "exit"); diag.KindOf(err) != diag.KindPlugin {
						t.Error(err)
					}
				case 1:
					if _, err := evaluate(t, p, nil, "panic"); err == nil || !strings.Contains(err.Error(), "nil map") {
						t.Error(err)
					}
				default:
					want := strings.Repeat("x", g*100+n)
					v, err := evaluate(t, p, &services{run: func(context.Context) (*sdk.RunResponse, error) {
						return &sdk.RunResponse{Logs: []sdk.Log{{Output: want}}}, nil
					}}, "run")
					if err != nil || v.Reason != want {
						t.Error(v, err)
					}
				}
			}
		})
	}
	all.Wait()
}
