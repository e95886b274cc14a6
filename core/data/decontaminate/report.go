package decontaminate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/valence-rl/valence/sdk"
)

// Report is what was done to training data.
type Report struct {
	Off       bool       `json:"off,omitempty"` // nothing was dropped because nobody looked
	Suites    []string   `json:"suites"`        // what was looked for
	Records   int        `json:"records"`       // that were looked at
	Dropped   int        `json:"dropped"`
	Reasons   []Dropped  `json:"reasons"`   // most records first
	Namesakes []Namesake `json:"namesakes"` // kept, and worth a look
}

// Dropped counts the records that went for one reason.
type Dropped struct {
	Why
	Records int      `json:"records"`
	IDs     []string `json:"ids"` // the first few
}

// Namesake counts records of a repository that is called like one of a suite.
type Namesake struct {
	Repository string `json:"repository"`
	Like       string `json:"like"`
	Records    int    `json:"records"`
}

// few is how many IDs a reason lists.
const few = 5

// Sieve looks at records one by one and counts. It is not safe for concurrent use.
type Sieve struct {
	against   *Against
	records   int
	dropped   map[Why]*Dropped
	namesakes map[string]*Namesake
}

// NewSieve makes a Sieve.
func NewSieve(a *Against) *Sieve {
	return &Sieve{against: a, dropped: map[Why]*Dropped{}, namesakes: map[string]*Namesake{}}
}

// Keep says whether a record may be trained on.
func (s *Sieve) Keep(r *sdk.Record) bool {
	s.records++
	why, drop := s.against.Match(r)
	if drop {
		d := s.dropped[why]
		if d == nil {
			d = &Dropped{Why: why}
			s.dropped[why] = d
		}
		if d.Records++; len(d.IDs) < few {
			d.IDs = append(d.IDs, r.ID)
		}
		return false
	}
	if like, ok := s.against.Namesake(r); ok {
		n := s.namesakes[r.Repo]
		if n == nil {
			n = &Namesake{Repository: r.Repo, Like: like}
			s.namesakes[r.Repo] = n
		}
		n.Records++
	}
	return true
}

// Report gives the counts so far.
func (s *Sieve) Report() Report {
	out := Report{Suites: append([]string{}, s.against.Suites()...), Records: s.records, Reasons: []Dropped{}, Namesakes: []Namesake{}}
	for _, d := range s.dropped {
		out.Dropped += d.Records
		out.Reasons = append(out.Reasons, *d)
	}
	slices.SortFunc(out.Reasons, func(a, b Dropped) int {
		return cmp.Or(b.Records-a.Records, cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
	})
	for _, k := range slices.Sorted(maps.Keys(s.namesakes)) {
		out.Namesakes = append(out.Namesakes, *s.namesakes[k])
	}
	return out
}
