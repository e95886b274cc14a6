// Package enginetest is the conformance suite of [engine.Engine]: what every engine
// promises, whatever it runs on. An engine's test calls [Run].
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/engine"
)

// Run checks the engines that open makes. Each call of open gives a fresh engine
// with the same weights, of version 0 or later, a vocabulary of at least 8 and a
// context of at least 32 tokens; Run closes it. Run takes the suite's time times a
// few hundred sampled tokens.
func Run(t *testing.T, open func(t *testing.T) engine.Engine) {
	for _, c := range []struct {
		name string
		f    func(s *suite)
	}{
		{"info", info},
		{"sampling ends", sampleEnds},
		{"sampling follows the seed", seeds},
		{"greedy", greedy},
		{"the batch changes nothing", batchIndependence},
		{"sessions change nothing", sessions},
		{"no stale cache after a step", staleCache},
		{"sampling is cancelled", cancelled},
		{"bad requests", badRequests},
		{"cross entropy", crossEntropy},
		{"masked targets", masked},
		{"gradients add up", accumulation},
		{"learning", learning},
		{"clipped ratio", clipped},
		{"bad data", badData},
		{"losses offered", lossesOffered},
		{"save and load", saveLoad},
		{"same calls, same bits", determinism},
		{"sampling while training", hammer},
		{"close", closing},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, open: open}
			s.e = s.fresh()
			c.f(s)
		})
	}
}

type suite struct {
	*testing.T
	open func(t *testing.T) engine.Engine
	e    engine.Engine
}

var ctx = context.Background()

func (s *suite) fresh() engine.Engine {
	s.Helper()
	e := s.open(s.T)
	s.Cleanup(func() { e.Close() })
	return e
}

// tokens is a made-up sequence inside the vocabulary; start tells sequences apart.
func (s *suite) tokens(start, n int) []int {
	v := s.e.Info().Vocab
	out := make([]int, n)
	for i := range out {
		out[i] = (start*7 + i*i*3 + i) % v
	}
	return out
}

func (s *suite) sample(e engine.Engine, r engine.SampleRequest) engine.Sampled {
	s.Helper()
	out, err := e.Sample(ctx, r)
	if err != nil {
		s.Fatalf("Sample: %v", err)
	}
	return out
}

func (s *suite) train(e engine.Engine, l engine.Loss, data ...engine.Datum) engine.Result {
	s.Helper()
	r, err := e.ForwardBackward(ctx, data, l)
	if err != nil {
		s.Fatalf("ForwardBackward: %v", err)
	}
	return r
}

func (s *suite) step(e engine.Engine, p engine.AdamParams) engine.StepResult {
	s.Helper()
	r, err := e.OptimStep(ctx, p)
	if err != nil {
		s.Fatalf("OptimStep: %v", err)
	}
	return r
}

func (s *suite) equal(what string, got, want engine.Sampled) {
	s.Helper()
	if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Logprobs, want.Logprobs) || got.Stop != want.Stop {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// datum weighs every target w.
func datum(tokens []int, w float32) engine.Datum {
	d := engine.Datum{Tokens: tokens}
	for range len(tokens) - 1 {
		d.Weights = append(d.Weights, w)
		d.Old = append(d.Old, 0)
	}
	return d
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Abs(b)) }

var sft = engine.Loss{Kind: engine.CrossEntropy}

func info(s *suite) {
	i := s.e.Info()
	if i.Name == "" || i.Vocab < 8 || i.MaxContext < 32 || i.Parameters < 1 || i.Version < 0 || len(i.Losses) == 0 {
		s.Errorf("incomplete: %+v", i)
	}
}

func sampleEnds(s *suite) {
	i := s.e.Info()
	prompt := s.tokens(1, 5)
	check := func(name string, out engine.Sampled, n int, stop engine.StopReason) {
		s.Helper()
		if len(out.Tokens) != n || len(out.Logprobs) != n || len(out.Versions) != n || out.Stop != stop {
			s.Fatalf("%s: %d tokens, %d logprobs, %d versions, stop %q; want %d and %q", name, len(out.Tokens), len(out.Logprobs), len(out.Versions), out.Stop, n, stop)
		}
		for k, id := range out.Tokens {
			if id < 0 || id >= i.Vocab || !(out.Logprobs[k] <= 0) || out.Versions[k] != i.Version {
				s.Fatalf("%s: token %d is %d with logprob %g of version %d", name, k, id, out.Logprobs[k], out.Versions[k])
			}
		}
	}
	r := engine.SampleRequest{Prompt: prompt, MaxTokens: 9, Temperature: 1, Seed: 3}
	free := s.sample(s.e, r)
	check("length", free, 9, engine.StopLength)

	r.Stop = []int{free.Tokens[4]}
	at := slices.Index(free.Tokens, free.Tokens[4])
	check("stop token", s.sample(s.e, r), at+1, engine.StopToken)
	r.Stop = nil

	r.MaxTokens = i.MaxContext + 10
	check("context", s.sample(s.e, r), i.MaxContext-len(prompt), engine.StopContext)

	r.Prompt = s.tokens(2, i.MaxContext)
	check("full context", s.sample(s.e, r), 0, engine.StopContext)
}

