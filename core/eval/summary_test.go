package eval

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

func evaluation(skills ...journal.SkillEval) journal.Eval {
	return journal.Eval{Split: "eval", Runs: 2, Skills: skills}
}

func TestSummarise(t *testing.T) {
	before := evaluation(
		journal.SkillEval{Name: "editing", Tasks: []string{"a", "b"}, Scores: [][]float64{{0, 0}, {0, 0}}},
		journal.SkillEval{Name: "review", Tasks: []string{"c", "d"}, Scores: [][]float64{{1, 1}, {1}}},
		journal.SkillEval{Name: "lost", Tasks: []string{"e"}, Scores: [][]float64{{}}},
		journal.SkillEval{Name: "removed", Tasks: []string{"f"}, Scores: [][]float64{{1}}},
	)
	after := evaluation(
		journal.SkillEval{Name: "added", Tasks: []string{"g"}, Scores: [][]float64{{1}}},
		journal.SkillEval{Name: "lost", Tasks: []string{"e"}, Scores: [][]float64{{1}}},
		journal.SkillEval{Name: "review", Tasks: []string{"d", "c", "new"}, Scores: [][]float64{{1, 1}, {1, 1}, {1, 1}}},
		journal.SkillEval{Name: "editing", Tasks: []string{"b", "a"}, Scores: [][]float64{{1, 0}, {0, 1}}},
	)
	s, err := Summarise("joint", 40, before, after, 7)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"run":"joint","steps":40,"skills":[` +
		`{"name":"editing","before":{"avg":0,"ci":[0,0]},"after":{"avg":0.5,"ci":[0.5,0.5]},"delta":{"avg":0.5,"ci":[0.5,0.5]},"tasks":2},` +
		`{"name":"review","before":{"avg":1,"ci":[1,1]},"after":{"avg":1,"ci":[1,1]},"delta":{"avg":0,"ci":[0,0]},"tasks":2}],` +
		`"mean":{"before":0.5,"after":0.75,"before_ci":[0.5,0.5],"after_ci":[0.75,0.75],"delta":{"avg":0.25,"ci":[0.25,0.25]}},` +
		`"split":"eval","runs":2,"unscored":["lost","removed","added"]}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestSummariseRefuses(t *testing.T) {
	ok := evaluation(journal.SkillEval{Name: "a", Tasks: []string{"x"}, Scores: [][]float64{{1}}})
	other := ok
	other.Split = "unseen"
	for _, c := range []struct {
		name          string
		before, after journal.Eval
		want          string
	}{
		{"split", ok, other, `split "eval" against split "unseen"`},
		{"nothing", ok, evaluation(), "no skill has scores in both"},
		{"rows", ok, evaluation(journal.SkillEval{Name: "a", Tasks: []string{"x", "y"}, Scores: [][]float64{{1}}}), "a: 2 tasks, 1 rows"},
	} {
		_, err := Summarise("r", 1, c.before, c.after, 1)
		if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A skill's interval does not depend on which other skills there are.
func TestSummariseIndependent(t *testing.T) {
	skill := func(name string) journal.SkillEval {
		k := journal.SkillEval{Name: name}
		for i := range 30 {
			k.Tasks = append(k.Tasks, string(rune('A'+i)))
			k.Scores = append(k.Scores, []float64{float64(i % 2), float64(i % 3 / 2)})
		}
		return k
	}
	alone := evaluation(skill("b"))
	both := evaluation(skill("a"), skill("b"))
	x, err := Summarise("r", 1, alone, alone, 3)
	if err != nil {
		t.Fatal(err)
	}
	y, err := Summarise("r", 1, both, both, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x.Skills[0], y.Skills[1]); d != "" {
		t.Error(d)
	}
}
