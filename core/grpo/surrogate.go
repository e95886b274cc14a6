package grpo

import "math"

// Sequence is one episode's part of the loss. The per-token slices have one
// length; a Weight of 0 masks a token that the policy did not sample.
type Sequence struct {
	Logp      []float64 // under the weights being trained
	Old       []float64 // when it was sampled, or recomputed before the update
	Weight    []float64 // w_i·f_it of [Weights] and [Correction]
	Advantage float64
	Reference []float64 // under the starting policy; read when KL > 0
}

// Value is what [Surrogate] computes.
type Value struct {
	Loss      float64
	Gradient  [][]float64 // of Loss by each Logp
	ClipShare float64     // share of the unmasked tokens whose gradient the clip removed (cispo: whose ratio it bounded)
	Ratio     float64     // mean over the unmasked tokens
}

// Surrogate computes the loss and its exact gradient in float64 (arXiv 2402.03300
// eq. 3; the header of the package gives the formula). It is slow and plain on
// purpose: engines are checked against it. The divergence is the estimator
// exp(d) − d − 1 with d = reference − logp (same paper, eq. 4). The entropy
// bonus needs whole distributions and is not part of it.
//
// For gspo the ratio is s = exp(mean over the unmasked tokens of logp − old)
// (arXiv 2507.18071 eq. 5), the same for every token of the sequence. For cispo
// the clipped ratio is a constant factor of A·logp (arXiv 2506.13585 eq. 4).
func Surrogate(c Config, batch []Sequence) Value {
	v := Value{Gradient: make([][]float64, len(batch))}
	tokens, clipped := 0, 0
	low, high := 1-c.ClipLow, 1+c.ClipHigh
	for i, s := range batch {
		g := make([]float64, len(s.Logp))
		v.Gradient[i] = g
		own, drift := 0, 0.0
		for t, w := range s.Weight {
			if w != 0 {
				own++
				drift += s.Logp[t] - s.Old[t]
			}
		}
		if own == 0 {
			continue
		}
		sequence := math.Exp(drift / float64(own))
		shared := 0.0 // gspo: Σ_t of each token's slope by the shared ratio
		a := s.Advantage
		for t, w := range s.Weight {
			if w == 0 {
				continue
			}
			tokens++
			ratio := Ratio(s.Logp[t], s.Old[t])
			if c.Objective == GSPO {
				ratio = sequence
			}
			v.Ratio += ratio
			bounded := math.Min(math.Max(ratio, low), high)
			switch c.Objective {
			case CISPO:
				v.Loss -= w * bounded * a * s.Logp[t]
				g[t] -= w * bounded * a
				if bounded != ratio {
					clipped++
				}
			default:
				slope := -w * ratio * a // d/dlogp of −w·ρ·A, as dρ/dlogp = ρ
				if bounded*a < ratio*a {
					v.Loss -= w * bounded * a
					slope = 0
					clipped++
				} else {
					v.Loss -= w * ratio * a
				}
				if c.Objective == GSPO {
					shared += slope
				} else {
					g[t] += slope
				}
			}
			if c.KL > 0 {
				d := s.Reference[t] - s.Logp[t]
				v.Loss += c.KL * w * (math.Exp(d) - d - 1)
				g[t] += c.KL * w * (1 - math.Exp(d))
			}
		}
		if c.Objective == GSPO {
			for t, w := range s.Weight {
				if w != 0 {
					g[t] += shared / float64(own)
				}
			}
		}
	}
	if tokens > 0 {
		v.ClipShare = float64(clipped) / float64(tokens)
		v.Ratio /= float64(tokens)
	}
	return v
}
