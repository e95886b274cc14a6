// Package survey finds out what skills could make of records before anything is
// trained: it asks each skill's own builder, and counts tasks and what was missing.
package survey

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/valence-rl/valence/sdk"
)

// Builder is a skill's task builder. Build is called from several goroutines at once.
type Builder struct {
	Skill string
	Build func(context.Context, *sdk.BuildRequest) (*sdk.BuildResponse, error)
}

// Skill is what one skill could build.
type Skill struct {
	Skill   string    `json:"skill"`
	Records int       `json:"records"` // that give a task
	Tasks   int       `json:"tasks"`
	Without int       `json:"without"` // records that give none
	Missing []Missing `json:"missing"` // why, the most frequent first
}

// Missing counts the records that give no task for one reason.
type Missing struct {
	Reason  string `json:"reason"`
	Records int    `json:"records"`
	Example string `json:"example"` // the ID of the first
}

// Survey asks builders about records. It is safe for concurrent use.
type Survey struct {
	builders []Builder

	mu      sync.Mutex
	records int
	skills  map[string]*Skill
	reasons map[string]map[string]*Missing
}

// New makes a Survey.
func New(builders ...Builder) *Survey {
	s := &Survey{builders: builders, skills: map[string]*Skill{}, reasons: map[string]map[string]*Missing{}}
	for _, b := range builders {
		s.skills[b.Skill] = &Skill{Skill: b.Skill, Missing: []Missing{}}
		s.reasons[b.Skill] = map[string]*Missing{}
	}
	return s
}

// Ask asks every builder about one record. A builder that errs counts as one that gives
// no task; the error is that of ctx alone.
func (s *Survey) Ask(ctx context.Context, r *sdk.Record) error {
	s.mu.Lock()
	s.records++
	s.mu.Unlock()
	for _, b := range s.builders {
		res, err := b.Build(ctx, &sdk.BuildRequest{Record: *r, Template: "full", Seed: 1})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.note(b.Skill, r.ID, res, err)
	}
	return nil
}

func (s *Survey) note(skill, id string, res *sdk.BuildResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.skills[skill]
	if err == nil && len(res.Tasks) > 0 {
		k.Records++
		k.Tasks += len(res.Tasks)
		return
	}
	k.Without++
	reason := "the plugin says none"
	switch {
	case err != nil:
		reason = "the builder failed: " + err.Error()
	case res.Skipped != "":
		reason = res.Skipped
	}
	// What a reason says of one record alone would make a reason of each.
	if name, err := regexp.Compile(`(^|\W)` + regexp.QuoteMeta(id) + `($|\W)`); err == nil && len(id) > 1 {
		reason = name.ReplaceAllString(reason, "${1}…${2}")
	}
	m := s.reasons[skill][reason]
	if m == nil {
		m = &Missing{Reason: reason, Example: id}
		s.reasons[skill][reason] = m
	}
	if m.Records++; id < m.Example {
		m.Example = id
	}
}

// Records is how many records were asked about.
func (s *Survey) Records() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records
}

// Skills gives the counts in the order of the builders.
func (s *Survey) Skills() []Skill {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Skill{}
	for _, b := range s.builders {
		k := *s.skills[b.Skill]
		for _, r := range slices.Sorted(maps.Keys(s.reasons[b.Skill])) {
			k.Missing = append(k.Missing, *s.reasons[b.Skill][r])
		}
		slices.SortStableFunc(k.Missing, func(x, y Missing) int { return cmp.Compare(y.Records, x.Records) })
		out = append(out, k)
	}
	return out
}
