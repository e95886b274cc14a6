package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/eval"
	"github.com/valence-rl/valence/core/journal"
)

// interval is an estimate with its 95% interval; ok is false where there is none.
type interval struct {
	mean, low, high float64
	ok              bool
}

func intervalOf(i eval.Interval) interval { return interval{i.Avg, i.CI[0], i.CI[1], true} }

func estimate(e eval.Estimate) interval {
	return interval{e.Avg, e.CI[0], e.CI[1], e.Tasks > 0}
}

// average is Avg@k of one skill.
func (r *Report) average(k journal.SkillEval) interval {
	return estimate(eval.Average(k.Scores, r.seed))
}

// macro is the mean over the skills of an evaluation.
func (r *Report) macro(e journal.Eval) interval {
	rows := make([][][]float64, len(e.Skills))
	for i, k := range e.Skills {
		rows[i] = k.Scores
	}
	return estimate(eval.Macro(rows, r.seed))
}

// compare pairs the first and the last evaluation of every split; with one only,
// the summary compares it with itself.
func (r *Report) compare() {
	slices.SortStableFunc(r.Evals, func(a, b journal.Eval) int { return a.Step - b.Step })
	var order []string
	bySplit := map[string][]journal.Eval{}
	for _, e := range r.Evals {
		if len(bySplit[e.Split]) == 0 {
			order = append(order, e.Split)
		}
		bySplit[e.Split] = append(bySplit[e.Split], e)
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range order {
		es := bySplit[name]
		s := Split{Name: name, After: es[len(es)-1]}
		if len(es) > 1 {
			s.Before = &es[0]
		}
		var err error
		if s.Summary, err = eval.Summarise(r.Name, r.LastStep(), es[0], s.After, r.seed); err != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("split %s: %v", name, err))
			continue
		}
		if u := s.Summary.Unscored; len(u) > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("split %s: no scores on both sides for %s.", name, strings.Join(u, ", ")))
		}
		s.fill()
		r.Splits = append(r.Splits, s)
	}
}

// rank puts the held-out tasks before every other split.
func rank(split string) int {
	if split == "eval" {
		return 0
	}
	return 1
}

// fill makes the rows of the comparison from the summary.
func (s *Split) fill() {
	pair := func(r *row, before, delta interval) {
		if s.Before != nil {
			r.before, r.delta = before, delta
		}
	}
	for _, k := range s.Summary.Skills {
		r := row{name: k.Name, tasks: k.Tasks, after: intervalOf(k.After)}
		pair(&r, intervalOf(k.Before), intervalOf(k.Delta))
		s.rows = append(s.rows, r)
	}
	m := s.Summary.Mean
	s.mean = row{name: "mean", after: interval{m.After, m.AfterCI[0], m.AfterCI[1], true}}
	pair(&s.mean, interval{m.Before, m.BeforeCI[0], m.BeforeCI[1], true}, intervalOf(m.Delta))
}
