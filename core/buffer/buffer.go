// Package buffer is the skills buffer (ALGORITHMS 2; arXiv 2604.05013 section
// 2.2): it decides which task is dispatched next, so that the mix of skills is
// the configured one at every moment, and keeps the books on what became of each.
//
// A task's way through it:
//
//	Next    a skill is chosen by deficit, a task by the skill's shuffled order;
//	        the draw is leased under a dispatch number
//	Done    the lease ends with a fate, exactly once
//	Return  the group went stale: the lease ends and the task is drawn again,
//	        before anything else of its skill
//	State   everything, open leases included, as JSON
//	Restore the same buffer; the open leases are handed out first, under their
//	        old numbers
package buffer

import (
	"slices"
	"sync"

	"github.com/valence-rl/valence/core/diag"
)

// Skill is one skill's share of the buffer.
type Skill struct {
	Name   string
	Weight float64 // relative to the other skills'; ≥ 0; a skill of weight 0 is never drawn
	// Tasks are the keys of its tasks, each once. The order is part of the
	// buffer's identity: restoring needs the same.
	Tasks      []string
	Curriculum Curriculum
}

// Config is what a buffer is made from.
type Config struct {
	Seed   uint64 // of every shuffle
	Skills []Skill
}

// Draw is one dispatched task: the lease of one group.
type Draw struct {
	Dispatch int64  `json:"dispatch"` // from 0, unique in the run
	Skill    string `json:"skill"`
	Task     int    `json:"task"` // index in Skill.Tasks
	Key      string `json:"key"`
	Epoch    int    `json:"epoch"` // of the skill, from 0
}

// Buffer is safe for concurrent use; no method blocks. Its answers depend only
// on its configuration and on the order of the calls.
type Buffer struct {
	mu     sync.Mutex
	seed   uint64
	skills []*deck
	mix    mix
	ledger ledger
	again  []Draw // leases of a restored state, not yet handed out, by number
}

// New makes a buffer at the start of its first epoch. The error is a diag.Error
// of kind config that names the skill.
func New(c Config) (*Buffer, error) {
	const op = "make buffer"
	if len(c.Skills) == 0 {
		return nil, diag.Errorf(diag.KindConfig, op, "", "no skill")
	}
	b := &Buffer{seed: c.Seed, ledger: newLedger()}
	weights := make([]float64, len(c.Skills))
	seen := map[string]bool{}
	for i, s := range c.Skills {
		if seen[s.Name] {
			return nil, diag.Errorf(diag.KindConfig, op, s.Name, "the skill is listed twice")
		}
		seen[s.Name] = true
		if s.Weight > 0 && len(s.Tasks) == 0 {
			return nil, diag.Errorf(diag.KindConfig, op, s.Name, "weight %v, but no task", s.Weight)
		}
		if err := s.Curriculum.validate(); err != nil {
			return nil, diag.Wrap(diag.KindConfig, op, s.Name, err)
		}
		keys := map[string]bool{}
		for _, k := range s.Tasks {
			if keys[k] {
				return nil, diag.Errorf(diag.KindConfig, op, s.Name, "task %q is listed twice", k)
			}
			keys[k] = true
		}
		weights[i] = s.Weight
		b.skills = append(b.skills, newDeck(c.Seed, s))
	}
	m, err := newMix(weights)
	if err != nil {
		return nil, diag.Wrap(diag.KindConfig, op, "weights", err)
	}
	b.mix = m
	return b, nil
}

// Next draws the next task and leases it. Leases left open by a restored state
// come first.
func (b *Buffer) Next() Draw {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.again) > 0 {
		d := b.again[0]
		b.again = b.again[1:]
		return d
	}
	d := b.skills[b.mix.next()].draw()
	d.Dispatch = b.ledger.dispatched
	b.ledger.open(d)
	return d
}

// Upcoming is the dispatch number that the next draw will have.
func (b *Buffer) Upcoming() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.again) > 0 {
		return b.again[0].Dispatch
	}
	return b.ledger.dispatched
}

// Done ends a lease with a fate, once; [Stale] is [Buffer.Return]. The error is a
// diag.Error of kind unknown: a lease that is not open, or a fate that does not
// exist, is a fault of the caller.
func (b *Buffer) Done(d Draw, f Fate) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.again, d) {
		return diag.Errorf(diag.KindUnknown, "end dispatch", d.subject(), "it has not been drawn since the buffer was restored")
	}
	if err := b.ledger.close(d, f); err != nil {
		return err
	}
	i := b.index(d.Skill)
	b.skills[i].ended++
	if f == Stale {
		// The draw is taken back from the mix, so that a slow skill keeps its
		// share of what is trained on, not merely of what is attempted.
		b.mix.back(i)
		b.skills[i].back(d)
	}
	return nil
}

// Return ends a lease as stale and gives the task back: it is the next that its
// skill draws, in the epoch in which it was first drawn.
func (b *Buffer) Return(d Draw) error { return b.Done(d, Stale) }

// Observe tells the curriculum how a leased group went: rate is the share of its
// episodes that scored 1. Call it before Done. Without a curriculum it does
// nothing.
func (b *Buffer) Observe(d Draw, rate float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ledger.check(d); err != nil {
		return err
	}
	b.skills[b.index(d.Skill)].observe(d.Task, rate)
	return nil
}

// Ledger is a copy of the books.
func (b *Buffer) Ledger() Ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.copy()
}

// Share is one skill's part so far.
type Share struct {
	Name       string
	Configured float64 // normalised weight
	Realised   float64 // share of the dispatches that were not returned; 0 before the first
	Count      int64   // dispatches that were not returned
	Epoch      int     // being drawn from
	Benched    int     // tasks that the curriculum holds back now
}

// Shares reports all skills in configured order.
func (b *Buffer) Shares() []Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Share, len(b.skills))
	for i, s := range b.skills {
		out[i] = Share{
			Name:       s.name,
			Configured: float64(b.mix.units[i]) / mixTotal,
			Count:      b.mix.counts[i],
			Epoch:      s.epoch,
			Benched:    s.benched(),
		}
		if b.mix.drawn > 0 {
			out[i].Realised = float64(b.mix.counts[i]) / float64(b.mix.drawn)
		}
	}
	return out
}

// index finds a skill that is known to exist.
func (b *Buffer) index(name string) int {
	return slices.IndexFunc(b.skills, func(s *deck) bool { return s.name == name })
}
