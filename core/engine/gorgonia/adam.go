package gorgonia

import (
	"context"
	"math"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// chunk is the number of weights summed or updated at once: part of the result,
// since the gradient's norm adds the chunks' sums in order.
const chunk = 1 << 14

// OptimStep implements [engine.Engine] with AdamW (Loshchilov and Hutter 2019):
// decoupled decay on matrices only, after clipping the gradient's global norm. With
// no gradients held it still counts as a step. A norm that is not finite is an error
// of KindPolicy; the weights stay and the gradients are dropped.
func (e *Engine) OptimStep(ctx context.Context, p engine.AdamParams) (engine.StepResult, error) {
	const op = "optimizer step"
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&p.Beta1, 0.9)
	def(&p.Beta2, 0.95)
	def(&p.Eps, 1e-8)
	for _, f := range []struct {
		name     string
		v        float64
		min, max float64
	}{{"learning rate", p.LearningRate, 0, math.MaxFloat32}, {"beta1", p.Beta1, 0, 1}, {"beta2", p.Beta2, 0, 1}, {"eps", p.Eps, 0, 1}, {"weight decay", p.WeightDecay, 0, math.MaxFloat32}, {"clip norm", p.ClipNorm, 0, math.MaxFloat32}} {
		if !(f.v >= f.min && f.v <= f.max) || f.max == 1 && f.v == 1 {
			return engine.StepResult{}, diag.Errorf(diag.KindConfig, op, f.name, "%g is out of range", f.v)
		}
	}
	if err := ctx.Err(); err != nil {
		return engine.StepResult{}, diag.Wrap(diag.KindUnknown, op, "", err)
	}
	e.weights.Lock()
	defer e.weights.Unlock()
	if err := e.prepare(); err != nil {
		return engine.StepResult{}, diag.Wrap(diag.KindPolicy, op, "", err)
	}
	norm := e.gradientNorm()
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		e.dropGradients()
		return engine.StepResult{}, diag.Errorf(diag.KindPolicy, op, "", "the gradient's norm is %g: nothing was updated", norm)
	}
	s := e.state
	s.step++
	f := simd.AdamFactors{
		Gradient: 1, Beta1: float32(p.Beta1), OneBeta1: float32(1 - p.Beta1), Beta2: float32(p.Beta2), OneBeta2: float32(1 - p.Beta2),
		Correction: float32(1 / (1 - math.Pow(p.Beta2, float64(s.step)))), Eps: float32(p.Eps),
		Rate: float32(p.LearningRate / (1 - math.Pow(p.Beta1, float64(s.step)))), Keep: 1,
	}
	if p.ClipNorm > 0 && norm > p.ClipNorm {
		f.Gradient = float32(p.ClipNorm / norm)
	}
	decayed := f
	decayed.Keep = float32(1 - p.LearningRate*p.WeightDecay)
	e.pool.Run(len(e.params), func(_, i int) {
		t, k := e.params[i], f
		if t.Matrix() {
			k = decayed
		}
		simd.Adam(s.weights[t.From:t.To], e.gradients[t.From:t.To], s.m[t.From:t.To], s.v[t.From:t.To], k)
	})
	s.version++
	e.dropGradients()
	e.changed()
	return engine.StepResult{GradNorm: norm, Version: s.version}, nil
}

// gradientNorm is the Euclidean norm over all held gradients.
func (e *Engine) gradientNorm() float64 {
	g := e.gradients
	sums := make([]float64, (len(g)+chunk-1)/chunk)
	e.pool.Rows(len(g), chunk, func(_, i, from, to int) {
		sums[i] = float64(simd.Dot(g[from:to], g[from:to]))
	})
	var total float64
	for _, s := range sums {
		total += s
	}
	return math.Sqrt(total)
}
