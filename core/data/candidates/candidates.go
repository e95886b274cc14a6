// Package candidates makes candidates for the review skill of what policies left: the
// changes of stored episodes become patches of their records, and each is labelled by
// running the record's own tests on it. What a policy was told it scored counts for
// nothing but the order in which patches are tried.
package candidates

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/sdk"
)

// Options say what becomes of attempts. The zero value of each field is its default.
type Options struct {
	Seed    uint64
	Repeats int // runs of the tests on a patch, which have to agree; default 3
	Most    int // patches of policies of one label in a record; default 4
	Jobs    int // records at the same time; default 1
	Heard   func(done, all, added int)
}

// Attempt is what a policy left of the workspace of a record.
type Attempt struct {
	Record  string // ID
	Policy  string // whose it is; the candidate's origin
	Changes []sdk.Change
	Solved  bool // what the verdict said
}

// skill begins the keys of the tasks whose outputs are patches.
const skill = "editing/"

// Of gives the attempt of an episode of a run called name; false where it is none: of
// another skill, without an output, or lost to a failure.
func Of(name string, e *journal.Episode) (Attempt, bool) {
	record, ok := strings.CutPrefix(e.Task, skill)
	if !ok || e.Output == nil || e.Outcome != journal.Scored {
		return Attempt{}, false
	}
	return Attempt{Record: record, Policy: name + ": " + e.Policy, Changes: e.Output.Changes, Solved: e.Score == 1}, true
}

// Yield is what came of attempts.
type Yield struct {
	Attempts int                `json:"attempts"`
	Records  int                `json:"records"` // that got a candidate
	Added    int                `json:"added"`
	Policies map[string]*Labels `json:"policies"` // what was added, by whose it is
	Sources  map[string]*Labels `json:"sources"`  // all candidates in the end, by the records' source
	Refused  map[string]int     `json:"refused"`  // attempts without a candidate, by reason
	Balanced int                `json:"balanced"` // candidates taken away so that labels are balanced
}

// Labels counts candidates.
type Labels struct {
	Right int `json:"right"`
	Wrong int `json:"wrong"`
}

func (l *Labels) count(c *sdk.Candidate, n int) {
	if c.Correct {
		l.Right += n
	} else {
		l.Wrong += n
	}
}

// Add adds candidates to records, which it changes. Attempts come in the order in which
// they are preferred. The lab needs no runner: a record says how its tests are run. It
// blocks until all are labelled; an error is of the host, and then records are unchanged.
func Add(ctx context.Context, lab *trial.Lab, records []*sdk.Record, attempts []Attempt, o Options) (*Yield, error) {
	if o.Repeats <= 0 {
		o.Repeats = 3
	}
	if o.Most <= 0 {
		o.Most = 4
	}
	y := &Yield{Attempts: len(attempts), Policies: map[string]*Labels{}, Refused: map[string]int{}}
	of := map[string][]Attempt{}
	for _, a := range attempts {
		of[a.Record] = append(of[a.Record], a)
	}
	var mu sync.Mutex
	done, added := 0, 0
	var todo []*sdk.Record
	for _, r := range records {
		if len(of[r.ID]) > 0 {
			todo = append(todo, r)
		}
	}
	labels := make([]*labelling, len(todo))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(max(1, o.Jobs))
	for i, r := range todo {
		work.Go(func() error {
			l := &labelling{Options: o, lab: lab, record: r, refused: map[string]int{}}
			labels[i] = l
			if err := l.run(ctx, of[r.ID]); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done, added = done+1, added+len(l.found)
			if o.Heard != nil {
				o.Heard(done, len(todo), added)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i, r := range todo {
		l := labels[i]
		known[r.ID] = true
		r.Candidates = append(slices.Clone(r.Candidates), l.found...)
		for why, n := range l.refused {
			y.Refused[why] += n
		}
	}
	for id, list := range of {
		if !known[id] {
			y.Refused["the file has no such record"] += len(list)
		}
	}
	y.Balanced = balance(records, o.Seed)
	y.count(records)
	return y, nil
}

// count counts what records have in the end.
func (y *Yield) count(records []*sdk.Record) {
	y.Sources = map[string]*Labels{}
	at := func(m map[string]*Labels, key string) *Labels {
		if m[key] == nil {
			m[key] = new(Labels)
		}
		return m[key]
	}
	for _, r := range records {
		own := 0
		for i := range r.Candidates {
			c := &r.Candidates[i]
			at(y.Sources, r.Source).count(c, 1)
			if !synthetic(c.Origin) {
				at(y.Policies, c.Origin).count(c, 1)
				own++
			}
		}
		if own > 0 {
			y.Records++
			y.Added += own
		}
	}
}

// gold is the origin of the patch that a record came with.
const gold = "gold"

// synthetic says whether no policy made a candidate of this origin.
func synthetic(origin string) bool {
	return origin == gold || origin == "mutated-gold" || origin == "model"
}
