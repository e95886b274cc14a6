package gorgonia

import (
	"math"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
)

// reference is the model in float64, written as plainly as possible and sharing
// nothing with the engine but the order of the weights.
type reference struct {
	s model.Shape
	w map[string][]float64
}

func newReference(s model.Shape, flat []float32) reference {
	r := reference{s, map[string][]float64{}}
	for _, p := range s.Params() {
		x := make([]float64, p.To-p.From)
		for i := range x {
			x[i] = float64(flat[p.From+i])
		}
		r.w[p.Name] = x
	}
	return r
}

// times is x·wᵀ for w [out,in].
func times(x []float64, w []float64) []float64 {
	in := len(x)
	y := make([]float64, len(w)/in)
	for o := range y {
		for i, v := range x {
			y[o] += v * w[o*in+i]
		}
	}
	return y
}

func (r reference) norm(x, gain []float64) []float64 {
	var s float64
	for _, v := range x {
		s += v * v
	}
	f := 1 / math.Sqrt(s/float64(len(x))+r.s.Eps)
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v * f * gain[i]
	}
	return y
}

func (r reference) head(x, gain []float64, pos int) []float64 {
	y := r.norm(x, gain)
	h := len(y) / 2
	out := make([]float64, len(y))
	for i := range h {
		a := float64(pos) * math.Pow(r.s.Theta, -2*float64(i)/float64(2*h))
		out[i] = y[i]*math.Cos(a) - y[i+h]*math.Sin(a)
		out[i+h] = y[i+h]*math.Cos(a) + y[i]*math.Sin(a)
	}
	return out
}

// logits of every position.
func (r reference) logits(tokens []int) [][]float64 {
	s, hd := r.s, r.s.HeadDim
	x := make([][]float64, len(tokens))
	for t, id := range tokens {
		x[t] = append([]float64{}, r.w["model.embed_tokens.weight"][id*s.Hidden:(id+1)*s.Hidden]...)
	}
	params := s.Params()
	for l := range s.Layers {
		prefix := params[1+11*l].Name
		prefix = prefix[:len(prefix)-len("input_layernorm.weight")]
		w := func(n string) []float64 { return r.w[prefix+n+".weight"] }
		q, k, v := make([][][]float64, len(x)), make([][][]float64, len(x)), make([][][]float64, len(x))
		for t := range x {
			h := r.norm(x[t], w("input_layernorm"))
			qs, ks, vs := times(h, w("self_attn.q_proj")), times(h, w("self_attn.k_proj")), times(h, w("self_attn.v_proj"))
			for i := range s.Heads {
				q[t] = append(q[t], r.head(qs[i*hd:(i+1)*hd], w("self_attn.q_norm"), t))
			}
			for i := range s.KVHeads {
				k[t] = append(k[t], r.head(ks[i*hd:(i+1)*hd], w("self_attn.k_norm"), t))
				v[t] = append(v[t], vs[i*hd:(i+1)*hd])
			}
		}
		for t := range x {
			var att []float64
			for i := range s.Heads {
				kv := i / (s.Heads / s.KVHeads)
				p, sum := make([]float64, t+1), 0.0
				for j := range p {
					for e := range hd {
						p[j] += q[t][i][e] * k[j][kv][e]
					}
					p[j] = math.Exp(p[j] / math.Sqrt(float64(hd)))
					sum += p[j]
				}
				o := make([]float64, hd)
				for j := range p {
					for e := range o {
						o[e] += p[j] / sum * v[j][kv][e]
					}
				}
				att = append(att, o...)
			}
			for i, y := range times(att, w("self_attn.o_proj")) {
				x[t][i] += y
			}
			h := r.norm(x[t], w("post_attention_layernorm"))
			gate, up := times(h, w("mlp.gate_proj")), times(h, w("mlp.up_proj"))
			for i := range gate {
				gate[i] = gate[i] / (1 + math.Exp(-gate[i])) * up[i]
			}
			for i, y := range times(gate, w("mlp.down_proj")) {
				x[t][i] += y
			}
		}
	}
	out := make([][]float64, len(x))
	for t := range x {
		out[t] = times(r.norm(x[t], r.w["model.norm.weight"]), r.w["model.embed_tokens.weight"])
	}
	return out
}

// loss is the engine's contract for ForwardBackward.
func (r reference) loss(batch []engine.Datum, l engine.Loss) float64 {
	var total float64
	for _, d := range batch {
		logits := r.logits(d.Tokens[:len(d.Tokens)-1])
		for t, w := range d.Weights {
			if w == 0 {
				continue
			}
			var sum float64
			for _, z := range logits[t] {
				sum += math.Exp(z)
			}
			var entropy float64
			for _, z := range logits[t] {
				p := math.Exp(z) / sum
				entropy -= p * math.Log(p)
			}
			lp := logits[t][d.Tokens[t+1]] - math.Log(sum)
			a := float64(d.Advantage)
			if l.Kind == engine.Clipped {
				ratio := math.Exp(lp - float64(d.Old[t]))
				total -= float64(w) * math.Min(ratio*a, math.Min(math.Max(ratio, 1-l.Low), 1+l.High)*a)
			} else {
				total -= float64(w) * lp
			}
			total -= l.EntropyCof * float64(w) * entropy
		}
	}
	return total
}
