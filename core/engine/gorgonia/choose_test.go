package gorgonia

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/valence-rl/valence/core/engine"
)

// Frequencies and logprobs of every way to cut a distribution, against the
// definition.
func TestChoose(t *testing.T) {
	p := []float64{0.4, 0.05, 0.3, 0.05, 0.2}
	for name, c := range map[string]struct {
		q    engine.SampleRequest
		want []float64
	}{
		"all":            {engine.SampleRequest{Temperature: 1}, p},
		"top p of 1":     {engine.SampleRequest{Temperature: 1, TopP: 1, TopK: 99}, p},
		"top 2":          {engine.SampleRequest{Temperature: 1, TopK: 2}, []float64{4. / 7, 0, 3. / 7, 0, 0}},
		"top 4, tie":     {engine.SampleRequest{Temperature: 1, TopK: 4}, []float64{0.4 / 0.95, 0.05 / 0.95, 0.3 / 0.95, 0, 0.2 / 0.95}},
		"top p 0.65":     {engine.SampleRequest{Temperature: 1, TopP: 0.65}, []float64{4. / 7, 0, 3. / 7, 0, 0}},
		"top p 0.1":      {engine.SampleRequest{Temperature: 1, TopP: 0.1}, []float64{1, 0, 0, 0, 0}},
		"top 3, p 0.75":  {engine.SampleRequest{Temperature: 1, TopK: 3, TopP: 0.75}, []float64{4. / 7, 0, 3. / 7, 0, 0}},
		"temperature .5": {engine.SampleRequest{Temperature: 0.5}, []float64{.16 / .295, .0025 / .295, .09 / .295, .0025 / .295, .04 / .295}},
		"greedy":         {engine.SampleRequest{}, []float64{1, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 40000
			r := rand.New(rand.NewPCG(1, 2))
			count := make([]float64, len(p))
			for range n {
				logits := make([]float32, len(p))
				for i, v := range p {
					logits[i] = float32(math.Log(v)) + 5
				}
				id, lp, _ := choose(logits, make([]float32, len(p)), &c.q, r)
				count[id]++
				if math.Abs(float64(lp)-math.Log(c.want[id])) > 1e-5 {
					t.Fatalf("token %d has logprob %g, want %g", id, lp, math.Log(c.want[id]))
				}
			}
			for i, w := range c.want {
				if d := count[i]/n - w; math.Abs(d) > 5*math.Sqrt(w*(1-w)/n) {
					t.Errorf("token %d: share %g, want %g", i, count[i]/n, w)
				}
			}
		})
	}
}

func TestChooseSkipsImpossibleTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	inf := float32(math.Inf(-1))
	for range 1000 {
		if id, _, ok := choose([]float32{inf, 0, inf, -200, inf}, make([]float32, 5), &engine.SampleRequest{Temperature: 1}, r); id != 1 || !ok {
			t.Fatalf("token %d of probability 0", id)
		}
	}
}
