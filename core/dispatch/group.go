package dispatch

import (
	"cmp"
	"context"
	"slices"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/diag"
)

// flight is a group from its draw to its end.
type flight[E any] struct {
	draw     buffer.Draw
	step     int
	slots    []slot[E]
	pending  int // slots neither survived nor lost
	running  int // episodes under way
	failures []Failure[E]
	expired  bool // stale before it was complete
	ctx      context.Context
	cancel   context.CancelFunc
}

// slot is one episode of a group.
type slot[E any] struct {
	state   slotState
	attempt int
	version int // when the attempt started
	value   E
}

type slotState uint8

const (
	waiting slotState = iota
	started
	survived
	lost
)

// version is the oldest that an episode under way or survived has; −1 if none.
func (f *flight[E]) version() int {
	v := -1
	for _, s := range f.slots {
		if (s.state == started || s.state == survived) && (v < 0 || s.version < v) {
			v = s.version
		}
	}
	return v
}

// short says which kind of failure left too few episodes: two are needed to
// compare, or one where a group has no more.
func (f *flight[E]) short() (Failure[E], bool) {
	alive := 0
	for _, s := range f.slots {
		if s.state == survived {
			alive++
		}
	}
	if alive >= min(2, len(f.slots)) {
		return Failure[E]{}, false
	}
	g := f.group("")
	for _, x := range g.Failures {
		if x.Last {
			return x, true
		}
	}
	return Failure[E]{}, false
}

func (f *flight[E]) group(fate buffer.Fate) Group[E] {
	g := Group[E]{Draw: f.draw, Step: f.step, Version: f.version(), Failures: f.failures, Fate: fate}
	slices.SortFunc(g.Failures, func(a, b Failure[E]) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Attempt, b.Attempt))
	})
	for i, s := range f.slots {
		if s.state == survived {
			g.Episodes = append(g.Episodes, Episode[E]{Index: i, Attempt: s.attempt, Version: s.version, Value: s.value})
		}
	}
	return g
}

// kindOf is never empty, so that it can name a fate.
func kindOf(err error) diag.Kind {
	if k := diag.KindOf(err); k != "" {
		return k
	}
	return diag.KindUnknown
}
