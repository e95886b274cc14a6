package scoring

import (
	"container/list"
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
)

// recall keeps answers in memory by their question's digest, the newest ones up to
// a limit, and finds each once however many ask for it. It is safe for concurrent use.
type recall struct {
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

// newRecall keeps up to limit bytes; 0 means 64 MiB.
func newRecall(limit int) recall {
	if limit == 0 {
		limit = 64 << 20
	}
	return recall{limit: limit, known: map[[32]byte]*list.Element{}, order: list.New()}
}

// do gives what is kept under key, or has find look for it and keeps that if find
// says so. Callers with one key at one time share one find; if its caller fails or
// gives up, one of the others starts it again. own tells that it was this caller's.
func (m *recall) do(ctx context.Context, key [32]byte, find func() (data []byte, keep bool, err error)) (data []byte, own bool, err error) {
	for {
		if data, ok := m.lookup(key); ok {
			return data, false, nil
		}
		mine := false
		ch := m.flight.DoChan(string(key[:]), func() (any, error) {
			if data, ok := m.get(key); ok { // another's find ended since
				return data, nil
			}
			mine = true
			data, keep, err := find()
			if err == nil && keep {
				m.store(key, data)
			}
			return data, err
		})
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case got := <-ch:
			if got.Err != nil {
				if got.Shared && !mine && ctx.Err() == nil {
					continue // the other caller's failure need not be ours
				}
				return nil, mine, got.Err
			}
			return got.Val.([]byte), mine, nil
		}
	}
}

func (m *recall) lookup(key [32]byte) ([]byte, bool) {
	data, ok := m.get(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok {
		m.hits++
	} else {
		m.misses++
	}
	return data, ok
}

// get does not count.
func (m *recall) get(key [32]byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.known[key]
	if !ok {
		return nil, false
	}
	m.order.MoveToFront(e)
	return e.Value.(*remembered).data, true
}

func (m *recall) store(key [32]byte, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[key]; ok {
		return
	}
	m.known[key] = m.order.PushFront(&remembered{key, data})
	m.size += len(data) + 128
	for m.size > m.limit && m.order.Len() > 1 {
		m.remove(m.order.Back())
	}
}

// drop forgets what is kept under key.
func (m *recall) drop(key [32]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.known[key]; ok {
		m.remove(e)
	}
}

func (m *recall) remove(e *list.Element) {
	old := m.order.Remove(e).(*remembered)
	delete(m.known, old.key)
	m.size -= len(old.data) + 128
}

// Counts gives how often the memory answered and how often it did not.
func (m *recall) Counts() (hits, misses int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hits, m.misses
}