func seeds(s *suite) {
	r := engine.SampleRequest{Prompt: s.tokens(2, 4), MaxTokens: 20, Temperature: 1, Seed: 11}
	one := s.sample(s.e, r)
	s.equal("same seed", s.sample(s.e, r), one)
	r.Seed = 12
	if two := s.sample(s.e, r); slices.Equal(two.Tokens, one.Tokens) {
		s.Error("another seed gives the same 20 tokens")
	}
}

func greedy(s *suite) {
	r := engine.SampleRequest{Prompt: s.tokens(3, 4), MaxTokens: 6, Temperature: 0, Seed: 1}
	one := s.sample(s.e, r)
	r.Seed = 2
	s.equal("another seed", s.sample(s.e, r), one)
	r.Temperature, r.TopK = 1, 1
	if two := s.sample(s.e, r); !slices.Equal(two.Tokens, one.Tokens) {
		s.Errorf("TopK 1 gives %v, temperature 0 %v", two.Tokens, one.Tokens)
	}
}

func batchIndependence(s *suite) {
	const n = 12
	request := func(i int) engine.SampleRequest {
		return engine.SampleRequest{Prompt: s.tokens(i, 1+(i*5)%17), MaxTokens: 12 - i%5, Temperature: 1, Seed: uint64(i)}
	}
	var alone, together [n]engine.Sampled
	for i := range n {
		alone[i] = s.sample(s.e, request(i))
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if together[i], err = s.e.Sample(ctx, request(i)); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range n {
		s.equal(fmt.Sprintf("sequence %d with others", i), together[i], alone[i])
	}
}

func sessions(s *suite) {
	prompt := s.tokens(4, 6)
	for turn := range 3 {
		r := engine.SampleRequest{Prompt: prompt, MaxTokens: 4, Temperature: 1, Seed: uint64(turn)}
		want := s.sample(s.e, r)
		r.Session = "conversation"
		got := s.sample(s.e, r)
		s.equal(fmt.Sprintf("turn %d in a session", turn), got, want)
		prompt = append(append(prompt, got.Tokens...), s.tokens(turn, 2)...)
	}
	// Another conversation under the same name, then a forgotten one.
	for _, start := range []int{5, 6} {
		r := engine.SampleRequest{Prompt: append(slices.Clone(prompt[:3]), s.tokens(start, 9)...), MaxTokens: 4, Temperature: 1}
		want := s.sample(s.e, r)
		r.Session = "conversation"
		s.equal("a changed conversation", s.sample(s.e, r), want)
		s.e.Release("conversation")
		s.e.Release("never seen")
	}
}

func staleCache(s *suite) {
	d := datum(s.tokens(1, 12), 1)
	r := engine.SampleRequest{Prompt: d.Tokens, MaxTokens: 3, Temperature: 1, Seed: 1, Session: "kept"}
	s.sample(s.e, r)
	s.train(s.e, sft, d)
	v := s.step(s.e, engine.AdamParams{LearningRate: 0.05}).Version
	got := s.sample(s.e, r)
	r.Session = ""
	s.equal("after a step", got, s.sample(s.e, r))
	if got.Versions[0] != v || s.e.Info().Version != v {
		s.Errorf("sampled version %d, Info says %d, OptimStep said %d", got.Versions[0], s.e.Info().Version, v)
	}
}

func cancelled(s *suite) {
	c, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.e.Sample(c, engine.SampleRequest{Prompt: s.tokens(1, 3), MaxTokens: 5, Temperature: 1}); !errors.Is(err, context.Canceled) {
		s.Errorf("Sample: %v, want context.Canceled", err)
	}
	if _, err := s.e.ForwardBackward(c, []engine.Datum{datum(s.tokens(1, 5), 1)}, sft); !errors.Is(err, context.Canceled) {
		s.Errorf("ForwardBackward: %v, want context.Canceled", err)
	}
	s.sample(s.e, engine.SampleRequest{Prompt: s.tokens(1, 3), MaxTokens: 2, Temperature: 1})
}

func badRequests(s *suite) {
	good := engine.SampleRequest{Prompt: s.tokens(1, 3), MaxTokens: 2, Temperature: 1}
	for name, spoil := range map[string]func(*engine.SampleRequest){
		"no prompt":            func(r *engine.SampleRequest) { r.Prompt = nil },
		"negative token":       func(r *engine.SampleRequest) { r.Prompt = []int{1, -1} },
		"token too large":      func(r *engine.SampleRequest) { r.Prompt = []int{s.e.Info().Vocab} },
		"negative temperature": func(r *engine.SampleRequest) { r.Temperature = -1 },
		"NaN temperature":      func(r *engine.SampleRequest) { r.Temperature = math.NaN() },
		"TopP above 1":         func(r *engine.SampleRequest) { r.TopP = 1.5 },
		"negative TopK":        func(r *engine.SampleRequest) { r.TopK = -1 },
		"negative MaxTokens":   func(r *engine.SampleRequest) { r.MaxTokens = -1 },
	} {
		r := good
		spoil(&r)
		if out, err := s.e.Sample(ctx, r); err == nil {
			s.Errorf("%s: no error, but %v", name, out)
		}
	}
	s.sample(s.e, good)
}

func crossEntropy(s *suite) {
	prompt := s.tokens(2, 6)
	out := s.sample(s.e, engine.SampleRequest{Prompt: prompt, MaxTokens: 8, Temperature: 1, Seed: 4})
	d := datum(append(slices.Clone(prompt), out.Tokens...), 0.5)
	res := s.train(s.e, sft, d)
	var want float64
	for _, lp := range res.Logprobs[0] {
		want -= 0.5 * float64(lp)
	}
	if !near(res.Loss, want, 1e-4) || res.Tokens != len(d.Weights) {
		s.Errorf("loss %g over %d tokens, want %g over %d", res.Loss, res.Tokens, want, len(d.Weights))
	}
	if !(res.Entropy > 0 && res.Entropy <= math.Log(float64(s.e.Info().Vocab))+1e-3) {
		s.Errorf("entropy %g", res.Entropy)
	}
	for i, lp := range out.Logprobs {
		if got := res.Logprobs[0][len(prompt)-1+i]; !near(float64(got), float64(lp), 1e-3) {
			s.Errorf("token %d: logprob %g when trained, %g when sampled", i, got, lp)
		}
	}
}

func masked(s *suite) {
	d := datum(s.tokens(3, 10), 1)
	for i := range d.Weights {
		if i%3 != 1 {
			d.Weights[i] = 0
		}
	}
	res := s.train(s.e, sft, d)
	if res.Tokens != 3 {
		s.Errorf("%d tokens count, want 3", res.Tokens)
	}
	for i, lp := range res.Logprobs[0] {
		if (lp != 0) != (d.Weights[i] != 0) {
			s.Errorf("target %d: weight %g, logprob %g", i, d.Weights[i], lp)
		}
	}
	norm := s.step(s.e, engine.AdamParams{}).GradNorm
	// Tokens behind the last target cannot matter.
	d.Tokens[9] = (d.Tokens[9] + 1) % s.e.Info().Vocab
	s.train(s.e, sft, d)
	if got := s.step(s.e, engine.AdamParams{}).GradNorm; !near(got, norm, 1e-5) {
		s.Errorf("gradient norm %g, with another masked token %g", norm, got)
	}
	clear(d.Weights)
	if res := s.train(s.e, sft, d); res.Tokens != 0 || res.Loss != 0 || res.Entropy != 0 {
		s.Errorf("nothing to learn gives %+v", res)
	}
}

func accumulation(s *suite) {
	a, b := datum(s.tokens(1, 9), 1), datum(s.tokens(2, 21), -0.3)
	both := s.train(s.e, sft, a, b)
	norm := s.step(s.e, engine.AdamParams{}).GradNorm
	one, two := s.train(s.e, sft, b), s.train(s.e, sft, a)
	if got := s.step(s.e, engine.AdamParams{}).GradNorm; !near(got, norm, 1e-4) {
		s.Errorf("gradient norm %g in one call, %g in two", norm, got)
	}
	if !near(one.Loss+two.Loss, both.Loss, 1e-4) {
		s.Errorf("loss %g in one call, %g in two", both.Loss, one.Loss+two.Loss)
	}
	if got := s.step(s.e, engine.AdamParams{}).GradNorm; got != 0 {
		s.Errorf("gradient norm %g after the gradients were applied, want 0", got)
	}
}

func learning(s *suite) {
	d := datum(s.tokens(4, 16), 1.0/15)
	first := s.train(s.e, sft, d).Loss
	for range 25 {
		s.step(s.e, engine.AdamParams{LearningRate: 0.01, ClipNorm: 1})
		s.train(s.e, sft, d)
	}
	s.step(s.e, engine.AdamParams{})
	if last := s.train(s.e, sft, d).Loss; !(last < first/2) {
		s.Errorf("loss %g after 26 steps on one sequence, %g before", last, first)
	}
}

func clipped(s *suite) {
	if !slices.Contains(s.e.Info().Losses, engine.Clipped) {
		return // lossesOffered checks that it is refused
	}
	l := engine.Loss{Kind: engine.Clipped, Low: 0.2, High: 0.28}
	base := datum(s.tokens(5, 8), 0.25)
	now := s.train(s.e, sft, base).Logprobs[0]
	s.step(s.e, engine.AdamParams{})
	for _, c := range []struct {
		name             string
		shift, advantage float32 // old = now − shift
		clip             bool
		factor           float64 // of advantage
	}{
		{"on policy", 0, 2, false, 1},
		{"above, good", 0.5, 2, true, 1.28},
		{"above, bad", 0.5, -2, false, math.Exp(0.5)},
		{"below, good", -0.5, 2, false, math.Exp(-0.5)},
		{"below, bad", -0.5, -2, true, 0.8},
	} {
		d := base
		d.Advantage = c.advantage
		d.Old = make([]float32, len(now))
		for i, lp := range now {
			d.Old[i] = lp - c.shift
		}
		res := s.train(s.e, l, d)
		norm := s.step(s.e, engine.AdamParams{}).GradNorm
		share := 0.0
		if c.clip {
			share = 1
		}
		want := -0.25 * float64(len(now)) * c.factor * float64(c.advantage)
		if !near(res.Loss, want, 1e-3) || res.ClipShare != share || !near(res.Ratio, math.Exp(float64(c.shift)), 1e-3) {
			s.Errorf("%s: loss %g, clip share %g, ratio %g; want %g, %g, %g", c.name, res.Loss, res.ClipShare, res.Ratio, want, share, math.Exp(float64(c.shift)))
		}
		if (norm == 0) != c.clip {
			s.Errorf("%s: gradient norm %g", c.name, norm)
		}
	}
	l.High = math.Inf(1)
	d := base
	d.Advantage, d.Old = 1, make([]float32, len(now))
	for i, lp := range now {
		d.Old[i] = lp - 3
	}
	if res := s.train(s.e, l, d); res.ClipShare != 0 {
		s.Errorf("no upper bound: clip share %g", res.ClipShare)
	}
}

func badData(s *suite) {
	nan := float32(math.NaN())
	for name, spoil := range map[string]func(*engine.Datum){
		"one token":       func(d *engine.Datum) { *d = datum([]int{1}, 1) },
		"no token":        func(d *engine.Datum) { *d = engine.Datum{} },
		"too long":        func(d *engine.Datum) { *d = datum(s.tokens(1, s.e.Info().MaxContext+2), 1) },
		"token too large": func(d *engine.Datum) { d.Tokens[2] = s.e.Info().Vocab },
		"few weights":     func(d *engine.Datum) { d.Weights = d.Weights[1:] },
		"NaN weight":      func(d *engine.Datum) { d.Weights[0] = nan },
		"few logprobs":    func(d *engine.Datum) { d.Old = d.Old[1:] },
		"NaN advantage":   func(d *engine.Datum) { d.Advantage = nan },
	} {
		d := datum(s.tokens(1, 6), 1)
		spoil(&d)
		kind := engine.Loss{Kind: engine.Clipped, Low: 0.2, High: 0.2}
		if !slices.Contains(s.e.Info().Losses, engine.Clipped) {
			kind = sft
		}
		if _, err := s.e.ForwardBackward(ctx, []engine.Datum{datum(s.tokens(1, 6), 1), d}, kind); err == nil {
			s.Errorf("%s: no error", name)
		}
	}
	// Nothing of the refused calls is held.
	if got := s.step(s.e, engine.AdamParams{}).GradNorm; got != 0 {
		s.Errorf("gradient norm %g after refused data, want 0", got)
	}
}

func lossesOffered(s *suite) {
	for _, k := range s.e.Info().Losses {
		if err := engine.Check(s.e, engine.Loss{Kind: k}); err != nil {
			s.Errorf("Check refuses an offered loss: %v", err)
		}
	}
	odd := engine.Loss{Kind: "made up"}
	if err := engine.Check(s.e, odd); err == nil {
		s.Error("Check accepts a loss that is not offered")
	}
	if _, err := s.e.ForwardBackward(ctx, []engine.Datum{datum(s.tokens(1, 6), 1)}, odd); err == nil {
		s.Error("ForwardBackward computes a loss that is not offered")
	}
}

func saveLoad(s *suite) {
	d := datum(s.tokens(6, 14), 0.1)
	p := engine.AdamParams{LearningRate: 0.02, WeightDecay: 0.1, ClipNorm: 1}
	r := engine.SampleRequest{Prompt: d.Tokens[:5], MaxTokens: 10, Temperature: 1, Seed: 9}
	for range 3 {
		s.train(s.e, sft, d)
		s.step(s.e, p)
	}
	dir := s.TempDir()
	if err := s.e.Save(dir); err != nil {
		s.Fatalf("Save: %v", err)
	}
	other := s.fresh()
	s.train(other, sft, d) // held gradients do not survive Load
	if err := other.Load(dir); err != nil {
		s.Fatalf("Load: %v", err)
	}
	if got, want := other.Info().Version, s.e.Info().Version; got != want {
		s.Errorf("version %d after Load, want %d", got, want)
	}
	s.equal("after Load", s.sample(other, r), s.sample(s.e, r))
	for range 2 {
		a, b := s.train(s.e, sft, d), s.train(other, sft, d)
		x, y := s.step(s.e, p), s.step(other, p)
		if a.Loss != b.Loss || x != y {
			s.Errorf("training on: loss %g and %+v, after Load %g and %+v", a.Loss, x, b.Loss, y)
		}
	}
	s.equal("two steps after Load", s.sample(other, r), s.sample(s.e, r))
	if err := s.e.Load(s.TempDir()); err == nil {
		s.Error("Load of an empty folder succeeds")
	}
}

func determinism(s *suite) {
	run := func(e engine.Engine) (out []float64) {
		for i := range 3 {
			res := s.train(e, sft, datum(s.tokens(i, 20), 0.05), datum(s.tokens(i+1, 7), 0.1))
			out = append(out, res.Loss, res.Entropy, s.step(e, engine.AdamParams{LearningRate: 0.01}).GradNorm)
		}
		for _, lp := range s.sample(e, engine.SampleRequest{Prompt: s.tokens(1, 3), MaxTokens: 12, Temperature: 1, Seed: 2}).Logprobs {
			out = append(out, float64(lp))
		}
		return out
	}
	if a, b := run(s.e), run(s.fresh()); !slices.Equal(a, b) {
		s.Errorf("two engines differ:\n%v\n%v", a, b)
	}
}

// hammer samples from many goroutines while the trainer steps.
func hammer(s *suite) {
	start := s.e.Info().Version
	const steps = 4
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			prompt := s.tokens(i, 3)
			for turn := range 4 {
				out, err := s.e.Sample(ctx, engine.SampleRequest{Session: fmt.Sprint(i), Prompt: prompt, MaxTokens: 5, Temperature: 1, Seed: uint64(turn)})
				if err != nil {
					s.Errorf("Sample: %v", err)
					return
				}
				if !slices.IsSorted(out.Versions) || out.Versions[0] < start || out.Versions[len(out.Versions)-1] > start+steps {
					s.Errorf("versions %v", out.Versions)
				}
				prompt = append(prompt, out.Tokens...)
			}
			s.e.Release(fmt.Sprint(i))
		})
	}
	for i := range steps {
		s.train(s.e, sft, datum(s.tokens(i, 12), 0.1))
		s.step(s.e, engine.AdamParams{LearningRate: 0.001})
	}
	wg.Wait()
	if got := s.e.Info().Version; got != start+steps {
		s.Errorf("version %d after %d steps from %d", got, steps, start)
	}
}

func closing(s *suite) {
	if err := s.e.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	if _, err := s.e.Sample(ctx, engine.SampleRequest{Prompt: []int{1, 2}, MaxTokens: 2, Temperature: 1}); err == nil {
		s.Error("Sample works on a closed engine")
	}
	if _, err := s.e.ForwardBackward(ctx, []engine.Datum{datum([]int{1, 2}, 1)}, sft); err == nil {
		s.Error("ForwardBackward works on a closed engine")
	}
	if err := s.e.Close(); err != nil {
		s.Errorf("second Close: %v", err)
	}
}
