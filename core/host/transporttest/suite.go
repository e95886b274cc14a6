// Package transporttest is the conformance suite of a plugin's transports. It runs
// on the plugin core/host/testdata/wild, which misbehaves as it is told to, and on
// every transport alike: whatever a plugin does, its call fails with the reason
// that fits, and the next call is served.
package transporttest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Nature is what a transport runs a plugin as. The suite asks for it where the two
// cannot behave alike.
type Nature int

const (
	Module  Nature = iota // a WASM module, in an instance of its own for each call
	Process               // a native process, which serves all calls
)

// Subject is a transport under test.
type Subject struct {
	Nature Nature
	// Open reaches the plugin wild with a memory limit in bytes.
	Open func(ctx context.Context, memory int64) (transport.Transport, error)
	// Foreign tries to reach a plugin that speaks another version of skill_v1, and
	// gives the error.
	Foreign func(ctx context.Context) error
}

const (
	roomy  = 2 << 30   // memory for the largest messages, bytes
	narrow = 256 << 20 // memory that a bomb soon exceeds, bytes
)

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Run("failures", s.failures)
	t.Run("another version", s.foreign)
	t.Run("messages", s.messages)
	t.Run("garbage", s.garbage)
	t.Run("services", s.services)
	t.Run("nested calls", s.nested)
	t.Run("service past the deadline", s.lateService)
	t.Run("service of an ended call", s.leftBehind)
	t.Run("cancelled", s.cancelled)
	t.Run("at once", s.atOnce)
	t.Run("mixed", s.mixed)
	t.Run("closed", s.closed)
}

// failures has the plugin fail in every way.
func (s Subject) failures(t *testing.T) {
	type fails struct {
		reason transport.Reason
		words  string // in the error
	}
	p := s.open(t, narrow)
	for _, c := range []struct {
		prompt  string
		limit   time.Duration // deadline of the call; 0: far away
		all     fails
		process fails // where a process cannot behave as a module does
		why     string
	}{
		{prompt: "error", all: fails{transport.ReasonError, "an orderly error"}},
		{prompt: "nil", all: fails{transport.ReasonError, "neither an answer nor an error"}},
		{prompt: "panic", all: fails{transport.ReasonPanic, "panic: assignment to entry in nil map"}},
		{prompt: "panic in a goroutine", all: fails{transport.ReasonTrap, "the plugin's runtime gave up: panic: elsewhere"}},
		{prompt: "deadlock", limit: 300 * time.Millisecond,
			all:     fails{transport.ReasonTrap, "all goroutines are asleep"},
			process: fails{transport.ReasonDeadline, "deadline"},
			why:     "a process always has a goroutine that waits for the host"},
		{prompt: "loop", limit: 300 * time.Millisecond, all: fails{transport.ReasonDeadline, "deadline"}},
		{prompt: "sleep for ever", limit: 300 * time.Millisecond, all: fails{transport.ReasonDeadline, "deadline"}},
		{prompt: "recurse", all: fails{transport.ReasonStack, "stack overflow"}},
		{prompt: "memory", all: fails{transport.ReasonMemory, "more than 256 MiB of memory wanted"}},
		{prompt: "exit", all: fails{transport.ReasonExit, "the plugin ended its program with status 7"}},
		{prompt: "exit as if the deadline had passed",
			all:     fails{transport.ReasonExit, "status 4026531839"},
			process: fails{transport.ReasonExit, "status 255"},
			why:     "the system keeps eight bits of a status"},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			want := c.all
			if s.Nature == Process && c.why != "" {
				want = c.process
			}
			ctx := t.Context()
			if c.limit > 0 && want.reason == transport.ReasonDeadline {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.limit)
				defer cancel()
			}
			v, err := evaluate(ctx, p, c.prompt, nil)
			f := failure(t, err, want.reason, want.words)
			if v != nil {
				t.Errorf("a verdict beside the error: %+v", v)
			}
			if f.Starting {
				t.Error("marked as before the call")
			}
			switch c.prompt {
			case "panic":
				if !strings.Contains(f.Printed, "main.go:") {
					t.Errorf("no stack was kept: %q", f.Printed)
				}
			case "exit":
				if f.Printed != "on standard output\non standard error\n" {
					t.Errorf("printed: %q", f.Printed)
				}
			}
			serves(t, p)
		})
	}
}

