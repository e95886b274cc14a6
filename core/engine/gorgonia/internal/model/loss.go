package model

import (
	"math"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// Exponentials sets e = e^(logits−max) and returns the maximum and e's sum.
// e may be logits.
func Exponentials(e, logits []float32) (top, sum float32) {
	top = simd.Max(logits)
	return top, simd.ExpSum(e, logits, top)
}

// Logprob is the log-probability of a token with this logit.
func Logprob(logit, top, sum float32) float32 {
	return float32(float64(logit-top) - math.Log(float64(sum)))
}

// Objective is the loss of one target token. With Clip it is
// −w·min(ρA, clip(ρ,1−Low,1+High)·A) with ρ = e^(logπ−old), else −w·logπ; Entropy
// adds −Entropy·w·H. High may be +Inf.
type Objective struct {
	Clip      bool
	Low, High float64
	Entropy   float64
}

// Term is what one target adds to the measurements.
type Term struct {
	Loss    float64
	Logprob float32
	Entropy float64 // of the whole distribution, nats
	Ratio   float64
	Clipped bool // the clip removed the gradient
}

// Loss turns a row of logits into the gradient of the target's loss, in place.
// scratch has the row's length.
func (o Objective) Loss(logits, scratch []float32, target int, w, advantage, old float32) Term {
	top, sum := Exponentials(scratch, logits)
	t := Term{Logprob: Logprob(logits[target], top, sum), Ratio: 1}
	mean := float64(simd.Dot(scratch, logits))/float64(sum) - float64(top) // of logit − top
	t.Entropy = math.Log(float64(sum)) - mean
	weight := float64(w)
	var slope float64 // dLoss/dlogπ
	if o.Clip {
		a := float64(advantage)
		t.Ratio = math.Exp(float64(t.Logprob) - float64(old))
		free, held := t.Ratio*a, min(max(t.Ratio, 1-o.Low), 1+o.High)*a
		if a == 0 {
			free, held = 0, 0
		}
		t.Loss = -weight * min(free, held)
		if free <= held {
			slope = -weight * free
		} else {
			t.Clipped = true
		}
	} else {
		t.Loss = -weight * float64(t.Logprob)
		slope = -weight
	}
	if o.Entropy == 0 {
		simd.Scale(logits, scratch, float32(-slope/float64(sum)))
		logits[target] += float32(slope)
		return t
	}
	// dH/dlogit_i = −p_i·(log p_i + H).
	t.Loss -= o.Entropy * weight * t.Entropy
	f := o.Entropy * weight
	for i, e := range scratch {
		p := float64(e) / float64(sum)
		g := -slope * p
		if p > 0 {
			g += f * p * (math.Log(p) + t.Entropy)
		}
		logits[i] = float32(g)
	}
	logits[target] += float32(slope)
	return t
}
