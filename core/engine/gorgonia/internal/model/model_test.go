package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func dot(x, y []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(y[i])
	}
	return s
}

// checkGradient compares grad, of f with respect to x, with central differences of f
// along random directions. f is computed in float32, so the step is wide and the
// tolerance loose; the engine's tests compare with a float64 reference.
func checkGradient(t *testing.T, what string, r *rand.Rand, x, grad []float32, f func() float64) {
	t.Helper()
	start := slices.Clone(x)
	for range 4 {
		d := random(r, len(x))
		norm := float32(math.Sqrt(dot(d, d)))
		const h = 5e-3
		at := func(s float32) float64 {
			for i := range x {
				x[i] = start[i] + s*d[i]/norm
			}
			return f()
		}
		want := (at(h) - at(-h)) / (2 * h)
		at(0)
		got := dot(grad, d) / float64(norm)
		if math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
			t.Errorf("%s: gradient %g, differences %g", what, got, want)
		}
	}
}

func TestNormGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, d := range []int{5, 16, 50} {
		const rows = 3
		x, g, up := random(r, rows*d), random(r, d), random(r, rows*d)
		y, f := make([]float32, rows*d), make([]float32, rows)
		loss := func() float64 { Norm(y, f, x, g, rows, 1e-5); return dot(y, up) }
		loss()
		dx, dg := make([]float32, rows*d), make([]float32, d)
		NormBack(dx, dg, up, x, g, f, rows)
		checkGradient(t, "x", r, x, dx, loss)
		checkGradient(t, "gain", r, g, dg, loss)
	}
}

var shapes = map[string]Shape{
	"odd sizes": {Heads: 4, KVHeads: 2, HeadDim: 6, Layers: 1, MaxContext: 100, Theta: 100, Eps: 1e-6},
	"32":        {Heads: 2, KVHeads: 2, HeadDim: 32, Layers: 1, MaxContext: 100, Theta: 10000, Eps: 1e-6},
	"one key":   {Heads: 3, KVHeads: 1, HeadDim: 40, Layers: 1, MaxContext: 100, Theta: 10000, Eps: 1e-6},
}

func TestRotaryGradient(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, 2))
			rot := NewRotations(s)
			pos := []int{0, 3, 99}
			w, heads := s.QKV(), s.Heads+s.KVHeads
			x, q, k, up := random(r, 3*w), random(r, s.HeadDim), random(r, s.HeadDim), random(r, 3*w)
			y, f := make([]float32, 3*w), make([]float32, 3*heads)
			loss := func() float64 { s.Rotary(y, f, x, q, k, rot, pos); return dot(y, up) }
			loss()
			dx, dq, dk := random(r, 3*w), make([]float32, s.HeadDim), make([]float32, s.HeadDim)
			s.RotaryBack(dx, dq, dk, slices.Clone(up), x, q, k, f, rot, pos)
			checkGradient(t, "x", r, x, dx, loss)
			checkGradient(t, "query gain", r, q, dq, loss)
			checkGradient(t, "key gain", r, k, dk, loss)
			in := slices.Clone(x)
			s.Rotary(in, nil, in, q, k, rot, pos)
			loss()
			if !slices.Equal(in, y) {
				t.Error("in place and beside differ")
			}
		})
	}
}

// pagesOf stores the keys and values of a whole sequence.
func (s Shape) pagesOf(x []float32, n, head int) KV {
	kv := KV{}
	for range (n + Page - 1) / Page {
		kv.Pages = append(kv.Pages, make([]float32, s.PageLen()))
	}
	kv.Offset = s.Slot(0, head)
	w, k := s.QKV(), s.Q()+head*s.HeadDim
	for i := range n {
		kv.Put(s, i, x[i*w+k:], x[i*w+k+s.KV():])
	}
	return kv
}

func TestAttentionGradient(t *testing.T) {
	for name, s := range shapes {
		for _, n := range []int{1, 12, 33, 71} {
			r := rand.New(rand.NewPCG(3, uint64(n)))
			w, ld := s.QKV(), Stride(n)
			x, up := random(r, n*w), random(r, n*s.Q())
			for i := range n { // queries come scaled
				for j := range s.Q() {
					x[i*w+j] /= float32(math.Sqrt(float64(s.HeadDim)))
				}
			}
			y, p := make([]float32, n*s.Q()), make([]float32, s.Heads*n*ld)
			prob := func(h int) []float32 { return p[h*n*ld : (h+1)*n*ld] }
			loss := func() float64 {
				for h := range s.Heads {
					kv := s.pagesOf(x, n, h/(s.Heads/s.KVHeads))
					s.Attend(y[h*s.HeadDim:], s.Q(), Queries{N: n, Data: x[h*s.HeadDim:], Stride: w, Step: 1}, kv, prob(h), ld)
				}
				return dot(y, up)
			}
			loss()
			dx := random(r, n*w)
			var scratch Scratch
			for h := range s.KVHeads {
				s.AttendBack(&scratch, dx, up, x, prob, n, h)
			}
			checkGradient(t, name, r, x, dx, loss)

			// Each query alone, and a group's heads together, give the same bits.
			group := s.Heads / s.KVHeads
			for i := range n {
				for h := range s.KVHeads {
					kv := s.pagesOf(x, i+1, h)
					at := h * group * s.HeadDim
					out := make([]float32, group*s.HeadDim)
					s.Attend(out, s.HeadDim, Queries{N: group, Data: x[i*w+at:], Stride: s.HeadDim, Pos: i}, kv, make([]float32, group*ld), ld)
					if !slices.Equal(out, y[i*s.Q()+at:i*s.Q()+at+len(out)]) {
						t.Fatalf("%s: query %d of %d alone differs from the sequence", name, i, n)
					}
				}
			}
		}
	}
}

func TestSwiGLUGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const rows, n = 2, 27
	x, up, h := random(r, rows*2*n), random(r, rows*n), make([]float32, rows*n)
	loss := func() float64 { SwiGLU(h, x, rows, n); return dot(h, up) }
	dx := make([]float32, len(x))
	SwiGLUBack(dx, up, x, rows, n)
	checkGradient(t, "x", r, x, dx, loss)
}

func TestLossGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for name, c := range map[string]struct {
		o         Objective
		advantage float32
		shift     float32 // old = logprob + shift
		clipped   bool
	}{
		"cross entropy":     {Objective{}, 1, 0, false},
		"with entropy":      {Objective{Entropy: 0.5}, 1, 0, false},
		"inside":            {Objective{Clip: true, Low: 0.2, High: 0.3}, 1.5, 0.1, false},
		"above, good":       {Objective{Clip: true, Low: 0.2, High: 0.3}, 1.5, -0.5, true},
		"above, bad":        {Objective{Clip: true, Low: 0.2, High: 0.3}, -1.5, -0.5, false},
		"below, good":       {Objective{Clip: true, Low: 0.2, High: 0.3}, 1.5, 0.5, false},
		"below, bad":        {Objective{Clip: true, Low: 0.2, High: 0.3}, -1.5, 0.5, true},
		"open above":        {Objective{Clip: true, Low: 0.2, High: math.Inf(1)}, 1.5, -2, false},
		"clipped, entropy":  {Objective{Clip: true, Low: 0.2, High: 0.3, Entropy: 0.5}, -1.5, 0.5, true},
		"no advantage":      {Objective{Clip: true, Low: 0.2, High: 0.3}, 0, -0.5, false},
		"no advantage, inf": {Objective{Clip: true, Low: 0.2, High: 0.3}, 0, -2000, false},
	} {
		t.Run(name, func(t *testing.T) {
			const v, target = 23, 7
			logits, scratch := random(r, v), make([]float32, v)
			term := func(l []float32, old float32) Term {
				return c.o.Loss(l, scratch, target, 0.7, c.advantage, old)
			}
			old := term(slices.Clone(logits), 0).Logprob + c.shift
			grad := slices.Clone(logits)
			got := term(grad, old)
			if got.Clipped != c.clipped {
				t.Errorf("clipped: %v", got.Clipped)
			}
			checkGradient(t, "logits", r, logits, grad, func() float64 { return term(slices.Clone(logits), old).Loss })
			var sum, entropy float64
			for _, l := range logits {
				sum += math.Exp(float64(l))
			}
			for _, l := range logits {
				p := math.Exp(float64(l)) / sum
				entropy -= p * math.Log(p)
			}
			if lp := float64(logits[target]) - math.Log(sum); math.Abs(lp-float64(got.Logprob)) > 1e-6 || math.Abs(entropy-got.Entropy) > 1e-5 {
				t.Errorf("logprob %g, entropy %g; want %g, %g", got.Logprob, got.Entropy, lp, entropy)
			}
			if want := math.Exp(-float64(c.shift)); c.o.Clip && !math.IsInf(want, 0) && math.Abs(got.Ratio-want) > 1e-4*want {
				t.Errorf("ratio %g, want %g", got.Ratio, want)
			}
		})
	}
}

func TestParamsCoverTheWeights(t *testing.T) {
	s := Shape{Vocab: 11, Hidden: 6, Layers: 3, Heads: 2, KVHeads: 1, HeadDim: 4, Intermediate: 5, MaxContext: 7}
	flat := make([]float32, s.Size())
	for i := range flat {
		flat[i] = float32(i)
	}
	at := 0
	for _, p := range s.Params() {
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		if p.From != at || p.To != at+n {
			t.Fatalf("%s: %d to %d, want %d to %d", p.Name, p.From, p.To, at, at+n)
		}
		at = p.To
	}
	w := s.Carve(flat)
	find := func(name string) float32 {
		for _, p := range s.Params() {
			if p.Name == name {
				return float32(p.From)
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	for name, first := range map[string]float32{
		"model.embed_tokens.weight":                      w.Embed[0],
		"model.layers.1.self_attn.q_proj.weight":         w.Layers[1].QKV[0],
		"model.layers.1.self_attn.k_proj.weight":         w.Layers[1].QKV[s.Q()*s.Hidden],
		"model.layers.1.self_attn.v_proj.weight":         w.Layers[1].QKV[(s.Q()+s.KV())*s.Hidden],
		"model.layers.2.self_attn.k_norm.weight":         w.Layers[2].KNorm[0],
		"model.layers.2.self_attn.o_proj.weight":         w.Layers[2].Out[0],
		"model.layers.2.post_attention_layernorm.weight": w.Layers[2].MidNorm[0],
		"model.layers.2.mlp.gate_proj.weight":            w.Layers[2].GateUp[0],
		"model.layers.2.mlp.up_proj.weight":              w.Layers[2].GateUp[s.Intermediate*s.Hidden],
		"model.layers.2.mlp.down_proj.weight":            w.Layers[2].Down[0],
		"model.norm.weight":                              w.Norm[0],
	} {
		if want := find(name); first != want {
			t.Errorf("%s begins at %g, want %g", name, first, want)
		}
	}
}