func (s Subject) foreign(t *testing.T) {
	err := s.Foreign(t.Context())
	if err == nil || !strings.Contains(err.Error(), "this host") {
		t.Errorf("error %v, want one that names both versions", err)
	}
}

// messages are as large as they may be, and larger.
func (s Subject) messages(t *testing.T) {
	p := s.open(t, roomy)
	for _, n := range []int{0, 1, 16 << 10, 1 << 20, 20 << 20} {
		text := strings.Repeat("v", n)
		v, err := call[sdk.Verdict](t.Context(), p, wire.MethodEvaluate, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "echo"}, Output: sdk.Output{Message: text}}, nil)
		if err != nil || v.Reason != text {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	_, err := p.Call(t.Context(), wire.MethodEvaluate, make([]byte, transport.MaxMessage+1), refuse)
	failure(t, err, transport.ReasonAnswer, "request of 67108865 bytes, 67108864 is the most")
	_, err = evaluate(t.Context(), p, "long answer", nil)
	failure(t, err, transport.ReasonError, "answer of 67108878 bytes, 67108864 is the most")
	_, err = evaluate(t.Context(), p, "long question", nil)
	failure(t, err, transport.ReasonError, "request of 67108874 bytes, 67108864 is the most")
	_, err = evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) {
		return make([]byte, transport.MaxMessage+1), nil
	})
	failure(t, err, transport.ReasonError, "run the tests: reply of 67108865 bytes, 67108864 is the most")
	serves(t, p)
}

// garbage comes as a request, and as a service's answer.
func (s Subject) garbage(t *testing.T) {
	p := s.open(t, narrow)
	for _, b := range [][]byte{{0xff}, {0x0a, 0x05}, []byte(strings.Repeat("\x00", 100))} {
		for _, m := range []uint32{wire.MethodDescribe, wire.MethodBuild, wire.MethodEvaluate, wire.MethodJudge} {
			out, err := p.Call(t.Context(), m, b, refuse)
			failure(t, err, transport.ReasonError, "")
			if out != nil {
				t.Errorf("an answer beside the error: %q", out)
			}
		}
		_, err := evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) { return b, nil })
		failure(t, err, transport.ReasonError, "run the tests: ")
	}
	serves(t, p)
}

// services are asked many times in one call, and from many goroutines.
func (s Subject) services(t *testing.T) {
	p := s.open(t, narrow)
	v, err := evaluate(t.Context(), p, "many", repeat)
	if err != nil || v.Score != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	broken := errors.New("no sandbox left: " + strings.Repeat("é", 5000))
	_, err = evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) { return nil, broken })
	f := failure(t, err, transport.ReasonError, "run the tests: "+broken.Error())
	if f.HostErr != broken || !f.Lastly || f.Waiting {
		t.Errorf("the service's part in it: %+v", f)
	}
	// Errors of some types cannot be compared with ==.
	_, err = evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) { return nil, several{"one", "two"} })
	f = failure(t, err, transport.ReasonError, "run the tests: one; two")
	if _, ok := f.HostErr.(several); !ok || !f.Lastly {
		t.Errorf("the service's part in it: %+v", f)
	}
	_, err = evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) { panic("oh") })
	failure(t, err, transport.ReasonError, "the host's service panicked: oh")
	serves(t, p)
}

// several is an error that is a list.
type several []string

func (s several) Error() string { return strings.Join(s, "; ") }

