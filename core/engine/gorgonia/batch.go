package gorgonia

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/decode"
)

// The most tokens that one step feeds, of one sequence and of all. They bound how
// long a step takes, and so how long a decoding sequence waits for another's prompt
// and a caller for the end of a cancelled one.
const (
	chunkTokens = 128
	stepTokens  = 512
)

// sequence is one Sample under way. The loop owns it until done is closed.
type sequence struct {
	ctx     context.Context
	request engine.SampleRequest
	random  *rand.Rand
	tokens  []int // prompt and what was sampled
	fed     int   // of tokens: keys and values are in the cache
	cache   decode.Cache
	mixed   bool // the cache is of more than one version of the weights
	forget  bool // released meanwhile
	logits  []float32
	out     engine.Sampled
	err     error
	done    chan struct{}
}

// loop feeds all sequences together, step by step, on one goroutine.
type loop struct {
	e       *Engine
	version atomic.Int64
	wake    chan struct{}
	ended   chan struct{}

	mu       sync.Mutex
	closed   bool
	waiting  []*sequence // in order of arrival
	active   []*sequence
	sessions sessions

	scratch []decode.Scratch // each worker's
	rows    [][]float32
}

func (l *loop) init(e *Engine) {
	l.e = e
	l.version.Store(int64(e.state.version))
	l.wake, l.ended = make(chan struct{}, 1), make(chan struct{})
	pages := decode.NewPages(e.shape)
	l.sessions = sessions{shape: e.shape, pages: pages, limit: e.options.CacheBytes, idle: map[string]*session{}}
	l.scratch = make([]decode.Scratch, e.pool.Size())
	for range l.scratch {
		l.rows = append(l.rows, make([]float32, e.shape.Vocab))
	}
}

// Sample implements [engine.Engine]. Many callers' sequences advance together; one
// that finds MaxBatch others waits its turn. A prompt that leaves no room in the
// context ends at once with StopContext, MaxTokens of 0 with StopLength. When ctx
// ends, Sample returns its error at once (errors.Is finds it) and no tokens.
// Requests that make no sense are errors of KindConfig, token ids outside the
// vocabulary of KindData.
func (e *Engine) Sample(ctx context.Context, r engine.SampleRequest) (engine.Sampled, error) {
	const op = "sample"
	if msg := checkRequest(r); msg != "" {
		return engine.Sampled{}, diag.Errorf(diag.KindConfig, op, r.Session, "%s", msg)
	}
	if err := e.checkTokens(r.Prompt); err != nil {
		return engine.Sampled{}, diag.Wrap(diag.KindData, op, r.Session, err)
	}
	if err := ctx.Err(); err != nil {
		return engine.Sampled{}, diag.Wrap(diag.KindUnknown, op, r.Session, err)
	}
	if len(r.Prompt) >= e.shape.MaxContext {
		return engine.Sampled{Stop: engine.StopContext}, nil
	}
	if r.MaxTokens == 0 {
		return engine.Sampled{Stop: engine.StopLength}, nil
	}
	r.Stop = slices.Clone(r.Stop)
	s := &sequence{ctx: ctx, request: r, tokens: slices.Clone(r.Prompt), done: make(chan struct{}), random: rand.New(rand.NewPCG(r.Seed, 0x73616d706c65))}
	if !e.loop.add(s) {
		return engine.Sampled{}, policyError(op, r.Session, errClosed)
	}
	select {
	case <-s.done:
		if s.err != nil {
			return engine.Sampled{}, s.failed(op)
		}
		return s.out, nil
	case <-ctx.Done():
		e.loop.signal()
		return engine.Sampled{}, diag.Wrap(diag.KindUnknown, op, r.Session, ctx.Err())
	}
}

// Release implements [engine.Engine].
func (e *Engine) Release(id string) {
	l := &e.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions.drop(id)
	for _, list := range [][]*sequence{l.waiting, l.active} {
		for _, s := range list {
			if s.request.Session == id {
				s.forget = true
			}
		}
	}
}

func (l *loop) add(s *sequence) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waiting = append(l.waiting, s)
	l.signal()
	return true
}

func (l *loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (l *loop) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close ends the loop and waits for it.
func (l *loop) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	<-l.ended
}

// weightsChanged forgets what the old weights computed. A sequence that has sampled
// tokens goes on with its keys and values, one that has not begins anew. The engine
// holds weights, so that no step is under way.
func (l *loop) weightsChanged(version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version.Store(int64(version))
	l.sessions.dropAll()
	for _, s := range l.active {
		if len(s.out.Tokens) > 0 {
			s.mixed = true
			continue
		}
		s.cache.Shrink(l.sessions.pages, 0)
		s.fed = 0
	}
}

