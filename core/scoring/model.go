package scoring

import (
	"context"
	"sync"
	"time"

	"github.com/valence-rl/valence/sdk"
)

// Completer asks a model. An error is a diag.Error, and never stands for an answer.
type Completer interface {
	Complete(ctx context.Context, q *sdk.ModelRequest) (*Answer, error)
}

// Model answers the capability "model". What it keeps of its answers it gives again
// until it is told to forget them.
type Model interface {
	Completer
	Forget(q *sdk.ModelRequest)
}

// Answer is what came back, and what it took. A cached answer costs nothing.
type Answer struct {
	Texts            []string
	Cached           bool // given before to the same question
	PromptTokens     int64
	CompletionTokens int64
	Cost             float64
}

// ModelUse counts what a model was asked and what that took.
type ModelUse struct {
	Calls            int // questions put to the server, those without an answer included
	Cached           int // questions answered from the cache
	Failures         int // questions without an answer
	PromptTokens     int64
	CompletionTokens int64
	Cost             float64 // in the currency of [model] input_price and output_price
	LatencyMean      float64 // seconds from a question to its answer, over Calls; pauses and further attempts included
	LatencyMax       float64 // seconds
}

// Meter adds up model use. It is safe for concurrent use; a nil Meter counts nothing.
type Meter struct {
	mu  sync.Mutex
	use ModelUse
}

// Use is what was counted so far.
func (m *Meter) Use() ModelUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.use
}

// count adds one question with its answer, nil if there is none.
func (m *Meter) count(a *Answer, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := &m.use
	if a != nil && a.Cached {
		u.Cached++
		return
	}
	u.Calls++
	s := took.Seconds()
	u.LatencyMean += (s - u.LatencyMean) / float64(u.Calls)
	u.LatencyMax = max(u.LatencyMax, s)
	if a == nil {
		u.Failures++
		return
	}
	u.PromptTokens += a.PromptTokens
	u.CompletionTokens += a.CompletionTokens
	u.Cost += a.Cost
}
