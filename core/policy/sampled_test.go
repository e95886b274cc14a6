package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/sdk"
)

// fakeEngine answers Sample by a function and keeps what it was asked. The other
// operations are not there and panic.
type fakeEngine struct {
	engine.Engine
	context int
	answer  func(r engine.SampleRequest) (engine.Sampled, error)

	mu       sync.Mutex
	version  int
	asked    []engine.SampleRequest
	released []string
}

func (e *fakeEngine) Info() engine.Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	return engine.Info{Name: "fake", MaxContext: e.context, Version: e.version}
}

func (e *fakeEngine) Sample(ctx context.Context, r engine.SampleRequest) (engine.Sampled, error) {
	if err := ctx.Err(); err != nil {
		return engine.Sampled{}, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, r)
	e.mu.Unlock()
	return e.answer(r)
}

func (e *fakeEngine) Release(session string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released = append(e.released, session)
}

// sampled is an answer whose logprobs and versions tell the tokens apart.
func sampled(stop engine.StopReason, ids ...int) engine.Sampled {
	s := engine.Sampled{Tokens: ids, Stop: stop}
	for i := range ids {
		s.Logprobs = append(s.Logprobs, -float32(i+1))
		s.Versions = append(s.Versions, 7+i)
	}
	return s
}

// inTurn answers the n-th call with the n-th answer.
func inTurn(answers ...engine.Sampled) func(engine.SampleRequest) (engine.Sampled, error) {
	return func(engine.SampleRequest) (engine.Sampled, error) {
		if len(answers) == 0 {
			return engine.Sampled{}, errors.New("asked too often")
		}
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
}

func brief(t testing.TB) (*bpe.Tokenizer, *chat.Brief) {
	t.Helper()
	tok, err := chat.Train(slices.Values([]string{"list the files of the shop and then say done\n"}), 300, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := chat.New(tok)
	if err != nil {
		t.Fatal(err)
	}
	return tok, b
}

func open(t testing.TB, p policy.Policy, o policy.Opening) policy.Session {
	t.Helper()
	if o.Task == nil {
		o.Task = &sdk.Task{Key: "editing/x", Prompt: "list the files"}
	}
	s, err := p.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s policy.Session, observation string) policy.Turn {
	t.Helper()
	turn, err := s.Next(t.Context(), observation)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestSampledConversationIsTokenExact(t *testing.T) {
	tok, b := brief(t)
	// The call is sampled byte by byte, as a canonical encoding never would be.
	call := []int{}
	marker, _ := tok.Special(chat.Bash)
	end := b.Stop()[0]
	call = append(call, marker)
	for _, c := range []byte("list the") {
		call = append(call, tok.Encode(string(c))...)
	}
	call = append(call, end)
	if slices.Equal(call, b.Reply(b.Parse(call))) {
		t.Fatal("the call's tokens are canonical, so the test would show nothing")
	}
	bad := append(b.Reply(policy.Turn{Text: "say"})[:1], marker, end)
	done := b.Reply(policy.Turn{Text: "done"})
	e := &fakeEngine{context: 500, version: 9, answer: inTurn(
		sampled(engine.StopToken, call...), sampled(engine.StopToken, bad...), sampled(engine.StopToken, done...))}
	p := policy.NewSampled("small", e, b, policy.SampledOptions{MaxTurnTokens: 60, TopK: 5, TopP: .9})
	if p.Name() != "small" || p.Version() != 9 {
		t.Errorf("name %q, version %d", p.Name(), p.Version())
	}
	task := &sdk.Task{Key: "editing/x", System: "shop", Prompt: "list the files"}
	s := open(t, p, policy.Opening{ID: "a", Task: task, Seed: 3, Temperature: .8, MaxTokens: 40})
	turns := []policy.Turn{next(t, s, "ignored"), next(t, s, "files\n"), next(t, s, "say it again")}
	s.Close()
	s.Close()

	context := b.Start("shop", "list the files")
	want := []policy.Turn{
		{Call: &policy.Call{ID: "call_1", Tool: policy.ToolBash, Arguments: map[string]string{"command": "list the"}}},
		{Text: tok.Decode(bad), Malformed: "<|bash|> in the message"},
		{Text: "done"},
	}
	seeds := map[uint64]bool{}
	for i, ids := range [][]int{call, bad, done} {
		a := sampled(engine.StopToken, ids...)
		want[i].Context, want[i].Tokens, want[i].Logprobs, want[i].Versions = context, a.Tokens, a.Logprobs, a.Versions
		r := e.asked[i]
		seeds[r.Seed] = true
		r.Seed = 0
		if diff := cmp.Diff(engine.SampleRequest{Session: "a", Prompt: context, MaxTokens: 40, Temperature: .8, TopK: 5, TopP: .9, Stop: b.Stop()}, r); diff != "" {
			t.Errorf("request %d: %s", i, diff)
		}
		context = slices.Concat(context, ids)
		if i < 2 {
			context = slices.Concat(context, b.Observe([]string{"files\n", "say it again"}[i]))
		}
	}
	if diff := cmp.Diff(want, turns); diff != "" {
		t.Error(diff)
	}
	if len(seeds) != 3 {
		t.Errorf("turns share seeds: %v", seeds)
	}
	if diff := cmp.Diff([]string{"a"}, e.released); diff != "" {
		t.Errorf("released: %s", diff)
	}
}

func TestSampledEnds(t *testing.T) {
	tok, b := brief(t)
	start := len(b.Start("", "list the files"))
	say := tok.Encode("say done say done say done")
	call := b.Reply(policy.Turn{Call: &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": "list"}}})
	observe := len(b.Observe("files"))
	for _, c := range []struct {
		name    string
		context int // of the engine
		o       policy.SampledOptions
		opening int // MaxTokens
		answers []engine.Sampled
		asked   []int // MaxTokens of each request
		want    []policy.Turn
	}{
		{
			name: "no room for a first turn", context: start + policy.MinTurn - 1,
			want: []policy.Turn{{Full: true}, {Full: true}},
		},
		{
			name: "just room for a first turn", context: start + policy.MinTurn,
			answers: []engine.Sampled{sampled(engine.StopLength, say[:8]...)}, asked: []int{8},
			want: []policy.Turn{{Full: true, Text: tok.Decode(say[:8]), Tokens: say[:8]}, {Full: true}},
		},
		{
			name: "the engine says that its context is full", context: 500,
			answers: []engine.Sampled{sampled(engine.StopContext, say[:3]...)}, asked: []int{500 - start},
			want: []policy.Turn{{Full: true, Text: tok.Decode(say[:3]), Tokens: say[:3]}, {Full: true}},
		},
		{
			name: "cut by the opening's bound", context: 500, opening: 5, o: policy.SampledOptions{MaxTurnTokens: 9},
			answers: []engine.Sampled{sampled(engine.StopLength, say[:5]...)}, asked: []int{5},
			want: []policy.Turn{{Malformed: "cut at 5 tokens", Text: tok.Decode(say[:5]), Tokens: say[:5]}},
		},
		{
			name: "cut by the option's bound", context: 500, opening: 9, o: policy.SampledOptions{MaxTurnTokens: 4},
			answers: []engine.Sampled{sampled(engine.StopLength, say[:4]...)}, asked: []int{4},
			want: []policy.Turn{{Malformed: "cut at 4 tokens", Text: tok.Decode(say[:4]), Tokens: say[:4]}},
		},
		{
			name: "no room for the observation", context: 500, o: policy.SampledOptions{MaxContext: start + len(call) + observe + policy.MinTurn - 1},
			answers: []engine.Sampled{sampled(engine.StopToken, call...)}, asked: []int{len(call) + observe + policy.MinTurn - 1},
			want: []policy.Turn{{Call: &policy.Call{ID: "call_1", Tool: "bash", Arguments: map[string]string{"command": "list"}}, Tokens: call}, {Full: true}, {Full: true}},
		},
		{
			name: "the option cannot widen the engine's context", context: start + 20, o: policy.SampledOptions{MaxContext: 900},
			answers: []engine.Sampled{sampled(engine.StopToken, call...)}, asked: []int{20},
			want: []policy.Turn{{Call: &policy.Call{ID: "call_1", Tool: "bash", Arguments: map[string]string{"command": "list"}}, Tokens: call}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &fakeEngine{context: c.context, answer: inTurn(c.answers...)}
			s := open(t, policy.NewSampled("small", e, b, c.o), policy.Opening{ID: "a", MaxTokens: c.opening})
			defer s.Close()
			for i, want := range c.want {
				got := next(t, s, "files")
				if len(want.Tokens) > 0 {
					a := sampled("", want.Tokens...)
					want.Logprobs, want.Versions, want.Context = a.Logprobs, a.Versions, e.asked[i].Prompt
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("turn %d: %s", i, diff)
				}
			}
			var asked []int
			for _, r := range e.asked {
				asked = append(asked, r.MaxTokens)
			}
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Errorf("asked for: %s", diff)
			}
		})
	}
}

func TestSampledErrors(t *testing.T) {
	_, b := brief(t)
	end := b.Stop()[0]
	for _, c := range []struct {
		name   string
		answer engine.Sampled
		err    error
		want   string
	}{
		{"engine fails", engine.Sampled{}, errors.New("gone"), "sample turn: a: gone"},
		{"lengths differ", engine.Sampled{Tokens: []int{end}, Stop: engine.StopToken}, nil, "sample turn: a: the engine gave 1 tokens, 0 logprobs and 0 versions"},
		{"too many", sampled(engine.StopLength, 20, 21, 22, 23), nil, "sample turn: a: the engine gave 4 tokens; at most 3 were asked for"},
		{"no stop token", sampled(engine.StopToken, 20), nil, "sample turn: a: the engine stopped at a stop token, but the last token is none"},
		{"unknown reason", sampled("tired", 20), nil, `sample turn: a: the engine gave the stop reason "tired"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := true
			e := &fakeEngine{context: 100, answer: func(engine.SampleRequest) (engine.Sampled, error) {
				if first {
					first = false
					return c.answer, c.err
				}
				return sampled(engine.StopToken, end), nil
			}}
			s := open(t, policy.NewSampled("small", e, b, policy.SampledOptions{MaxTurnTokens: 3}), policy.Opening{ID: "a"})
			defer s.Close()
			_, err := s.Next(t.Context(), "")
			if err == nil || err.Error() != c.want || diag.KindOf(err) != diag.KindPolicy {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			next(t, s, "") // the same turn again
			if diff := cmp.Diff(e.asked[0], e.asked[1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSampledSessions(t *testing.T) {
	_, b := brief(t)
	e := &fakeEngine{context: 100, answer: inTurn(sampled(engine.StopToken, b.Stop()[0]))}
	p := policy.NewSampled("small", e, b, policy.SampledOptions{})
	s := open(t, p, policy.Opening{ID: "a"})
	task := &sdk.Task{Key: "x"}
	if _, err := p.Open(t.Context(), policy.Opening{ID: "a", Task: task}); diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), "is open") {
		t.Errorf("second session of one ID: %v", err)
	}
	if _, err := p.Open(t.Context(), policy.Opening{ID: "b"}); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("no task: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Close()
	if _, err := s.Next(t.Context(), ""); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("closed: %v", err)
	}
	open(t, p, policy.Opening{ID: "a"}).Close()
	open(t, p, policy.Opening{}).Close()
	if diff := cmp.Diff([]string{"a", "a"}, e.released); diff != "" {
		t.Errorf("released: %s", diff)
	}
}

// Sessions of one policy run at once; what each samples depends on its own opening.
func TestSampledConcurrently(t *testing.T) {
	tok, b := brief(t)
	e := &fakeEngine{context: 400, answer: func(r engine.SampleRequest) (engine.Sampled, error) {
		turn := policy.Turn{Call: &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": fmt.Sprint(r.Seed % 1000)}}}
		return sampled(engine.StopToken, b.Reply(turn)...), nil
	}}
	p := policy.NewSampled("small", e, b, policy.SampledOptions{})
	play := func(seed int) (said []string) {
		s := open(t, p, policy.Opening{ID: fmt.Sprint(seed), Seed: uint64(seed)})
		defer s.Close()
		for {
			turn := next(t, s, "files of the shop")
			if turn.Full {
				return said
			}
			said = append(said, turn.Call.Arguments["command"]+"|"+tok.Decode(turn.Context))
		}
	}
	var want [][]string
	for i := range 16 {
		want = append(want, play(i))
	}
	got := make([][]string, len(want))
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = play(i) })
	}
	wg.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
