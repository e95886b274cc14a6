// Package decode runs the model forward for sampling, with keys and values kept
// between calls. Reading a prompt and decoding are the same thing: tokens at
// positions go through the layers, as many at once as there are. A token's logits
// and its keys and values have the same bits whatever else is computed with it, and
// the same as in training.
package decode

import (
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/matrix"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

// Decoder holds the weights as the products want them.
type Decoder struct {
	shape     model.Shape
	weights   model.Weights
	rotations *model.Rotations
	layers    []layer
	head      matrix.Packed
}

type layer struct{ qkv, out, gateUp, down matrix.Packed }

// New gives a decoder over w; call Refresh before the first Forward.
func New(s model.Shape, rot *model.Rotations, w model.Weights) *Decoder {
	return &Decoder{shape: s, weights: w, rotations: rot, layers: make([]layer, s.Layers)}
}

// Refresh takes over weights that have changed. Not while Forward runs.
func (d *Decoder) Refresh() {
	s := d.shape
	pack := func(p *matrix.Packed, w []float32, in, out int) {
		*p = matrix.Pack(p.Buffer(), in, out, matrix.Of(w, in).T())
	}
	for i, w := range d.weights.Layers {
		l := &d.layers[i]
		pack(&l.qkv, w.QKV, s.Hidden, s.QKV())
		pack(&l.out, w.Out, s.Q(), s.Hidden)
		pack(&l.gateUp, w.GateUp, s.Hidden, 2*s.Intermediate)
		pack(&l.down, w.Down, s.Intermediate, s.Hidden)
	}
	pack(&d.head, d.weights.Embed, s.Hidden, s.Vocab)
}

// Cache is one sequence's keys and values. The zero Cache is empty.
type Cache struct{ pages [][]float32 }

// Grow makes room for n positions with pages from p.
func (c *Cache) Grow(p *Pages, n int) {
	for len(c.pages)*model.Page < n {
		c.pages = append(c.pages, p.take())
	}
}

// Shrink gives back the pages behind the first n positions.
func (c *Cache) Shrink(p *Pages, n int) {
	keep := (n + model.Page - 1) / model.Page
	for i := keep; i < len(c.pages); i++ {
		p.free = append(p.free, c.pages[i])
		c.pages[i] = nil
	}
	c.pages = c.pages[:min(keep, len(c.pages))]
}

// Bytes is the memory the cache holds.
func (c *Cache) Bytes(s model.Shape) int { return 4 * len(c.pages) * s.PageLen() }

// Pages hands out pages and keeps those given back for reuse. It is not safe for
// concurrent use.
type Pages struct {
	shape model.Shape
	free  [][]float32
}

// NewPages makes an empty store for a model's pages.
func NewPages(s model.Shape) *Pages { return &Pages{shape: s} }

func (p *Pages) take() []float32 {
	n := len(p.free)
	if n == 0 {
		return make([]float32, p.shape.PageLen())
	}
	page := p.free[n-1]
	p.free = p.free[:n-1]
	// The rest of a page is multiplied by 0: it must be finite.
	clear(page)
	return page
}

// Trim lets the garbage collector have the unused pages above so many bytes.
func (p *Pages) Trim(bytes int) {
	if keep := max(0, bytes/(4*p.shape.PageLen())); len(p.free) > keep {
		clear(p.free[keep:])
		p.free = p.free[:keep]
	}
}

// Item is one sequence's share of a forward pass: Tokens at Pos and following, whose
// Cache holds the positions before and has room for them. Logits, of length Vocab,
// receives what follows the last token; nil if nobody asks.
type Item struct {
	Tokens []int
	Pos    int
	Cache  *Cache
	Logits []float32
}

// Scratch is one worker's memory; it grows as needed.
type Scratch struct {
	x, n, qkv, att, gateUp, h, p, last, logits []float32
	pos                                        []int
}

func sized[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}

// Forward computes the items on the caller's goroutine.
func (d *Decoder) Forward(t *Scratch, items []Item) {
	s := d.shape
	rows, wanted, longest := 0, 0, 0
	for _, it := range items {
		rows += len(it.Tokens)
		longest = max(longest, it.Pos+len(it.Tokens))
		if it.Logits != nil {
			wanted++
		}
	}
	hid, w, q, hd := s.Hidden, s.QKV(), s.Q(), s.HeadDim
	group := s.Heads / s.KVHeads
	ld := model.Stride(longest)
	x, n, qkv, att := sized(&t.x, rows*hid), sized(&t.n, rows*hid), sized(&t.qkv, rows*w), sized(&t.att, rows*q)
	gateUp, h, pos := sized(&t.gateUp, rows*2*s.Intermediate), sized(&t.h, rows*s.Intermediate), sized(&t.pos, rows)
	serial := workers.Pool{}
	r := 0
	for _, it := range items {
		for i, id := range it.Tokens {
			copy(x[r*hid:], d.weights.Embed[id*hid:(id+1)*hid])
			pos[r] = it.Pos + i
			r++
		}
	}
	for l := range d.layers {
		p, lw := &d.layers[l], &d.weights.Layers[l]
		model.Norm(n, nil, x, lw.InNorm, rows, s.Eps)
		matrix.Multiply(serial, rows, matrix.Of(n, hid), p.qkv, qkv, w, false)
		s.Rotary(qkv, nil, qkv, lw.QNorm, lw.KNorm, d.rotations, pos)
		r := 0
		for _, it := range items {
			m := len(it.Tokens)
			mine, out := qkv[r*w:], att[r*q:]
			for head := range s.KVHeads {
				kv := model.KV{Pages: it.Cache.pages, Offset: s.Slot(l, head)}
				k := q + head*hd
				v := k + s.KV()
				for i := range m {
					kv.Put(s, it.Pos+i, mine[i*w+k:], mine[i*w+v:])
				}
				if m == 1 { // the group's heads are the queries
					at := head * group * hd
					s.Attend(out[at:], hd, model.Queries{N: group, Data: mine[at:], Stride: hd, Pos: it.Pos}, kv, sized(&t.p, group*ld), ld)
					continue
				}
				for g := range group {
					at := (head*group + g) * hd
					s.Attend(out[at:], q, model.Queries{N: m, Data: mine[at:], Stride: w, Pos: it.Pos, Step: 1}, kv, sized(&t.p, m*ld), ld)
				}
			}
			r += m
		}
		matrix.Multiply(serial, rows, matrix.Of(att, q), p.out, x, hid, true)
		model.Norm(n, nil, x, lw.MidNorm, rows, s.Eps)
		matrix.Multiply(serial, rows, matrix.Of(n, hid), p.gateUp, gateUp, 2*s.Intermediate, false)
		model.SwiGLU(h, gateUp, rows, s.Intermediate)
		matrix.Multiply(serial, rows, matrix.Of(h, s.Intermediate), p.down, x, hid, true)
	}
	if wanted == 0 {
		return
	}
	last, logits := sized(&t.last, wanted*hid), sized(&t.logits, wanted*s.Vocab)
	r, i := 0, 0
	for _, it := range items {
		r += len(it.Tokens)
		if it.Logits != nil {
			copy(last[i*hid:], x[(r-1)*hid:r*hid])
			i++
		}
	}
	model.Norm(last, nil, last, d.weights.Norm, wanted, s.Eps)
	matrix.Multiply(serial, wanted, matrix.Of(last, hid), d.head, logits, s.Vocab, false)
	i = 0
	for _, it := range items {
		if it.Logits != nil {
			copy(it.Logits, logits[i*s.Vocab:(i+1)*s.Vocab])
			i++
		}
	}
}
