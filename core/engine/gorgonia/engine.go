// Package gorgonia is the embedded engine: a small Qwen3 decoder on the CPU, in Go
// and a little assembly, differentiated by Gorgonia and sampled by a decoder of its
// own. It needs no service, no GPU and no cgo, and its policies are Hugging Face
// folders that transformers opens unchanged.
//
// The life of a sampled token: [Engine.Sample] hands a sequence to the loop
// (batch.go), which feeds all sequences' next tokens through package decode
// together, chooses each one's token (choose.go) and keeps the keys and values of
// sessions (session.go). The life of a gradient: [Engine.ForwardBackward] lays data
// into micro-batches (train.go) that package graph runs, [Engine.OptimStep]
// (adam.go) applies what has gathered.
package gorgonia

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/decode"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/graph"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

// Options tune an engine; no option changes a result.
type Options struct {
	Threads    int // cores to use; 0: GOMAXPROCS
	MaxBatch   int // sequences sampled at once, others wait their turn; 0: 64
	CacheBytes int // keys and values kept for sessions between their calls, bytes; 0: 256 MiB
}

// Engine implements [engine.Engine]. See there for what may run at once.
type Engine struct {
	options   Options
	pool      workers.Pool
	shape     model.Shape
	params    []model.Param
	rotations *model.Rotations

	// weights guards everything below against sampling steps.
	weights   sync.Mutex
	state     *checkpoint
	gradients []float32 // nil until the first ForwardBackward
	graph     *graph.Graph
	decoder   *decode.Decoder

	loop loop
}

var _ engine.Engine = (*Engine)(nil)

var (
	errClosed   = errors.New("the engine is closed")
	errDiverged = errors.New("the logits are not finite: the policy has diverged")
)

// Open loads a policy folder. Errors are diag.Errors of KindPolicy, or KindData for
// a damaged file, that name the file and the key or tensor at fault. Close the
// engine to end its goroutine.
func Open(dir string, o Options) (*Engine, error) {
	const op = "open policy"
	if o.Threads < 0 || o.MaxBatch < 0 || o.CacheBytes < 0 {
		return nil, policyError(op, dir, fmt.Errorf("options %+v: nothing may be negative", o))
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 64
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	ck, err := read(dir)
	if err != nil {
		return nil, policyError(op, dir, err)
	}
	s := ck.config.shape()
	e := &Engine{options: o, pool: workers.New(o.Threads), shape: s, params: s.Params(), rotations: model.NewRotations(s)}
	e.state = ck
	e.decoder = decode.New(s, e.rotations, s.Carve(ck.weights))
	e.decoder.Refresh()
	if ck.m == nil {
		ck.m, ck.v = make([]float32, s.Size()), make([]float32, s.Size())
	}
	e.loop.init(e)
	go e.loop.run()
	return e, nil
}

// Config is the policy's configuration.
func (e *Engine) Config() Config { return e.state.config }

// Info implements [engine.Engine].
func (e *Engine) Info() engine.Info {
	return engine.Info{
		Name: "gorgonia", Vocab: e.shape.Vocab, MaxContext: e.shape.MaxContext, Parameters: e.shape.Size(),
		Version: int(e.loop.version.Load()), Losses: []engine.LossKind{engine.CrossEntropy, engine.Clipped}, Threads: e.options.Threads,
	}
}

// Logits computes what follows each of tokens, Vocab numbers a position, to compare
// the engine with other implementations of its model. It waits for the sampling step
// under way; tokens outside the vocabulary or beyond the context are errors of
// KindData.
func (e *Engine) Logits(tokens []int) ([][]float32, error) {
	const op = "compute logits"
	if err := e.checkTokens(tokens); err != nil {
		return nil, diag.Wrap(diag.KindData, op, "", err)
	}
	if len(tokens) > e.shape.MaxContext {
		return nil, diag.Errorf(diag.KindData, op, "", "%d tokens do not fit the context of %d", len(tokens), e.shape.MaxContext)
	}
	var cache decode.Cache
	cache.Grow(decode.NewPages(e.shape), len(tokens))
	out := make([][]float32, len(tokens))
	e.weights.Lock()
	defer e.weights.Unlock()
	var scratch decode.Scratch
	for i := range tokens {
		out[i] = make([]float32, e.shape.Vocab)
		e.decoder.Forward(&scratch, []decode.Item{{Tokens: tokens[i : i+1], Pos: i, Cache: &cache, Logits: out[i]}})
	}
	return out, nil
}

// Save implements [engine.Engine].
func (e *Engine) Save(dir string) error {
	e.weights.Lock()
	defer e.weights.Unlock()
	return policyError("save policy", dir, e.state.write(dir))
}

// Load implements [engine.Engine]. The folder's sizes must be the engine's own; held
// gradients are dropped. After an error nothing has changed.
func (e *Engine) Load(dir string) error {
	const op = "load policy"
	ck, err := read(dir)
	if err != nil {
		return policyError(op, dir, err)
	}
	if got := ck.config.shape(); got != e.shape {
		return policyError(op, dir, fmt.Errorf("config.json describes another model: %+v, the engine has %+v", got, e.shape))
	}
	e.weights.Lock()
	defer e.weights.Unlock()
	// The graph and the decoder hold views: copy, do not replace.
	s := e.state
	copy(s.weights, ck.weights)
	if ck.m != nil {
		copy(s.m, ck.m)
		copy(s.v, ck.v)
	} else {
		clear(s.m)
		clear(s.v)
	}
	s.document, s.generation, s.config, s.step, s.version = ck.document, ck.generation, ck.config, ck.step, ck.version
	e.dropGradients()
	e.changed()
	return nil
}

// changed tells the sampling side that the weights are others. Needs weights.
func (e *Engine) changed() {
	e.decoder.Refresh()
	e.loop.weightsChanged(e.state.version)
}

func (e *Engine) dropGradients() { clear(e.gradients) }

// Close implements [engine.Engine]. Samples under way end with an error. It may be
// called again.
func (e *Engine) Close() error {
	e.loop.close()
	e.weights.Lock()
	defer e.weights.Unlock()
	e.graph, e.gradients = nil, nil
	return nil
}
