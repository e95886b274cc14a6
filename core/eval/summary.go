package eval

import (
	"hash/fnv"
	"slices"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// Summary is what `valence report -o json` prints for one run: its policy before
// and after training on one split. Keys are added, never renamed or removed.
type Summary struct {
	Run      string         `json:"run"`
	Steps    int            `json:"steps"`
	Skills   []SkillSummary `json:"skills"`
	Mean     MeanSummary    `json:"mean"` // over skills, each weighing the same
	Split    string         `json:"split"`
	Runs     int            `json:"runs"`               // k of Avg@k, the smaller of the two evaluations
	Unscored []string       `json:"unscored,omitempty"` // skills left out: no score on one side
}

// SkillSummary is one skill's row.
type SkillSummary struct {
	Name   string   `json:"name"`
	Before Interval `json:"before"`
	After  Interval `json:"after"`
	Delta  Interval `json:"delta"` // paired by task
	Tasks  int      `json:"tasks"` // scored on both sides
}

// Interval is a mean and its 95% interval.
type Interval struct {
	Avg float64    `json:"avg"`
	CI  [2]float64 `json:"ci"`
}

// MeanSummary is the row of means.
type MeanSummary struct {
	Before   float64    `json:"before"`
	After    float64    `json:"after"`
	BeforeCI [2]float64 `json:"before_ci"`
	AfterCI  [2]float64 `json:"after_ci"`
	Delta    Interval   `json:"delta"`
}

// Summarise compares two evaluations of one split, matching tasks by key. Skills
// come in the order of before. An evaluation of one policy against itself is
// allowed: every delta is then 0. The error is a diag.Error of kind data: the
// evaluations are of different splits, are malformed, or have no scored skill in
// common.
func Summarise(run string, steps int, before, after journal.Eval, seed uint64) (Summary, error) {
	const op = "summarise evaluation"
	s := Summary{Run: run, Steps: steps, Split: before.Split, Runs: min(before.Runs, after.Runs), Skills: []SkillSummary{}}
	if before.Split != after.Split {
		return s, diag.Errorf(diag.KindData, op, run, "split %q against split %q", before.Split, after.Split)
	}
	for _, e := range []journal.Eval{before, after} {
		for _, k := range e.Skills {
			if len(k.Tasks) != len(k.Scores) {
				return s, diag.Errorf(diag.KindData, op, k.Name, "%d tasks, %d rows of scores", len(k.Tasks), len(k.Scores))
			}
		}
	}
	var rowsBefore, rowsAfter, pairsBefore, pairsAfter [][][]float64
	for _, b := range before.Skills {
		i := slices.IndexFunc(after.Skills, func(k journal.SkillEval) bool { return k.Name == b.Name })
		if i < 0 {
			s.Unscored = append(s.Unscored, b.Name)
			continue
		}
		a := after.Skills[i]
		x, y := match(b, a)
		own := seed ^ hash(b.Name)
		delta := Paired(x, y, own)
		if delta.Tasks == 0 {
			s.Unscored = append(s.Unscored, b.Name)
			continue
		}
		s.Skills = append(s.Skills, SkillSummary{
			Name: b.Name, Tasks: delta.Tasks, Delta: delta.interval(),
			Before: Average(b.Scores, own).interval(), After: Average(a.Scores, own).interval(),
		})
		rowsBefore, rowsAfter = append(rowsBefore, b.Scores), append(rowsAfter, a.Scores)
		pairsBefore, pairsAfter = append(pairsBefore, x), append(pairsAfter, y)
	}
	for _, a := range after.Skills {
		if !slices.ContainsFunc(before.Skills, func(k journal.SkillEval) bool { return k.Name == a.Name }) {
			s.Unscored = append(s.Unscored, a.Name)
		}
	}
	if len(s.Skills) == 0 {
		return s, diag.Errorf(diag.KindData, op, run, "no skill has scores in both evaluations")
	}
	mb, ma := Macro(rowsBefore, seed), Macro(rowsAfter, seed)
	s.Mean = MeanSummary{
		Before: mb.Avg, After: ma.Avg, BeforeCI: mb.CI, AfterCI: ma.CI,
		Delta: MacroPaired(pairsBefore, pairsAfter, seed).interval(),
	}
	return s, nil
}

// match orders the rows of both by the tasks they share.
func match(b, a journal.SkillEval) (x, y [][]float64) {
	at := make(map[string]int, len(a.Tasks))
	for i, k := range a.Tasks {
		at[k] = i
	}
	for i, k := range b.Tasks {
		if j, ok := at[k]; ok {
			x, y = append(x, b.Scores[i]), append(y, a.Scores[j])
		}
	}
	return x, y
}

func (e Estimate) interval() Interval { return Interval{Avg: e.Avg, CI: e.CI} }

// hash gives every skill its own resampling, independent of the others' order.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
