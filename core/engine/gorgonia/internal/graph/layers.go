package graph

import (
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/matrix"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// Rows per block where a reduction goes over rows: part of the result, since the
// blocks' sums are added one after the other.
const blockRows = 64

// builder assembles the graph. Its errors stick: the first one is reported by Build.
type builder struct {
	*state
	ops     int
	err     error
	scratch map[string][]float32
}

func (b *builder) new(name string, out []float32, shape ...int) *op {
	b.ops++
	o := &op{name: name, id: b.ops, dims: len(shape), state: b.state}
	if len(shape) == 0 {
		o.out = new(G.F32)
	} else {
		o.out = dense(out, shape...)
	}
	return o
}

func dense(data []float32, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

func (b *builder) apply(o *op, in ...*G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	o.args = len(in)
	n, err := G.ApplyOp(o, in...)
	b.err = err
	return n
}

// rows is a fresh buffer for an activation of the given width.
func (b *builder) rows(width int) []float32 { return make([]float32, b.capacity*width) }

// shared is a buffer for a gradient that all layers use in turn. That is safe since
// each backward operator needs the one before it: a layer's gradients have all been
// read when the layer below begins to write its own.
func (b *builder) shared(name string, width int) []float32 {
	if b.scratch[name] == nil {
		b.scratch[name] = b.rows(width)
	}
	return b.scratch[name]
}

// side is a node for a gradient that an operator wrote beside its output, since a
// Gorgonia operator has one output only.
func (b *builder) side(name string, after *G.Node, grad []float32, shape ...int) *G.Node {
	o := b.new(name, grad, shape...)
	o.do = func([]G.Value) error { return nil }
	return b.apply(o, after)
}

// embed looks up the table's rows of the batch's tokens.
func (b *builder) embed(table, tokens *G.Node, grad []float32) *G.Node {
	d := b.shape.Hidden
	x := b.rows(d)
	o := b.new("embed", x, b.capacity, d)
	o.wrt = []bool{true, false}
	o.do = func(in []G.Value) error {
		w, ids := floats(in[0]), ints(in[1])
		for i, id := range ids[:b.batch.Rows] {
			copy(x[i*d:i*d+d], w[id*d:id*d+d])
		}
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		back := b.new("embedBack", grad, b.shape.Vocab, d)
		back.do = func(v []G.Value) error {
			dx, ids := floats(v[0]), ints(v[1])
			// Columns are dealt out, not rows: two rows may hold one token.
			b.pool.Rows(d, 32, func(_, _, from, to int) {
				for i, id := range ids[:b.batch.Rows] {
					simd.AddScaled(grad[id*d+from:id*d+to], dx[i*d+from:i*d+to], 1)
				}
			})
			return nil
		}
		return G.Nodes{b.apply(back, g, in[1]), nil}, b.err
	}
	return b.apply(o, table, tokens)
}

// norm is RMSNorm over the rows of x. With branch it opens a residual branch: its
// backward operator adds to the gradient of the residual stream in place, where the
// projection that closes the branch found it, so that the two paths of x's gradient
// meet without an operator to add them.
func (b *builder) norm(x, gain *G.Node, grad []float32, rows *int, branch bool) *G.Node {
	d := b.shape.Hidden
	y, r := b.rows(d), b.rows(1)
	o := b.new("norm", y, b.capacity, d)
	o.wrt = []bool{true, true}
	o.do = func(in []G.Value) error {
		x, w := floats(in[0]), floats(in[1])
		b.pool.Rows(*rows, blockRows, func(_, _, from, to int) {
			model.Norm(y[from*d:], r[from:], x[from*d:], w, to-from, b.shape.Eps)
		})
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		dx := b.stream
		if !branch {
			dx = b.shared("norm", d)
		}
		parts := b.shared("gains", (d+blockRows-1)/blockRows)
		back := b.new("normBack", dx, b.capacity, d)
		back.do = func(v []G.Value) error {
			dy, x, w := floats(v[0]), floats(v[1]), floats(v[2])
			n := *rows
			if !branch {
				clear(dx[:n*d])
			}
			b.pool.Rows(n, blockRows, func(_, block, from, to int) {
				part := parts[block*d : block*d+d]
				clear(part)
				model.NormBack(dx[from*d:], part, dy[from*d:], x[from*d:], w, r[from:], to-from)
			})
			addParts(grad, parts, n)
			return nil
		}
		node := b.apply(back, g, in[0], in[1])
		return G.Nodes{node, b.side("normGain", node, grad, d)}, b.err
	}
	return b.apply(o, x, gain)
}

// addParts adds the blocks' sums to grad, in order.
func addParts(grad, parts []float32, rows int) {
	d := len(grad)
	for i := 0; i*blockRows < rows; i++ {
		simd.AddScaled(grad, parts[i*d:i*d+d], 1)
	}
}

// linear is y = x·wᵀ with w [out,in]. With residual, y also contains that node's
// value and takes part in the residual stream: see norm for its gradient.
func (b *builder) linear(name string, x, w, residual *G.Node, grad []float32, in, out int, rows *int) *G.Node {
	y := b.rows(out)
	if name == "head" {
		b.logits = y
	}
	o := b.new(name, y, b.capacity, out)
	o.wrt = []bool{true, true}
	nodes := G.Nodes{x, w}
	if residual != nil {
		o.wrt = append(o.wrt, false)
		nodes = append(nodes, residual)
	}
	o.do = func(v []G.Value) error {
		n := *rows
		if residual != nil {
			copy(y[:n*out], floats(v[2]))
		}
		matrix.Product(b.pool, n, out, in, matrix.Of(floats(v[0]), in), matrix.Of(floats(v[1]), in).T(), y, out, residual != nil)
		return nil
	}
	o.grad = func(nodes G.Nodes, g *G.Node) (G.Nodes, error) {
		dx := b.shared(name, in)
		back := b.new(name+"Back", dx, b.capacity, in)
		back.do = func(v []G.Value) error {
			n := *rows
			dy, x, w := floats(v[0]), floats(v[1]), floats(v[2])
			matrix.Product(b.pool, out, in, n, matrix.Of(dy, out).T(), matrix.Of(x, in), grad, in, true)
			matrix.Product(b.pool, n, in, out, matrix.Of(dy, out), matrix.Of(w, in), dx, in, false)
			return nil
		}
		node := b.apply(back, g, nodes[0], nodes[1])
		return append(G.Nodes{node, b.side(name+"Weight", node, grad, out, in)}, make(G.Nodes, len(nodes)-2)...), b.err
	}
	return b.apply(o, nodes...)
}

// rotary normalises and rotates queries and keys, and scales the queries.
func (b *builder) rotary(x, qnorm, knorm *G.Node, dq, dk []float32) *G.Node {
	s := b.shape
	w, hd, heads := s.QKV(), s.HeadDim, s.Heads+s.KVHeads
	y, r := b.rows(w), b.rows(heads)
	o := b.new("rotary", y, b.capacity, w)
	o.wrt = []bool{true, true, true}
	o.do = func(in []G.Value) error {
		x, q, k := floats(in[0]), floats(in[1]), floats(in[2])
		b.pool.Rows(b.batch.Rows, blockRows, func(_, _, from, to int) {
			s.Rotary(y[from*w:], r[from*heads:], x[from*w:], q, k, b.rotations, b.batch.positions[from:to])
		})
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		dx := b.shared("rotary", w)
		parts := b.shared("headGains", (2*hd+blockRows-1)/blockRows)
		both := make([]float32, 2*hd)
		back := b.new("rotaryBack", dx, b.capacity, w)
		back.do = func(v []G.Value) error {
			dy, x, q, k := floats(v[0]), floats(v[1]), floats(v[2]), floats(v[3])
			n := b.batch.Rows
			b.pool.Rows(n, blockRows, func(_, block, from, to int) {
				part := parts[block*2*hd : (block+1)*2*hd]
				clear(part)
				s.RotaryBack(dx[from*w:], part[:hd], part[hd:], dy[from*w:], x[from*w:], q, k, r[from*heads:], b.rotations, b.batch.positions[from:to])
			})
			clear(both)
			addParts(both, parts, n)
			simd.AddScaled(dq, both[:hd], 1)
			simd.AddScaled(dk, both[hd:], 1)
			return nil
		}
		node := b.apply(back, append(G.Nodes{g}, in...)...)
		return G.Nodes{node, b.side("queryGain", node, dq, hd), b.side("keyGain", node, dk, hd)}, b.err
	}
	return b.apply(o, x, qnorm, knorm)
}

// attention is causal attention within each of the batch's sequences.
func (b *builder) attention(x *G.Node) *G.Node {
	s := b.shape
	w, q := s.QKV(), s.Q()
	y := b.rows(q)
	var probs []float32 // of every sequence and head, one after the other
	at := func(i, head int) (from, to int) {
		seg := b.batch.segments[i]
		n := seg.n * model.Stride(seg.n)
		return s.Heads*seg.probs + head*n, s.Heads*seg.probs + (head+1)*n
	}
	o := b.new("attention", y, b.capacity, q)
	o.wrt = []bool{true}
	o.do = func(in []G.Value) error {
		x := floats(in[0])
		if n := s.Heads * b.batch.probs; cap(probs) < n {
			probs = make([]float32, n)
		}
		b.pool.Run(len(b.batch.segments)*s.KVHeads, func(worker, task int) {
			i, head := task/s.KVHeads, task%s.KVHeads
			seg := b.batch.segments[i]
			rows := x[seg.from*w:]
			kv := model.KV{Pages: b.pages[worker]}
			clear(kv.Pages[(seg.n-1)/model.Page])
			k := q + head*s.HeadDim
			v := k + s.KV()
			for j := range seg.n {
				kv.Put(s, j, rows[j*w+k:], rows[j*w+v:])
			}
			group := s.Heads / s.KVHeads
			for h := head * group; h < (head+1)*group; h++ {
				from, to := at(i, h)
				s.Attend(y[seg.from*q+h*s.HeadDim:], q, model.Queries{N: seg.n, Data: rows[h*s.HeadDim:], Stride: w, Step: 1}, kv, probs[from:to:to], model.Stride(seg.n))
			}
		})
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		dx := b.shared("attention", w)
		back := b.new("attentionBack", dx, b.capacity, w)
		back.do = func(v []G.Value) error {
			dy, x := floats(v[0]), floats(v[1])
			b.pool.Run(len(b.batch.segments)*s.KVHeads, func(worker, task int) {
				i, head := task/s.KVHeads, task%s.KVHeads
				seg := b.batch.segments[i]
				s.AttendBack(&b.attend[worker], dx[seg.from*w:], dy[seg.from*q:], x[seg.from*w:], func(h int) []float32 {
					from, to := at(i, h)
					return probs[from:to]
				}, seg.n, head)
			})
			return nil
		}
		return G.Nodes{b.apply(back, g, in[0])}, b.err
	}
	return b.apply(o, x)
}

func (b *builder) swiglu(x *G.Node) *G.Node {
	n := b.shape.Intermediate
	h := b.rows(n)
	o := b.new("swiglu", h, b.capacity, n)
	o.wrt = []bool{true}
	o.do = func(in []G.Value) error {
		x := floats(in[0])
		b.pool.Rows(b.batch.Rows, blockRows, func(_, _, from, to int) {
			model.SwiGLU(h[from*n:], x[from*2*n:], to-from, n)
		})
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		dx := b.shared("swiglu", 2*n)
		back := b.new("swigluBack", dx, b.capacity, 2*n)
		back.do = func(v []G.Value) error {
			dh, x := floats(v[0]), floats(v[1])
			b.pool.Rows(b.batch.Rows, blockRows, func(_, _, from, to int) {
				model.SwiGLUBack(dx[from*2*n:], dh[from*n:], x[from*2*n:], to-from, n)
			})
			return nil
		}
		return G.Nodes{b.apply(back, g, in[0])}, b.err
	}
	return b.apply(o, x)
}

// pick keeps the rows whose target counts; the others need no logits. Its backward
// operator starts the gradient of the residual stream.
func (b *builder) pick(x, rows *G.Node) *G.Node {
	d := b.shape.Hidden
	y := b.rows(d)
	o := b.new("pick", y, b.capacity, d)
	o.wrt = []bool{true, false}
	o.do = func(in []G.Value) error {
		x := floats(in[0])
		for i, r := range ints(in[1])[:b.batch.Picked] {
			copy(y[i*d:i*d+d], x[r*d:r*d+d])
		}
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		back := b.new("pickBack", b.stream, b.capacity, d)
		back.do = func(v []G.Value) error {
			dy := floats(v[0])
			clear(b.stream[:b.batch.Rows*d])
			for i, r := range ints(v[1])[:b.batch.Picked] {
				copy(b.stream[r*d:r*d+d], dy[i*d:i*d+d])
			}
			return nil
		}
		return G.Nodes{b.apply(back, g, in[1]), nil}, b.err
	}
	return b.apply(o, x, rows)
}

// loss sums the targets' losses. It turns the logits into their gradient in place:
// nobody else reads them.
func (b *builder) loss(logits, targets, weights, advantages, olds *G.Node) *G.Node {
	v := b.shape.Vocab
	o := b.new("loss", nil)
	o.wrt = []bool{true, false, false, false, false}
	o.do = func(in []G.Value) error {
		l, target, w, a, old := floats(in[0]), ints(in[1]), floats(in[2]), floats(in[3]), floats(in[4])
		batch := b.batch
		b.pool.Rows(batch.Picked, blockRows, func(worker, _, from, to int) {
			for i := from; i < to; i++ {
				batch.terms[i] = batch.Objective.Loss(l[i*v:i*v+v], b.row[worker], target[i], w[i], a[i], old[i])
			}
		})
		var sum float64
		for _, t := range batch.terms[:batch.Picked] {
			sum += t.Loss
		}
		*o.out.(*G.F32) = G.F32(sum)
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return errNotFinite
		}
		return nil
	}
	o.grad = func(in G.Nodes, g *G.Node) (G.Nodes, error) {
		back := b.new("lossBack", b.logits, b.capacity, v)
		back.do = func([]G.Value) error {
			return nil // the gradient is in place already
		}
		return G.Nodes{b.apply(back, g, in[0]), nil, nil, nil, nil}, b.err
	}
	return b.apply(o, logits, targets, weights, advantages, olds)
}
