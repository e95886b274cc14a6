package buffer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// stateFormat is raised whenever a stored state changes its meaning.
const stateFormat = 1

type state struct {
	Format     int            `json:"format"`
	Seed       uint64         `json:"seed"`
	Dispatched int64          `json:"dispatched"`
	Skills     []deckState    `json:"skills"`
	Open       []Draw         `json:"open"` // by number
	Fates      map[Fate]int64 `json:"fates"`
}

type deckState struct {
	Name     string       `json:"name"`
	Units    int64        `json:"units"`  // share of 2^32
	Digest   string       `json:"digest"` // of the tasks
	Count    int64        `json:"count"`
	Epoch    int          `json:"epoch"`
	Cursor   int          `json:"cursor"`
	Ended    int64        `json:"ended"`
	Returned []returned   `json:"returned,omitempty"`
	Marks    map[int]mark `json:"marks,omitempty"`
}

// State is the whole buffer as JSON, open leases included. Equal buffers give
// equal bytes.
func (b *Buffer) State() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := state{Format: stateFormat, Seed: b.seed, Dispatched: b.ledger.dispatched, Fates: b.ledger.fates, Open: []Draw{}}
	for _, n := range slices.Sorted(maps.Keys(b.ledger.leases)) {
		s.Open = append(s.Open, b.ledger.leases[n])
	}
	for i, d := range b.skills {
		s.Skills = append(s.Skills, deckState{
			Name: d.name, Units: b.mix.units[i], Digest: d.digest, Count: b.mix.counts[i],
			Epoch: d.epoch, Cursor: d.cursor, Ended: d.ended, Returned: d.returned, Marks: d.marks,
		})
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, diag.Wrap(diag.KindUnknown, "store buffer", "", err)
	}
	return data, nil
}

// Restore makes the buffer that State was taken from. c must be what that buffer
// was made from: seed, skills, weights and tasks are compared, and a difference
// is an error of kind config that names it; the curriculum may change. Data that
// cannot be read is an error of kind data.
func Restore(c Config, data []byte) (*Buffer, error) {
	const op = "restore buffer"
	b, err := New(c)
	if err != nil {
		return nil, err
	}
	var s state
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, diag.Wrap(diag.KindData, op, "", err)
	}
	if s.Format != stateFormat {
		return nil, diag.Errorf(diag.KindData, op, "", "format %d, this program reads %d", s.Format, stateFormat)
	}
	if s.Seed != c.Seed {
		return nil, diag.Errorf(diag.KindConfig, op, "seed", "it was %d, now %d", s.Seed, c.Seed)
	}
	if len(s.Skills) != len(b.skills) {
		return nil, diag.Errorf(diag.KindConfig, op, "skills", "there were %d, now %d", len(s.Skills), len(b.skills))
	}
	for i, d := range b.skills {
		if err := b.adopt(i, s.Skills[i]); err != nil {
			return nil, diag.Wrap(diag.KindData, op, d.name, err)
		}
	}
	var ends int64
	for f, n := range s.Fates {
		if !f.valid() || n < 0 {
			return nil, diag.Errorf(diag.KindData, op, "fates", "%q: %d", f, n)
		}
		ends += n
		b.ledger.fates[f] = n
	}
	if s.Dispatched >= 1<<31 || s.Dispatched != ends+int64(len(s.Open)) || b.mix.drawn != s.Dispatched-b.ledger.fates[Stale] {
		return nil, diag.Errorf(diag.KindData, op, "ledger", "%d dispatched, %d ended, %d open, %d counted", s.Dispatched, ends, len(s.Open), b.mix.drawn)
	}
	b.ledger.dispatched = s.Dispatched
	for i, d := range s.Open {
		skill := b.index(d.Skill)
		if skill < 0 || d.Task < 0 || d.Task >= len(b.skills[skill].tasks) || b.skills[skill].tasks[d.Task] != d.Key ||
			d.Dispatch < 0 || d.Dispatch >= s.Dispatched || i > 0 && d.Dispatch <= s.Open[i-1].Dispatch {
			return nil, diag.Errorf(diag.KindData, op, d.subject(), "no such dispatch")
		}
		b.ledger.leases[d.Dispatch] = d
	}
	b.again = s.Open
	return b, nil
}

// adopt takes one skill's stored state over.
func (b *Buffer) adopt(i int, s deckState) error {
	d := b.skills[i]
	changed := func(format string, args ...any) error {
		return &diag.Error{Kind: diag.KindConfig, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case s.Name != d.name:
		return changed("it was called %q when the state was written", s.Name)
	case s.Units != b.mix.units[i]:
		return changed("its share was %.4f when the state was written, now %.4f", float64(s.Units)/mixTotal, float64(b.mix.units[i])/mixTotal)
	case s.Digest != d.digest:
		return changed("its tasks are not those of the state; there are %d now", len(d.tasks))
	case s.Count < 0 || s.Epoch < 0 || s.Cursor < 0 || s.Cursor > len(d.tasks) || s.Ended < 0:
		return fmt.Errorf("count %d, epoch %d, cursor %d, ended %d", s.Count, s.Epoch, s.Cursor, s.Ended)
	}
	for _, r := range s.Returned {
		if r.Task < 0 || r.Task >= len(d.tasks) || r.Epoch < 0 || r.Epoch > s.Epoch {
			return fmt.Errorf("returned task %d of epoch %d", r.Task, r.Epoch)
		}
	}
	for t := range s.Marks {
		if t < 0 || t >= len(d.tasks) {
			return fmt.Errorf("curriculum mark of task %d", t)
		}
	}
	b.mix.counts[i] = s.Count
	b.mix.drawn += s.Count
	d.epoch, d.cursor, d.ended, d.returned = s.Epoch, s.Cursor, s.Ended, s.Returned
	if s.Marks != nil {
		d.marks = s.Marks
	}
	return nil
}
