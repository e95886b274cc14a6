package chatserver

import (
	"context"
	"sync"
	"time"
)

// rate grants so much a minute: a bucket that is full at the beginning and holds a
// minute's worth. What turns out to be more than was taken is a debt that those who
// come later wait for. A nil rate grants everything.
type rate struct {
	perMinute float64

	mu    sync.Mutex
	level float64
	at    time.Time // of level; zero: full
}

func perMinute(n int) *rate {
	if n <= 0 {
		return nil
	}
	return &rate{perMinute: float64(n), level: float64(n)}
}

// take waits until n may be had. More than a minute's worth is had from a full bucket.
func (r *rate) take(ctx context.Context, n int) error {
	if r == nil {
		return nil
	}
	for {
		wait := r.try(float64(n), time.Now())
		if wait == 0 {
			return nil
		}
		if err := rest(ctx, wait); err != nil {
			return err
		}
	}
}

// try takes n and gives 0, or takes nothing and says when to try again.
func (r *rate) try(n float64, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() {
		r.level = min(r.perMinute, r.level+r.perMinute*now.Sub(r.at).Minutes())
	}
	r.at = now
	if lack := min(n, r.perMinute) - r.level; lack > 0 {
		return max(time.Millisecond, time.Duration(lack/r.perMinute*float64(time.Minute)))
	}
	r.level -= n
	return 0
}

// give puts n back; less than 0 takes what was used beyond what was taken.
func (r *rate) give(n int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.level = min(r.perMinute, r.level+float64(n))
}