// nested calls: a service asks the plugin, which asks a service, and so on.
func (s Subject) nested(t *testing.T) {
	const depth = 12
	p := s.open(t, narrow)
	var serve transport.HostFunc
	serve = func(ctx context.Context, method uint32, in []byte) ([]byte, error) {
		var q sdk.JudgeRequest
		if err := wire.Unmarshal(in, &q); method != wire.HostJudge || err != nil {
			return nil, fmt.Errorf("method %d, %v", method, err)
		}
		var n int
		fmt.Sscan(q.Issue, &n)
		v, err := call[sdk.Verdict](ctx, p, wire.MethodEvaluate, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "nest", Key: fmt.Sprint(n - 1)}}, serve)
		if err != nil {
			return nil, err
		}
		return wire.Marshal(&sdk.JudgeResponse{Confidence: v.Score}), nil
	}
	v, err := call[sdk.Verdict](t.Context(), p, wire.MethodEvaluate, &sdk.EvaluateRequest{Task: sdk.Task{Prompt: "nest", Key: fmt.Sprint(depth)}}, serve)
	if err != nil || v.Score != 0.5 {
		t.Errorf("%+v, %v", v, err)
	}
}

func (s Subject) lateService(t *testing.T) {
	p := s.open(t, narrow)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	ended := false
	_, err := evaluate(ctx, p, "run", func(ctx context.Context, _ uint32, _ []byte) ([]byte, error) {
		<-ctx.Done()
		ended = true
		return nil, ctx.Err()
	})
	f := failure(t, err, transport.ReasonDeadline, "deadline")
	if !ended || f.HostErr == nil || !f.Waiting || !f.Lastly || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("service ended %v: %+v", ended, f)
	}
	serves(t, p)
}

// leftBehind: no service works for a call that has returned.
func (s Subject) leftBehind(t *testing.T) {
	p := s.open(t, narrow)
	var mu sync.Mutex
	busy, over := 0, false
	_, err := evaluate(t.Context(), p, "leave a question behind", func(ctx context.Context, method uint32, _ []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			t.Error("asked after the call")
		}
		if method == wire.HostRun {
			busy++
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			busy--
		}
		return nil, nil
	})
	mu.Lock()
	over = true
	if err != nil || busy != 0 {
		t.Errorf("%d services at work, %v", busy, err)
	}
	mu.Unlock()
	serves(t, p)
}

func (s Subject) cancelled(t *testing.T) {
	p := s.open(t, narrow)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the user")
	_, err := evaluate(ctx, p, "run", func(ctx context.Context, _ uint32, _ []byte) ([]byte, error) {
		cancel(stopped)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	failure(t, err, transport.ReasonCancelled, stopped.Error())
	_, err = evaluate(ctx, p, "fine", nil)
	failure(t, err, transport.ReasonCancelled, stopped.Error())
	serves(t, p)
}

// atOnce has 200 calls meet in a service.
func (s Subject) atOnce(t *testing.T) {
	const calls = 200
	p := s.open(t, narrow)
	var here, all sync.WaitGroup
	here.Add(calls)
	for n := range calls {
		all.Go(func() {
			want := fmt.Sprint("answer ", n)
			v, err := evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) {
				here.Done()
				here.Wait()
				return wire.Marshal(&sdk.RunResponse{Logs: []sdk.Log{{Output: want}}}), nil
			})
			if err != nil {
				t.Error(err)
			} else if v.Reason != want {
				t.Errorf("%q, want %q", v.Reason, want)
			}
		})
	}
	all.Wait()
}

// mixed has calls that end in good order beside those that do not. A process may
// take those beside it along when it dies; nobody gets another's answer.
func (s Subject) mixed(t *testing.T) {
	p := s.open(t, narrow)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 8 {
				switch {
				case g == 0 && n%4 == 0:
					_, err := evaluate(t.Context(), p, "exit", nil)
					failure(t, err, transport.ReasonExit, "status 7")
				case (g+n)%4 == 1:
					_, err := evaluate(t.Context(), p, "panic", nil)
					if s.Nature == Module || !beside(err) {
						failure(t, err, transport.ReasonPanic, "nil map")
					}
				default:
					want := strings.Repeat("x", g*100+n)
					v, err := evaluate(t.Context(), p, "run", func(context.Context, uint32, []byte) ([]byte, error) {
						return wire.Marshal(&sdk.RunResponse{Logs: []sdk.Log{{Output: want}}}), nil
					})
					if s.Nature == Process && beside(err) {
						continue
					}
					if err != nil {
						t.Error(err)
					} else if v.Reason != want {
						t.Errorf("%d bytes, want %d", len(v.Reason), len(want))
					}
				}
			}
		})
	}
	all.Wait()
	serves(t, p)
}

