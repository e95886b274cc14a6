package gorgonia

import (
	"context"
	"fmt"
	"math"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/graph"
)

// minCapacity is the least number of tokens in a micro-batch; a policy with a longer
// context has as many as that. With 1.1 million parameters 1,024 trains as fast as
// 256, and 8% faster than 2,048, whose activations leave the caches; more than fit a
// core's cache are of use to many cores only.
const minCapacity = 1024

func (e *Engine) capacity() int { return (max(minCapacity, e.shape.MaxContext) + 63) / 64 * 64 }

// job is one datum on its way through a micro-batch.
type job struct {
	index   int // in the batch
	tokens  []int
	targets []graph.Target
	first   int // term
}

// ForwardBackward implements [engine.Engine]. Data are laid in their order into
// micro-batches, one sequence behind the other; tokens behind a datum's last
// unmasked target are not computed, since nothing depends on them. Between
// micro-batches sampling goes on and ctx is looked at.
//
// Errors: KindConfig for a loss not honoured, KindData for a datum that cannot be
// learnt from, both before anything is computed. An error on the way (ctx's, or a
// loss that is not finite) drops all held gradients, since some of this call's
// would be among them.
func (e *Engine) ForwardBackward(ctx context.Context, batch []engine.Datum, loss engine.Loss) (engine.Result, error) {
	const op = "train policy"
	res := engine.Result{Logprobs: make([][]float32, len(batch))}
	if err := engine.Check(e, loss); err != nil {
		return engine.Result{}, err
	}
	if err := checkLoss(loss); err != nil {
		return engine.Result{}, diag.Wrap(diag.KindConfig, op, string(loss.Kind), err)
	}
	jobs := make([]job, 0, len(batch))
	for i, d := range batch {
		j, err := e.job(d, loss.Kind == engine.Clipped)
		if err != nil {
			return engine.Result{}, diag.Wrap(diag.KindData, op, fmt.Sprintf("datum %d", i), err)
		}
		res.Logprobs[i] = make([]float32, len(d.Tokens)-1)
		if len(j.targets) > 0 {
			j.index = i
			jobs = append(jobs, j)
		}
	}
	for len(jobs) > 0 {
		n, err := e.microBatch(ctx, jobs, loss, &res)
		if err != nil {
			e.weights.Lock()
			e.dropGradients()
			e.weights.Unlock()
			kind := diag.KindPolicy
			if ctx.Err() != nil {
				kind = diag.KindUnknown
			}
			return engine.Result{}, diag.Wrap(kind, op, "", err)
		}
		jobs = jobs[n:]
	}
	if res.Tokens > 0 {
		n := float64(res.Tokens)
		res.Entropy /= n
		res.ClipShare /= n
		res.Ratio /= n
	}
	return res, nil
}

func checkLoss(l engine.Loss) error {
	if l.Kind == engine.Clipped && (!(l.Low >= 0) || !(l.High >= 0)) {
		return fmt.Errorf("bounds low = %g, high = %g: neither may be negative", l.Low, l.High)
	}
	if math.IsNaN(l.EntropyCof) || math.IsInf(l.EntropyCof, 0) {
		return fmt.Errorf("entropy coefficient %g is not finite", l.EntropyCof)
	}
	return nil
}

// job checks a datum and cuts it behind its last unmasked target.
func (e *Engine) job(d engine.Datum, clipped bool) (job, error) {
	n := len(d.Tokens) - 1
	switch {
	case n < 1:
		return job{}, fmt.Errorf("%d tokens: a target needs a token before it", len(d.Tokens))
	case n > e.shape.MaxContext:
		return job{}, fmt.Errorf("%d tokens do not fit the context of %d", len(d.Tokens), e.shape.MaxContext)
	case len(d.Weights) != n:
		return job{}, fmt.Errorf("%d weights for %d targets", len(d.Weights), n)
	case clipped && len(d.Old) != n:
		return job{}, fmt.Errorf("%d old logprobs for %d targets", len(d.Old), n)
	case clipped && !finite(d.Advantage):
		return job{}, fmt.Errorf("advantage %g is not finite", d.Advantage)
	}
	if err := e.checkTokens(d.Tokens); err != nil {
		return job{}, err
	}
	var j job
	for t, w := range d.Weights {
		if w == 0 {
			continue
		}
		target := graph.Target{Position: t, Token: d.Tokens[t+1], Weight: w, Advantage: d.Advantage}
		if clipped {
			target.Old = d.Old[t]
		}
		if !finite(w) || !finite(target.Old) {
			return job{}, fmt.Errorf("target %d: weight %g or old logprob %g is not finite", t, w, target.Old)
		}
		j.targets = append(j.targets, target)
		j.tokens = d.Tokens[:t+1]
	}
	return j, nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

func (e *Engine) checkTokens(tokens []int) error {
	for i, id := range tokens {
		if id < 0 || id >= e.shape.Vocab {
			return fmt.Errorf("token %d is %d, outside the vocabulary of %d", i, id, e.shape.Vocab)
		}
	}
	return nil
}

// microBatch runs as many jobs as fit and returns their number.
func (e *Engine) microBatch(ctx context.Context, jobs []job, loss engine.Loss, res *engine.Result) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	e.weights.Lock()
	defer e.weights.Unlock()
	if err := e.prepare(); err != nil {
		return 0, err
	}
	b := e.graph.Batch()
	b.Reset()
	b.Objective.Clip = loss.Kind == engine.Clipped
	b.Objective.Low, b.Objective.High, b.Objective.Entropy = loss.Low, loss.High, loss.EntropyCof
	n := 0
	for n < len(jobs) && b.Fits(len(jobs[n].tokens)) {
		jobs[n].first = b.Add(jobs[n].tokens, jobs[n].targets)
		n++
	}
	if err := e.graph.Run(); err != nil {
		return 0, err
	}
	for _, j := range jobs[:n] {
		for i, t := range j.targets {
			term := b.Term(j.first + i)
			res.Logprobs[j.index][t.Position] = term.Logprob
			res.Loss += term.Loss
			res.Entropy += term.Entropy
			res.Ratio += term.Ratio
			if term.Clipped {
				res.ClipShare++
			}
			res.Tokens++
		}
	}
	return n, nil
}

// prepare builds the graph on first use: an engine that only samples needs none.
func (e *Engine) prepare() error {
	if e.loop.isClosed() {
		return errClosed
	}
	if e.graph != nil {
		return nil
	}
	e.gradients = make([]float32, e.shape.Size())
	g, err := graph.Build(e.shape, e.rotations, e.shape.Carve(e.state.weights), e.shape.Carve(e.gradients), e.capacity(), e.pool)
	e.graph = g
	return err
}
