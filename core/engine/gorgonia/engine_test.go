package gorgonia

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// small has odd sizes everywhere, shared key heads and a context over one page.
func small() Config {
	return Config{Vocab: 37, Hidden: 20, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 6, Intermediate: 27, MaxContext: 80, RopeTheta: 10000, RMSEps: 1e-6, BOS: -1, EOS: 3, Pad: -1}
}

func open(t testing.TB, c Config, o Options) *Engine {
	t.Helper()
	dir := t.TempDir()
	if err := Create(dir, c, 7); err != nil {
		t.Fatal(err)
	}
	e, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// roughen moves the weights away from their initial smallness, gains included, so
// that every gradient counts.
func roughen(e *Engine, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range e.state.weights {
		e.state.weights[i] += float32(r.NormFloat64()) * 0.25
	}
	e.weights.Lock()
	e.changed()
	e.weights.Unlock()
}

func randomData(c Config, lengths []int, seed uint64) []engine.Datum {
	r := rand.New(rand.NewPCG(seed, 2))
	var out []engine.Datum
	for _, n := range lengths {
		d := engine.Datum{Advantage: float32(r.NormFloat64())}
		for range n {
			d.Tokens = append(d.Tokens, r.IntN(c.Vocab))
		}
		for range n - 1 {
			w := float32(0)
			if r.IntN(3) > 0 {
				w = float32(r.Float64())
			}
			d.Weights = append(d.Weights, w)
			d.Old = append(d.Old, float32(-3.6+r.NormFloat64()*0.8))
		}
		out = append(out, d)
	}
	return out
}

var losses = map[string]engine.Loss{
	"cross entropy":      {Kind: engine.CrossEntropy},
	"clipped":            {Kind: engine.Clipped, Low: 0.2, High: 0.28},
	"clipped, open":      {Kind: engine.Clipped, Low: 0.2, High: math.Inf(1)},
	"clipped, entropy":   {Kind: engine.Clipped, Low: 0.2, High: 0.28, EntropyCof: 0.3},
	"cross ent, entropy": {Kind: engine.CrossEntropy, EntropyCof: -0.2},
}

// The analytic gradient of every tensor against central differences of the float64
// reference, along random directions within the tensor and at single elements.
func TestGradients(t *testing.T) {
	configs := map[string]Config{"shared heads": small()}
	c := small()
	c.KVHeads, c.HeadDim, c.Hidden = 4, 32, 24
	configs["own heads of 32"] = c
	for cn, c := range configs {
		for ln, l := range losses {
			t.Run(cn+"/"+ln, func(t *testing.T) {
				e := open(t, c, Options{Threads: 2})
				roughen(e, 3)
				data := randomData(c, []int{9, 2, 40, 13}, 4)
				res, err := e.ForwardBackward(context.Background(), data, l)
				if err != nil {
					t.Fatal(err)
				}
				ref := newReference(e.shape, e.state.weights)
				if want := ref.loss(data, l); math.Abs(res.Loss-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("loss %g, want %g", res.Loss, want)
				}
				r := rand.New(rand.NewPCG(5, 6))
				var worst float64
				for _, p := range e.params {
					x := ref.w[p.Name]
					start := append([]float64{}, x...)
					direction := make([]float64, len(x))
					var got float64
					for i := range direction {
						direction[i] = r.NormFloat64() / math.Sqrt(float64(len(x)))
						got += direction[i] * float64(e.gradients[p.From+i])
					}
					const h = 1e-5
					at := func(f float64) float64 {
						for i := range x {
							x[i] = start[i] + f*direction[i]
						}
						return ref.loss(data, l)
					}
					want := (at(h) - at(-h)) / (2 * h)
					at(0)
					worst = max(worst, math.Abs(got-want)/(1e-1+math.Abs(want)))
					if math.Abs(got-want) > 2e-4*(1e-1+math.Abs(want)) {
						t.Errorf("%s: gradient %.8g, differences %.8g", p.Name, got, want)
					}
				}
				t.Logf("worst %.2g", worst)
			})
		}
	}
}

func logprobsOf(t *testing.T, e *Engine, tokens []int) []float32 {
	t.Helper()
	w := make([]float32, len(tokens)-1)
	for i := range w {
		w[i] = 1
	}
	res, err := e.ForwardBackward(context.Background(), []engine.Datum{{Tokens: tokens, Weights: w}}, engine.Loss{Kind: engine.CrossEntropy})
	if err != nil {
		t.Fatal(err)
	}
	return res.Logprobs[0]
}

// What sampling says a token's logprob is, training says too, to the last bit.
func TestSampleAgreesWithTraining(t *testing.T) {
	for _, c := range []Config{small(), DefaultConfig()} {
		t.Run(fmt.Sprint(c.Hidden), func(t *testing.T) {
			level := simd.Current()
			if c == small() {
				level = simd.Portable
			}
			before, _ := simd.Use(level)
			defer simd.Use(before)
			e := open(t, c, Options{Threads: 2})
			roughen(e, 8)
			prompt := randomData(c, []int{c.MaxContext / 3}, 9)[0].Tokens
			out, err := e.Sample(context.Background(), engine.SampleRequest{Prompt: prompt, MaxTokens: c.MaxContext, Temperature: 1, Seed: 5})
			if err != nil {
				t.Fatal(err)
			}
			if out.Stop != engine.StopContext || len(out.Tokens) != c.MaxContext-len(prompt) {
				t.Fatalf("%d tokens, stop %q", len(out.Tokens), out.Stop)
			}
			lp := logprobsOf(t, e, append(append([]int{}, prompt...), out.Tokens...))
			for i, want := range out.Logprobs {
				if got := lp[len(prompt)-1+i]; got != want {
					t.Fatalf("token %d: trained %g, sampled %g", i, got, want)
				}
			}
		})
	}
}

// A policy that has diverged is an error, in sampling as in training, and nothing of
// the failed call is held.
func TestDivergence(t *testing.T) {
	c := small()
	e := open(t, c, Options{Threads: 2})
	ctx := context.Background()
	data := randomData(c, []int{20}, 1)
	sane := append([]float32{}, e.state.weights...)
	e.state.weights[c.Vocab*c.Hidden] = float32(math.NaN())
	e.weights.Lock()
	e.changed()
	e.weights.Unlock()
	for _, temperature := range []float64{0, 0.5, 1} {
		_, err := e.Sample(ctx, engine.SampleRequest{Session: "s", Prompt: []int{1, 2}, MaxTokens: 3, Temperature: temperature})
		if !errors.Is(err, errDiverged) || diag.KindOf(err) != diag.KindPolicy {
			t.Errorf("temperature %g: %v", temperature, err)
		}
	}
	_, err := e.ForwardBackward(ctx, data, engine.Loss{Kind: engine.CrossEntropy})
	if err == nil || !strings.Contains(err.Error(), "not finite") || len(err.Error()) > 300 || diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("training: %v", err)
	}
	copy(e.state.weights, sane)
	e.weights.Lock()
	e.changed()
	e.weights.Unlock()
	if res, err := e.OptimStep(ctx, engine.AdamParams{}); err != nil || res.GradNorm != 0 {
		t.Errorf("after it: %+v, %v", res, err)
	}
	if _, err := e.Sample(ctx, engine.SampleRequest{Session: "s", Prompt: []int{1, 2}, MaxTokens: 3, Temperature: 1}); err != nil {
		t.Error(err)
	}
}

// A closed engine's graph and weights can be collected.
func TestCloseFreesMemory(t *testing.T) {
	weights := func() weak.Pointer[float32] {
		e := open(t, small(), Options{Threads: 2})
		if _, err := e.ForwardBackward(context.Background(), randomData(small(), []int{20}, 1), engine.Loss{Kind: engine.CrossEntropy}); err != nil {
			t.Fatal(err)
		}
		p := weak.Make(&e.gradients[0])
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return p
	}()
	for range 200 {
		runtime.GC() // the tape machine's finalizer needs a cycle of its own
		if weights.Value() == nil {
			return
		}
		runtime.Gosched()
	}
	t.Error("the gradients are still reachable")
}
