package chatserver

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// endpoint is one server with its places.
type endpoint struct {
	url    string // of chat completions
	places chan struct{}

	mu      sync.Mutex
	until   time.Time // it wants to be left alone
	avoided time.Time // others are preferred, since it failed
}

// avoidance is how long others are preferred to an endpoint that failed.
const avoidance = 30 * time.Second

func newEndpoint(base string, places int) *endpoint {
	return &endpoint{url: strings.TrimRight(base, "/") + "/chat/completions", places: make(chan struct{}, places)}
}

func (e *endpoint) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case e.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *endpoint) leave() { <-e.places }

// restUntil has everybody leave the endpoint alone until t.
func (e *endpoint) restUntil(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.After(e.until) {
		e.until = t
	}
}

// well says that the endpoint answered. A rest that it asked for goes on: the answer may
// be to an earlier question.
func (e *endpoint) well() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.avoided = time.Time{}
}

// failed says that the endpoint did not answer.
func (e *endpoint) failed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.avoided = time.Now().Add(avoidance)
}

// avoiding says for how much longer others are preferred.
func (e *endpoint) avoiding(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.until.Sub(now), e.avoided.Sub(now))
}

// resting says for how much longer the endpoint is left alone.
func (e *endpoint) resting(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.until.Sub(now))
}

// choose picks the endpoint of a session: the first that need not be avoided, in an order
// of the session's own, so that a session stays where it is, sessions spread, and those
// of an endpoint that fails spread over the others. If all are avoided it is the one
// for which that ends first. Without a session it is the one with most free places.
func (c *Client) choose(session string) *endpoint {
	if len(c.endpoints) == 1 {
		return c.endpoints[0]
	}
	order := slices.Clone(c.endpoints)
	if session == "" {
		slices.SortStableFunc(order, func(a, b *endpoint) int { return cmp.Compare(len(a.places), len(b.places)) })
	} else {
		slices.SortStableFunc(order, func(a, b *endpoint) int { return cmp.Compare(affinity(session, a), affinity(session, b)) })
	}
	now := time.Now()
	slices.SortStableFunc(order, func(a, b *endpoint) int { return cmp.Compare(a.avoiding(now), b.avoiding(now)) })
	return order[0]
}

// affinity orders endpoints for a session (rendezvous hashing).
func affinity(session string, e *endpoint) uint64 {
	h := fnv.New64a()
	h.Write([]byte(session))
	h.Write([]byte{0})
	h.Write([]byte(e.url))
	x := h.Sum64() // whose high bits differ little for names that differ at the end
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// hold waits until the endpoint need not be left alone any more, unless that is after
// ctx ends.
func (e *endpoint) hold(ctx context.Context) *Error {
	for {
		d := e.resting(time.Now())
		if d == 0 {
			return nil
		}
		if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < d {
			return &Error{Fault: Busy, URL: e.url, After: d, Err: errors.New("it asked to be left alone")}
		}
		if err := rest(ctx, d); err != nil {
			return &Error{Fault: Slow, URL: e.url, Err: over(ctx)}
		}
	}
}
