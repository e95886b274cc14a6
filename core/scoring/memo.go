package scoring

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Memo is a Runner that remembers the answers of another by content: the same
// workspace, patches, changes and commands are run once. Policies repeat
// themselves, so on small tasks this saves most of an evaluation's work.
//
// It is right where commands depend on nothing but their inputs, which the
// sandbox gives them no way around except the clock and the kernel's randomness;
// it is therefore a choice of the run ([sandbox] memo). Errors and runs that hit
// a deadline are not remembered.
type Memo struct {
	of    Runner
	limit int // bytes

	flight singleflight.Group
	mu     sync.Mutex
	known  map[[32]byte]*list.Element
	order  *list.List // newest first
	size   int
	hits   int
	misses int
}

type remembered struct {
	key  [32]byte
	data []byte
}

// NewMemo remembers up to limit bytes of answers; 0 means 64 MiB.
func NewMemo(of Runner, limit int) *Memo {
	if limit == 0 {
		limit = 64 << 20
	}
	return &Memo{of: of, limit: limit, known: map[[32]byte]*list.Element{}, order: list.New()}
}

// Run answers from memory or asks. Callers with the same request at the same time
// share one run; if its caller gives up, one of the others starts it again.
func (m *Memo) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	key := sha256.Sum256(wire.Marshal(r))
	for {
		if data, ok := m.lookup(key); ok {
			out := new(sdk.RunResponse)
			return out, wire.Unmarshal(data, out)
		}
		mine := false
		ch := m.flight.DoChan(string(key[:]), func() (any, error) {
			mine = true
			out, err := m.of.Run(ctx, r)
			if err == nil {
				m.store(key, out)
			}
			return out, err
		})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case got := <-ch:
			if got.Err != nil {
				if got.Shared && !mine && ctx.Err() == nil {
					continue // the other caller's failure need not be ours
				}
				return nil, got.Err
			}
			return got.Val.(*sdk.RunResponse), nil
		}
	}
}

func (m *Memo) lookup(key [32]byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.known[key]
	if !ok {
		m.misses++
		return nil, false
	}
	m.hits++
	m.order.MoveToFront(e)
	return e.Value.(*remembered).data, true
}

func (m *Memo) store(key [32]byte, r *sdk.RunResponse) {
	for _, l := range r.Logs {
		if l.TimedOut {
			return
		}
	}
	data := wire.Marshal(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[key]; ok {
		return
	}
	m.known[key] = m.order.PushFront(&remembered{key, data})
	m.size += len(data) + 128
	for m.size > m.limit && m.order.Len() > 1 {
		last := m.order.Back()
		old := m.order.Remove(last).(*remembered)
		delete(m.known, old.key)
		m.size -= len(old.data) + 128
	}
}

// Counts gives how often the memory answered and how often it did not.
func (m *Memo) Counts() (hits, misses int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hits, m.misses
}
