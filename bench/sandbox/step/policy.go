package main

import (
	"context"
	"sync"

	"github.com/valence-rl/valence/core/policy"
)

// barrier holds callers until as many as were announced have come. Whoever will
// never come is counted by miss.
type barrier struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{left: n, open: make(chan struct{})} }

func (b *barrier) miss() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 {
		close(b.open)
	}
}

func (b *barrier) wait(ctx context.Context) error {
	b.miss()
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fake is a policy that waits for a crowd, looks at what the tests say, and then
// plays the turns of another one.
type fake struct {
	policy.Policy
	crowd *barrier
}

func (f fake) Open(ctx context.Context, o policy.Opening) (policy.Session, error) {
	s, err := f.Policy.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &look{Session: s, crowd: f.crowd}, nil
}

// look puts one turn in front of a session's own.
type look struct {
	policy.Session
	crowd  *barrier
	looked bool
}

func (l *look) Next(ctx context.Context, observation string) (policy.Turn, error) {
	if !l.looked {
		l.looked = true
		if err := l.crowd.wait(ctx); err != nil {
			return policy.Turn{}, err
		}
		return policy.Turn{Call: &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": "python3 -m unittest -q 2>&1 | tail -3"}}}, nil
	}
	return l.Session.Next(ctx, observation)
}
