package run

import (
	"math"
	"sync"
)

// Skill is a skill or a suite of the run: its records, and the binding that turns
// them into tasks and verdicts. The binding may be swapped while groups are under
// way. A group belongs to the binding that was current when its first episode
// began, with all its episodes and their repetitions, so that no group mixes
// verdicts of two. It is safe for concurrent use.
type Skill struct {
	Name   string
	Weight float64 // configured; 0 for a suite

	records []record            // of the training sources
	held    map[string][]record // of the sources that are measured, by split

	mu    sync.Mutex
	open  map[int64]struct{} // groups that were drawn and have not ended
	next  int64              // above every group that has begun
	terms []*term            // by first; the last is current
}

// term is how long a binding serves: groups from first on, up to the next term's
// first, and whoever holds it.
type term struct {
	*Binding
	first int64
	holds int
}

func newSkill(b *Binding, weight float64) *Skill {
	return &Skill{Name: b.Skill, Weight: weight, held: map[string][]record{}, open: map[int64]struct{}{}, terms: []*term{{Binding: b}}}
}

// begin says that no group below a number will begin any more: those of a run that
// goes on have ended.
func (k *Skill) begin(next int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = next
}

// Binding is the current one. Where swaps are possible, hold it while it is used.
func (k *Skill) Binding() *Binding {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current().Binding
}

func (k *Skill) current() *term { return k.terms[len(k.terms)-1] }

// hold gives the current binding for as long as let has not been called.
func (k *Skill) hold() (b *Binding, let func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.current()
	t.holds++
	return t.Binding, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		t.holds--
		k.sweep()
	}
}

// drawn says that a group will begin; ended, that nothing of it runs any more.
// Numbers are dispatch numbers.
func (k *Skill) drawn(group int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[group] = struct{}{}
}

func (k *Skill) ended(group int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, group)
	k.sweep()
}

// of is the binding of a group that was drawn. The group has begun with the first
// such call.
func (k *Skill) of(group int64) *Binding {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = max(k.next, group+1)
	for i := len(k.terms) - 1; i > 0; i-- {
		if k.terms[i].first <= group {
			return k.terms[i].Binding
		}
	}
	return k.terms[0].Binding
}

// install makes b the current binding, from the next group on. Before it does,
// write is told that group's number, and whether a group from there on has been
// drawn already, so that the swap can be stored; if that fails, nothing changes. Groups
// that begin meanwhile wait for it.
func (k *Skill) install(b *Binding, write func(first int64, drawn bool) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := write(k.next, k.serves(k.next, math.MaxInt64)); err != nil {
		return err
	}
	k.terms = append(k.terms, &term{Binding: b, first: k.next})
	k.sweep()
	return nil
}

// sweep releases the bindings that no group and nobody else needs any more.
func (k *Skill) sweep() {
	var keep []*term
	for i, t := range k.terms {
		if i == len(k.terms)-1 || t.holds > 0 || k.serves(t.first, k.terms[i+1].first) {
			keep = append(keep, t)
		} else {
			t.release()
		}
	}
	k.terms = keep
}

// serves tells whether a group that has not ended has a number from first up to below.
func (k *Skill) serves(first, below int64) bool {
	for g := range k.open {
		if g >= first && g < below {
			return true
		}
	}
	return false
}