func (l *loop) run() {
	defer close(l.ended)
	for {
		if !l.admit() {
			return
		}
		if len(l.active) == 0 {
			<-l.wake
			continue
		}
		l.e.weights.Lock()
		items, fed := l.plan()
		l.step(items, fed)
		l.e.weights.Unlock()
	}
}

// admit ends what is over and begins what waits; false when the loop is closed.
func (l *loop) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := func(s *sequence) bool {
		switch {
		case l.closed:
			s.err = errClosed
		case s.ctx.Err() != nil:
			s.err = s.ctx.Err()
		case s.out.Stop == "" && s.err == nil:
			return false
		}
		id := s.request.Session
		if s.forget || s.mixed || errors.Is(s.err, errDiverged) {
			id = ""
		}
		l.sessions.put(id, s.cache, s.tokens[:s.fed])
		close(s.done)
		return true
	}
	l.active = slices.DeleteFunc(l.active, over)
	l.waiting = slices.DeleteFunc(l.waiting, over)
	for len(l.waiting) > 0 && len(l.active) < l.e.options.MaxBatch {
		s := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		s.cache, s.fed = l.sessions.take(s.request.Session, s.tokens)
		s.logits = make([]float32, l.e.shape.Vocab)
		l.active = append(l.active, s)
	}
	return !l.closed
}

// plan gives each active sequence its share of the step, one item for each of fed:
// first one token to all that decode, then the prompts in turn.
func (l *loop) plan() (items []decode.Item, fed []*sequence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := stepTokens
	for _, decoding := range []bool{true, false} {
		for _, s := range l.active {
			n := min(len(s.tokens)-s.fed, chunkTokens, room)
			if n == 0 || decoding != (len(s.tokens)-s.fed == 1) {
				continue
			}
			room -= n
			it := decode.Item{Tokens: s.tokens[s.fed : s.fed+n], Pos: s.fed, Cache: &s.cache}
			if s.fed+n == len(s.tokens) {
				it.Logits = s.logits
			}
			s.cache.Grow(l.sessions.pages, s.fed+n)
			items, fed = append(items, it), append(fed, s)
		}
	}
	return items, fed
}

// step computes the items, in about equal shares on all cores, and chooses a token
// for each sequence whose tokens are all fed.
func (l *loop) step(items []decode.Item, fed []*sequence) {
	rows := 0
	for _, it := range items {
		rows += len(it.Tokens)
	}
	n := l.e.pool.Size()
	var cuts []int // where shares begin
	at := 0
	for i, it := range items {
		if at*n >= len(cuts)*rows {
			cuts = append(cuts, i)
		}
		at += len(it.Tokens)
	}
	cuts = append(cuts, len(items))
	version := int(l.version.Load())
	l.e.pool.Run(len(cuts)-1, func(worker, i int) {
		from, to := cuts[i], cuts[i+1]
		l.e.decoder.Forward(&l.scratch[worker], items[from:to])
		for j := from; j < to; j++ {
			s := fed[j]
			s.fed += len(items[j].Tokens)
			if items[j].Logits != nil {
				s.advance(l.rows[worker], version, l.e.shape.MaxContext)
			}
		}
	})
}

// advance chooses the next token from the logits.
func (s *sequence) advance(scratch []float32, version, maxContext int) {
	token, logprob, ok := choose(s.logits, scratch, &s.request, s.random)
	if !ok {
		s.err = errDiverged
		return
	}
	s.tokens = append(s.tokens, token)
	o := &s.out
	o.Tokens = append(o.Tokens, token)
	o.Logprobs = append(o.Logprobs, logprob)
	o.Versions = append(o.Versions, version)
	switch {
	case slices.Contains(s.request.Stop, token):
		o.Stop = engine.StopToken
	case len(o.Tokens) == s.request.MaxTokens:
		o.Stop = engine.StopLength
	case len(s.tokens) == maxContext:
		o.Stop = engine.StopContext
	}
}

// failed classifies the error: a context's end is nobody's failure.
func (s *sequence) failed(op string) error {
	kind := diag.KindPolicy
	if s.ctx.Err() != nil {
		kind = diag.KindUnknown
	}
	return diag.Wrap(kind, op, s.request.Session, s.err)
}