// beside tells whether a call failed because another ended the program.
func beside(err error) bool {
	var f *transport.Failure
	return errors.As(err, &f) && f.Reason == transport.ReasonExit
}

// closed: nothing of the transport is left in this program.
func (s Subject) closed(t *testing.T) {
	before := goroutines()
	p, err := s.Open(t.Context(), narrow)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []string{"fine", "exit", "fine", "panic in a goroutine", "run"} {
		evaluate(t.Context(), p, prompt, repeat)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	evaluate(ctx, p, "loop", nil)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	// Goroutines end a little after what they serve, and tell nobody.
	for t.Context().Err() == nil {
		left := ""
		for id, stack := range goroutines() {
			if _, old := before[id]; !old {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return
		}
		if deadline, ok := t.Deadline(); ok && time.Until(deadline) < 10*time.Second {
			t.Fatalf("left behind:\n%s", left)
		}
		runtime.Gosched()
	}
}

// goroutines gives the stacks of those that serve plugins, by their number.
func goroutines() map[string]string {
	b := make([]byte, 8<<20)
	all := make(map[string]string)
	for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		for _, of := range []string{"hashicorp/", "google.golang.org/grpc", "core/host/process.", "core/host/wasm."} {
			if strings.Contains(stack, of) {
				id, _, _ := strings.Cut(stack, " [")
				all[id] = stack
			}
		}
	}
	return all
}

func (s Subject) open(t *testing.T, memory int64) transport.Transport {
	t.Helper()
	p, err := s.Open(t.Context(), memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// serves says that the plugin answers.
func serves(t *testing.T, p transport.Transport) {
	t.Helper()
	if v, err := evaluate(t.Context(), p, "fine", nil); err != nil || v.Score != 0.5 {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
}

// failure checks how a call failed.
func failure(t *testing.T, err error, reason transport.Reason, words string) *transport.Failure {
	t.Helper()
	var f *transport.Failure
	if !errors.As(err, &f) {
		t.Errorf("error %v, want a *transport.Failure", err)
		return new(transport.Failure)
	}
	if f.Reason != reason || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %.300v\n%s\nwant %s: %.300s", f.Reason, err, f.Printed, reason, words)
	}
	return f
}

func evaluate(ctx context.Context, p transport.Transport, prompt string, serve transport.HostFunc) (*sdk.Verdict, error) {
	return call[sdk.Verdict](ctx, p, wire.MethodEvaluate, &sdk.EvaluateRequest{Task: sdk.Task{Key: "wild/1", Prompt: prompt}}, serve)
}

// call asks the plugin and decodes its answer.
func call[T any, P interface {
	*T
	wire.Message
}](ctx context.Context, p transport.Transport, method uint32, q wire.Message, serve transport.HostFunc) (*T, error) {
	if serve == nil {
		serve = refuse
	}
	out, err := p.Call(ctx, method, wire.Marshal(q), serve)
	if err != nil {
		return nil, err
	}
	a := new(T)
	return a, wire.Unmarshal(out, P(a))
}

func refuse(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("refused") }

// repeat runs commands by repeating them.
func repeat(_ context.Context, _ uint32, in []byte) ([]byte, error) {
	var r sdk.RunRequest
	if err := wire.Unmarshal(in, &r); err != nil {
		return nil, err
	}
	res := new(sdk.RunResponse)
	for _, c := range r.Commands {
		res.Logs = append(res.Logs, sdk.Log{Output: c.Shell})
	}
	return wire.Marshal(res), nil
}
