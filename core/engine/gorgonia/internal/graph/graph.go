// Package graph trains the model with Gorgonia: one graph of fused operators,
// differentiated symbolically, compiled once and run for every micro-batch.
//
// The graph has one fixed shape, a capacity of rows. A micro-batch lays its
// sequences one behind the other, without padding, and every operator computes
// only the rows in use; attention keeps to the sequences' bounds. So no second
// graph is ever needed, whatever the lengths.
package graph

import (
	"errors"
	"fmt"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/matrix"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

var errNotFinite = errors.New("the loss is not finite: the policy has diverged, or a weight, advantage or old logprob is out of range")

// install gives Gorgonia's own operators our matrix product, once a process:
// Gorgonia knows one BLAS for all graphs.
var install = sync.OnceFunc(func() { G.Use(matrix.BLAS{Workers: workers.New(1)}) })

// Graph is the compiled training step. It is used by one goroutine at a time.
type Graph struct {
	*state
	machine interface {
		RunAll() error
		Reset()
	}
}

// state is what the operators share. They must not reach the machine: it has a
// finalizer and holds them, and the garbage collector frees no such cycle.
type state struct {
	shape     model.Shape
	capacity  int
	pool      workers.Pool
	rotations *model.Rotations
	batch     *Batch
	failure   error // of an operator in this run

	stream []float32       // the residual stream's gradient
	logits []float32       // then their gradient
	pages  [][][]float32   // each worker's keys and values of one sequence and head
	row    [][]float32     // each worker's scratch of a row of logits
	attend []model.Scratch // each worker's
}

// Batch is one micro-batch: sequences one behind the other, and the targets among
// their rows. Fill it with Add; the slices belong to the graph's inputs.
type Batch struct {
	Objective model.Objective
	Rows      int // in use
	Picked    int // targets

	tokens    []int // of each row
	positions []int
	segments  []segment
	probs     int // attention probabilities of one head, over all sequences

	rows       []int // of each target
	targets    []int
	weights    []float32
	advantages []float32
	olds       []float32
	terms      []model.Term
}

// segment is one sequence's rows; probs counts the probabilities before its own.
type segment struct{ from, n, probs int }

// Target is one token to learn: the row before it predicts it.
type Target struct {
	Position               int // of the predicting token in its sequence
	Token                  int
	Weight, Advantage, Old float32
}

// Reset empties the batch.
func (b *Batch) Reset() {
	b.Rows, b.Picked, b.probs = 0, 0, 0
	b.segments = b.segments[:0]
}

// Fits reports whether a sequence of n tokens has room.
func (b *Batch) Fits(n int) bool { return b.Rows+n <= len(b.tokens) }

// Add appends a sequence that Fits and its targets, and returns the index of the
// first target's term.
func (b *Batch) Add(tokens []int, targets []Target) int {
	for i, id := range tokens {
		b.tokens[b.Rows+i], b.positions[b.Rows+i] = id, i
	}
	first := b.Picked
	for _, t := range targets {
		i := b.Picked
		b.rows[i], b.targets[i] = b.Rows+t.Position, t.Token
		b.weights[i], b.advantages[i], b.olds[i] = t.Weight, t.Advantage, t.Old
		b.Picked++
	}
	b.segments = append(b.segments, segment{b.Rows, len(tokens), b.probs})
	b.Rows += len(tokens)
	b.probs += len(tokens) * model.Stride(len(tokens))
	return first
}

// Term gives what the last Run measured for a target.
func (b *Batch) Term(i int) model.Term { return b.terms[i] }

// Build makes the graph over weights w and the gradients g that Run adds to.
func Build(s model.Shape, rot *model.Rotations, w, g model.Weights, capacity int, pool workers.Pool) (*Graph, error) {
	install()
	gr := &state{shape: s, capacity: capacity, pool: pool, rotations: rot, batch: &Batch{
		tokens: make([]int, capacity), positions: make([]int, capacity), rows: make([]int, capacity), targets: make([]int, capacity),
		weights: make([]float32, capacity), advantages: make([]float32, capacity), olds: make([]float32, capacity), terms: make([]model.Term, capacity),
	}}
	gr.stream = make([]float32, capacity*s.Hidden)
	for range pool.Size() {
		pages := make([][]float32, (s.MaxContext+model.Page-1)/model.Page)
		for i := range pages {
			pages[i] = make([]float32, s.PageLen()/(s.Layers*s.KVHeads))
		}
		gr.pages = append(gr.pages, pages)
		gr.row = append(gr.row, make([]float32, s.Vocab))
	}
	gr.attend = make([]model.Scratch, pool.Size())

	b := &builder{state: gr, scratch: map[string][]float32{}}
	exprs := G.NewGraph()
	var params G.Nodes
	// Names are unique: Gorgonia takes two unnamed inputs of one shape for the same.
	param := func(name string, data []float32, shape ...int) *G.Node {
		n := G.NewTensor(exprs, tensor.Float32, len(shape), G.WithName(name), G.WithShape(shape...), G.WithValue(dense(data, shape...)))
		params = append(params, n)
		return n
	}
	input := func(name string, of tensor.Dtype, data any) *G.Node {
		return G.NewVector(exprs, of, G.WithName(name), G.WithShape(capacity), G.WithValue(tensor.New(tensor.WithShape(capacity), tensor.WithBacking(data))))
	}
	in := gr.batch
	tokens, rows, targets := input("tokens", tensor.Int, in.tokens), input("rows", tensor.Int, in.rows), input("targets", tensor.Int, in.targets)
	weights, advantages, olds := input("weights", tensor.Float32, in.weights), input("advantages", tensor.Float32, in.advantages), input("olds", tensor.Float32, in.olds)

	d := s.Hidden
	x := b.embed(param("embed", w.Embed, s.Vocab, d), tokens, g.Embed)
	for l, p := range w.Layers {
		q := g.Layers[l]
		name := func(n string) string { return fmt.Sprintf("layer%d.%s", l, n) }
		h := b.norm(x, param(name("in_norm"), p.InNorm, d), q.InNorm, &in.Rows, true)
		h = b.linear("qkv", h, param(name("qkv"), p.QKV, s.QKV(), d), nil, q.QKV, d, s.QKV(), &in.Rows)
		h = b.rotary(h, param(name("q_norm"), p.QNorm, s.HeadDim), param(name("k_norm"), p.KNorm, s.HeadDim), q.QNorm, q.KNorm)
		h = b.attention(h)
		x = b.linear("out", h, param(name("out"), p.Out, d, s.Q()), x, q.Out, s.Q(), d, &in.Rows)
		h = b.norm(x, param(name("mid_norm"), p.MidNorm, d), q.MidNorm, &in.Rows, true)
		h = b.linear("gateUp", h, param(name("gate_up"), p.GateUp, 2*s.Intermediate, d), nil, q.GateUp, d, 2*s.Intermediate, &in.Rows)
		h = b.swiglu(h)
		x = b.linear("down", h, param(name("down"), p.Down, d, s.Intermediate), x, q.Down, s.Intermediate, d, &in.Rows)
	}
	x = b.norm(b.pick(x, rows), param("norm", w.Norm, d), g.Norm, &in.Picked, false)
	// The head is the embedding: two nodes over one weight and one gradient.
	x = b.linear("head", x, param("head", w.Embed, s.Vocab, d), nil, g.Embed, d, s.Vocab, &in.Picked)
	loss := b.loss(x, targets, weights, advantages, olds)
	if b.err != nil {
		return nil, fmt.Errorf("build graph: %w", b.err)
	}
	if _, err := G.Grad(loss, params...); err != nil {
		return nil, fmt.Errorf("differentiate graph: %w", err)
	}
	return &Graph{gr, G.NewTapeMachine(exprs)}, nil
}

// Batch is the micro-batch that Run computes.
func (g *Graph) Batch() *Batch { return g.batch }

// Run computes the batch's terms and adds the gradients to the held ones. After an
// error the gradients are incomplete.
func (g *Graph) Run() error {
	g.failure = nil
	g.machine.Reset()
	err := g.machine.RunAll()
	if g.failure != nil {
		return g.failure // Gorgonia's error adds pages about its instructions
	}
	return err
}
