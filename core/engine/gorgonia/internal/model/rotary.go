package model

import (
	"math"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// Rotations are the cosines and sines of the rotary embedding, HeadDim/2 a
// position. Those for queries carry the attention's 1/√HeadDim as well.
type Rotations struct {
	half               int
	cos, sin           []float32
	queryCos, querySin []float32
}

// NewRotations tabulates positions 0 to MaxContext−1: the angle of pair i at
// position t is t·Theta^(−2i/HeadDim), rounded to float32 where Qwen3's reference
// implementation rounds.
func NewRotations(s Shape) *Rotations {
	h := s.HeadDim / 2
	n := h * s.MaxContext
	r := &Rotations{h, make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)}
	scale := 1 / math.Sqrt(float64(s.HeadDim))
	for i := range h {
		inverse := 1 / float32(math.Pow(s.Theta, float64(float32(2*i)/float32(s.HeadDim))))
		for t := range s.MaxContext {
			sin, cos := math.Sincos(float64(float32(t) * inverse))
			at := t*h + i
			r.cos[at], r.sin[at] = float32(cos), float32(sin)
			r.queryCos[at], r.querySin[at] = float32(cos*scale), float32(sin*scale)
		}
	}
	return r
}

func (r *Rotations) at(pos int, query bool) (cos, sin []float32) {
	from, to := pos*r.half, (pos+1)*r.half
	if query {
		return r.queryCos[from:to], r.querySin[from:to]
	}
	return r.cos[from:to], r.sin[from:to]
}

// Rotary normalises the query and key heads of each row of x (queries, keys and
// values side by side), rotates them to the row's position and scales the queries;
// values are copied. It keeps the heads' norm factors in r, Heads+KVHeads a row,
// unless r is nil. y may be x when r is nil.
func (s Shape) Rotary(y, r, x, qnorm, knorm []float32, rot *Rotations, pos []int) {
	w, hd, heads := s.QKV(), s.HeadDim, s.Heads+s.KVHeads
	for i, t := range pos {
		in, out := x[i*w:i*w+w], y[i*w:i*w+w]
		for h := range heads {
			v, o := in[h*hd:h*hd+hd], out[h*hd:h*hd+hd]
			f := rstd(v, s.Eps)
			if r != nil {
				r[i*heads+h] = f
			}
			gain := qnorm
			if h >= s.Heads {
				gain = knorm
			}
			simd.NormApply(o, v, gain, f)
			cos, sin := rot.at(t, h < s.Heads)
			simd.Rotate(o[:hd/2], o[hd/2:], o[:hd/2], o[hd/2:], cos, sin)
		}
		copy(out[heads*hd:], in[heads*hd:])
	}
}

// RotaryBack sets dx from dy, which it overwrites, and adds the gains' gradients.
func (s Shape) RotaryBack(dx, dqnorm, dknorm, dy, x, qnorm, knorm, r []float32, rot *Rotations, pos []int) {
	w, hd, heads := s.QKV(), s.HeadDim, s.Heads+s.KVHeads
	for i, t := range pos {
		in, d, out := x[i*w:i*w+w], dy[i*w:i*w+w], dx[i*w:i*w+w]
		clear(out[:heads*hd])
		for h := range heads {
			g := d[h*hd : h*hd+hd]
			cos, sin := rot.at(t, h < s.Heads)
			simd.Rotate(g[hd/2:], g[:hd/2], g[hd/2:], g[:hd/2], cos, sin)
			gain, dgain := qnorm, dqnorm
			if h >= s.Heads {
				gain, dgain = knorm, dknorm
			}
			normBackRow(out[h*hd:h*hd+hd], dgain, g, in[h*hd:h*hd+hd], gain, r[i*heads+h])
		}
		copy(out[heads*hd:], d[heads*hd:])
	}
}
