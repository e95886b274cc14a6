package graph

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// op is a Gorgonia operator made of functions. Each owns its output, which every
// run returns again, so that a run allocates nothing: the tape machine forgets its
// registers between runs, but never writes to a value that an operator returned.
//
// Gorgonia merges nodes whose operators hash alike, so that every op carries a
// number of its own.
type op struct {
	name string
	id   int
	wrt  []bool // which inputs have a gradient; nil: none
	dims int    // of the output; 0: a scalar
	out  G.Value
	do   func(in []G.Value) error
	grad func(in G.Nodes, g *G.Node) (G.Nodes, error)
	args int

	state *state
}

var _ G.SDOp = (*op)(nil)

// Arity is the number of inputs.
func (o *op) Arity() int { return o.args }

// Type admits any inputs. Type variable b means "batch" to Gorgonia's inference
// and would change the output's rank: the names begin at c.
func (o *op) Type() hm.Type {
	ts := make([]hm.Type, 0, o.args+1)
	for i := range o.args {
		ts = append(ts, hm.TypeVariable('c'+rune(i)))
	}
	if o.dims == 0 {
		return hm.NewFnType(append(ts, tensor.Float32)...)
	}
	return hm.NewFnType(append(ts, G.TensorType{Dims: o.dims, Of: tensor.Float32})...)
}

// InferShape gives the output's fixed shape.
func (o *op) InferShape(...G.DimSizer) (tensor.Shape, error) {
	if o.dims == 0 {
		return tensor.ScalarShape(), nil
	}
	return o.out.Shape().Clone(), nil
}

// Do runs the operator. A panic becomes an error, because the tape machine runs on
// a goroutine of its own, where a panic could not be caught.
func (o *op) Do(in ...G.Value) (out G.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", o, r)
		}
		if err != nil {
			o.state.failure = err
		}
	}()
	if err := o.do(in); err != nil {
		return nil, err
	}
	return o.out, nil
}

// The rest says to Gorgonia: plain Go, nothing overwritten, one operator per node.
func (o *op) ReturnsPtr() bool      { return false }
func (o *op) CallsExtern() bool     { return false }
func (o *op) OverwritesInput() int  { return -1 }
func (o *op) WriteHash(h hash.Hash) { fmt.Fprint(h, o.String()) }
func (o *op) String() string        { return fmt.Sprintf("%s#%d", o.name, o.id) }

// Hashcode identifies the operator by its name and number.
func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// DiffWRT says which inputs have a gradient.
func (o *op) DiffWRT(n int) []bool {
	if o.wrt == nil {
		return make([]bool, n)
	}
	return o.wrt
}

// SymDiff adds the backward operators to the graph.
func (o *op) SymDiff(in G.Nodes, _, g *G.Node) (G.Nodes, error) {
	if o.grad == nil {
		return nil, fmt.Errorf("%s has no gradient", o)
	}
	return o.grad(in, g)
}

func floats(v G.Value) []float32 { return v.Data().([]float32) }
func ints(v G.Value) []int       { return v.Data().([]int) }
