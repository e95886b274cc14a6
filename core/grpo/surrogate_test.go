package grpo

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// One token, by hand.
func TestSurrogate(t *testing.T) {
	for _, c := range []struct {
		name                    string
		preset                  string
		ratio, advantage        float64
		loss, gradient, clipped float64
	}{
		{"inside", "grpo", 1.1, 2, -2.2, -2.2, 0},
		{"above, A>0", "grpo", 1.5, 2, -2.4, 0, 1},
		{"above, A<0", "grpo", 1.5, -2, 3, 3, 0},
		{"below, A>0", "grpo", .5, 2, -1, -1, 0},
		{"below, A<0", "grpo", .5, -2, 1.6, 0, 1},
		{"open above", "grpo++", 7, 2, -14, -14, 0},
		{"open above, below", "grpo++", .5, -2, 1.6, 0, 1},
		{"nothing clipped", "rloo", .01, -2, .02, .02, 0},
		{"cispo above", "cispo", 10, 2, -12 * math.Log(10), -12, 1},
		{"gspo of one token", "gspo", 1.5, 2, -2.0008, 0, 1},
	} {
		v := Surrogate(preset(t, c.preset), []Sequence{{
			Logp: []float64{math.Log(c.ratio), 5}, Old: []float64{0, 0}, Weight: []float64{1, 0}, Advantage: c.advantage,
		}})
		for _, p := range []struct {
			what      string
			got, want float64
		}{{"loss", v.Loss, c.loss}, {"gradient", v.Gradient[0][0], c.gradient}, {"masked gradient", v.Gradient[0][1], 0},
			{"clip share", v.ClipShare, c.clipped}, {"ratio", v.Ratio, c.ratio}} {
			if math.Abs(p.got-p.want) > 1e-9 {
				t.Errorf("%s: %s %v, want %v", c.name, p.what, p.got, p.want)
			}
		}
	}
	empty := Surrogate(preset(t, "grpo"), []Sequence{{Logp: []float64{0}, Old: []float64{0}, Weight: []float64{0}}})
	if empty.Loss != 0 || empty.Ratio != 0 || empty.ClipShare != 0 {
		t.Errorf("all masked: %+v", empty)
	}
}

// The gradient is that of the loss, by central differences, away from the kinks.
// cispo is left out: its gradient is by definition not that of its value.
func TestSurrogateGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := preset(t, rapid.SampledFrom([]string{"grpo", "grpo++", "rloo", "gspo"}).Draw(t, "preset"))
		c.ClipLow, c.ClipHigh = math.Max(c.ClipLow, .1), math.Max(c.ClipHigh, .1)
		c.KL = rapid.SampledFrom([]float64{0, .1}).Draw(t, "kl")
		n := rapid.IntRange(1, 5).Draw(t, "n")
		s := Sequence{Advantage: rapid.Float64Range(-2, 2).Draw(t, "advantage")}
		drift, own := 0.0, 0
		for range n {
			s.Old = append(s.Old, rapid.Float64Range(-3, 0).Draw(t, "old"))
			s.Logp = append(s.Logp, rapid.Float64Range(-3, 0).Draw(t, "logp"))
			s.Reference = append(s.Reference, rapid.Float64Range(-3, 0).Draw(t, "reference"))
			s.Weight = append(s.Weight, rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "weight"))
			i := len(s.Old) - 1
			if s.Weight[i] != 0 {
				drift += s.Logp[i] - s.Old[i]
				own++
			}
			if kink(c, Ratio(s.Logp[i], s.Old[i])) {
				return
			}
		}
		if own > 0 && kink(c, math.Exp(drift/float64(own))) {
			return
		}
		v := Surrogate(c, []Sequence{s})
		const h = 1e-6
		for i := range s.Logp {
			at := s.Logp[i]
			s.Logp[i] = at + h
			up := Surrogate(c, []Sequence{s}).Loss
			s.Logp[i] = at - h
			down := Surrogate(c, []Sequence{s}).Loss
			s.Logp[i] = at
			want := (up - down) / (2 * h)
			if math.Abs(want-v.Gradient[0][i]) > 1e-5*math.Max(1, math.Abs(want)) {
				t.Fatalf("token %d: gradient %v, differences give %v", i, v.Gradient[0][i], want)
			}
		}
	})
}

func kink(c Config, ratio float64) bool {
	return math.Abs(ratio-1+c.ClipLow) < 1e-3 || math.Abs(ratio-1-c.ClipHigh) < 1e-3
}
