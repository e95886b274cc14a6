package gorgonia

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// choose draws a token from logits, which it overwrites when the distribution is
// tempered or cut; e is scratch of the same length. Temperature comes first, then
// TopK, then TopP on what TopK left. At temperature 0 it is the first of the largest
// logits, with logprob 0. One number of r is used per token, none at temperature 0.
// ok is false for logits that make no distribution.
func choose(logits, e []float32, q *engine.SampleRequest, r *rand.Rand) (token int, logprob float32, ok bool) {
	if q.Temperature == 0 {
		ok = true
		for i, v := range logits {
			if v > logits[token] {
				token = i
			}
			ok = ok && v == v
		}
		return token, 0, ok
	}
	if q.Temperature != 1 {
		simd.Scale(logits, logits, float32(1/q.Temperature))
	}
	top, sum := model.Exponentials(e, logits)
	cutK, cutP := q.TopK > 0 && q.TopK < len(e), q.TopP > 0 && q.TopP < 1
	if cutK || cutP {
		k := len(e)
		if cutK {
			k = q.TopK
		}
		p := 1.0
		if cutP {
			p = q.TopP
		}
		keepTop(e, k, p)
		sum = 0
		for _, v := range e {
			sum += v
		}
	}
	var total float64
	for _, v := range e {
		total += float64(v)
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return 0, 0, false
	}
	u := r.Float64() * total
	last := 0
	for i, v := range e {
		if v == 0 {
			continue
		}
		last = i
		if u -= float64(v); u < 0 {
			break
		}
	}
	return last, model.Logprob(logits[last], top, sum), true
}

// keepTop clears all but the k largest entries, and of these all but the fewest
// whose sum reaches the share p of theirs. Of equal entries the earlier are larger.
func keepTop(e []float32, k int, p float64) {
	order := make([]int, len(e))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return e[order[i]] > e[order[j]] })
	if p < 1 {
		var total, sum float64
		for _, i := range order[:k] {
			total += float64(e[i])
		}
		for n, i := range order[:k] {
			if sum += float64(e[i]); sum >= p*total {
				k = n + 1
				break
			}
		}
	}
	for _, i := range order[k:] {
		e[i] = 0
	}
}

// checkRequest names what no request may ask for.
func checkRequest(q engine.SampleRequest) string {
	switch {
	case len(q.Prompt) == 0:
		return "the prompt is empty"
	case q.MaxTokens < 0:
		return "MaxTokens is negative"
	case !(q.Temperature >= 0) || math.IsInf(q.Temperature, 0):
		return "Temperature is negative or not finite"
	case q.TopK < 0:
		return "TopK is negative"
	case !(q.TopP >= 0 && q.TopP <= 1):
		return "TopP is outside 0 to 1"
	}
	return ""
}
