package model

import "fmt"

// Weights are views into one flat slice; the same type holds gradients. Matrices
// are [out,in], row-major, as on disk. QKV is q_proj, k_proj and v_proj one after
// the other, GateUp is gate_proj and up_proj, so that each is one product.
type Weights struct {
	Embed  []float32 // [Vocab,Hidden], the output matrix too
	Layers []Layer
	Norm   []float32 // [Hidden]
}

// Layer holds one decoder layer's weights.
type Layer struct {
	InNorm  []float32 // [Hidden]
	QKV     []float32 // [QKV,Hidden]
	QNorm   []float32 // [HeadDim]
	KNorm   []float32 // [HeadDim]
	Out     []float32 // [Hidden,Q]
	MidNorm []float32 // [Hidden]
	GateUp  []float32 // [2·Intermediate,Hidden]
	Down    []float32 // [Hidden,Intermediate]
}

// Param names one tensor on disk and its place in the flat slice.
type Param struct {
	Name     string
	Shape    []int
	From, To int
}

// Matrix reports whether weight decay applies: it skips vectors.
func (p Param) Matrix() bool { return len(p.Shape) == 2 }

// Params lists every tensor in the order of the flat slice, under the names that
// Hugging Face's Qwen3ForCausalLM uses.
func (s Shape) Params() []Param {
	var ps []Param
	at := 0
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		ps = append(ps, Param{name, shape, at, at + n})
		at += n
	}
	add("model.embed_tokens.weight", s.Vocab, s.Hidden)
	for l := range s.Layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		add(p+"input_layernorm.weight", s.Hidden)
		add(p+"self_attn.q_proj.weight", s.Q(), s.Hidden)
		add(p+"self_attn.k_proj.weight", s.KV(), s.Hidden)
		add(p+"self_attn.v_proj.weight", s.KV(), s.Hidden)
		add(p+"self_attn.q_norm.weight", s.HeadDim)
		add(p+"self_attn.k_norm.weight", s.HeadDim)
		add(p+"self_attn.o_proj.weight", s.Hidden, s.Q())
		add(p+"post_attention_layernorm.weight", s.Hidden)
		add(p+"mlp.gate_proj.weight", s.Intermediate, s.Hidden)
		add(p+"mlp.up_proj.weight", s.Intermediate, s.Hidden)
		add(p+"mlp.down_proj.weight", s.Hidden, s.Intermediate)
	}
	add("model.norm.weight", s.Hidden)
	return ps
}

// Size is the number of weights.
func (s Shape) Size() int {
	ps := s.Params()
	return ps[len(ps)-1].To
}

// Carve gives the views into flat, which has Size entries.
func (s Shape) Carve(flat []float32) Weights {
	take := func(n int) []float32 {
		v := flat[:n:n]
		flat = flat[n:]
		return v
	}
	w := Weights{Embed: take(s.Vocab * s.Hidden), Layers: make([]Layer, s.Layers)}
	for l := range w.Layers {
		w.Layers[l] = Layer{
			InNorm:  take(s.Hidden),
			QKV:     take(s.QKV() * s.Hidden),
			QNorm:   take(s.HeadDim),
			KNorm:   take(s.HeadDim),
			Out:     take(s.Hidden * s.Q()),
			MidNorm: take(s.Hidden),
			GateUp:  take(2 * s.Intermediate * s.Hidden),
			Down:    take(s.Hidden * s.Intermediate),
		}
	}
	w.Norm = take(s.Hidden)
	return w
}
