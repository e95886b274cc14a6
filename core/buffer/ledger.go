package buffer

import (
	"fmt"
	"maps"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Fate is how a dispatch ended (ALGORITHMS 4).
type Fate string

// The fates; further ones are made by [Failed].
const (
	Trained  Fate = "trained"
	Stale    Fate = "stale"     // older than the limit; the task was returned
	NoSignal Fate = "no_signal" // all rewards equal
	Filtered Fate = "filtered"  // compact filtering left too few episodes
)

const failed = "failed:"

// Failed is the fate of a group that infrastructure failures left too small.
func Failed(k diag.Kind) Fate { return Fate(failed + string(k)) }

// Kind is the kind of a failed fate, and whether it is one.
func (f Fate) Kind() (diag.Kind, bool) {
	k, ok := strings.CutPrefix(string(f), failed)
	return diag.Kind(k), ok && k != ""
}

func (f Fate) valid() bool {
	switch f {
	case Trained, Stale, NoSignal, Filtered:
		return true
	}
	_, ok := f.Kind()
	return ok
}

// Ledger is the state of the books. Dispatched = Open + the sum of Fates, always.
type Ledger struct {
	Dispatched int64
	Open       int64
	Fates      map[Fate]int64
}

// ledger holds the books: every number below dispatched is open or has ended.
type ledger struct {
	dispatched int64
	leases     map[int64]Draw
	fates      map[Fate]int64
}

func newLedger() ledger {
	return ledger{leases: map[int64]Draw{}, fates: map[Fate]int64{}}
}

func (l *ledger) open(d Draw) {
	l.leases[d.Dispatch] = d
	l.dispatched++
}

func (l *ledger) check(d Draw) error {
	open, ok := l.leases[d.Dispatch]
	switch {
	case ok && open == d:
		return nil
	case ok:
		return diag.Errorf(diag.KindUnknown, "end dispatch", d.subject(), "the number belongs to %s", open.Key)
	case d.Dispatch >= 0 && d.Dispatch < l.dispatched:
		return diag.Errorf(diag.KindUnknown, "end dispatch", d.subject(), "it has ended before")
	}
	return diag.Errorf(diag.KindUnknown, "end dispatch", d.subject(), "it was never dispatched")
}

func (l *ledger) close(d Draw, f Fate) error {
	if err := l.check(d); err != nil {
		return err
	}
	if !f.valid() {
		return diag.Errorf(diag.KindUnknown, "end dispatch", d.subject(), "%q is no fate", f)
	}
	delete(l.leases, d.Dispatch)
	l.fates[f]++
	return nil
}

func (l *ledger) copy() Ledger {
	return Ledger{Dispatched: l.dispatched, Open: int64(len(l.leases)), Fates: maps.Clone(l.fates)}
}

func (d Draw) subject() string { return fmt.Sprintf("%d (%s)", d.Dispatch, d.Key) }
