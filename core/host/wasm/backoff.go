package wasm

import (
	"context"
	"sync"
	"time"
)

// How long new instances wait after failures in a row.
const (
	patience   = 3 // failures without a pause
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// backoff keeps a module that fails at every try from keeping the machine busy with
// making instances of it.
type backoff struct {
	mu       sync.Mutex
	failures int // in a row
}

func (b *backoff) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
}

func (b *backoff) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// pause is how long the next instance has to wait.
func (b *backoff) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := b.failures - patience
	if over <= 0 {
		return 0
	}
	return min(firstPause<<min(over-1, 16), lastPause)
}

// wait blocks for the pause, or until ctx ends.
func (b *backoff) wait(ctx context.Context) {
	d := b.pause()
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
