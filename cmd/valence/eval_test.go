package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/journal"
)

// Where every episode was lost there is no figure: none is shown, and a gate is missed.
func TestNothingMeasured(t *testing.T) {
	lost := summarise(journal.Eval{Split: "eval", Runs: 1, Skills: []journal.SkillEval{{Name: "repro", Tasks: []string{"a"}, Scores: [][]float64{nil}, Excluded: 1}}})
	b, err := json.Marshal(lost)
	if err != nil || !strings.Contains(string(b), `"avg":null,"ci":[null,null]`) || !strings.Contains(string(b), `"mean":null`) {
		t.Errorf("%s, %v", b, err)
	}
	var table strings.Builder
	measured{Policy: "oracle", Splits: []measuredSplit{lost}}.table(&table, palette{})
	if s := table.String(); strings.Contains(s, "NaN") || !strings.Contains(s, "1 episodes excluded") {
		t.Error(s)
	}
	found := summarise(journal.Eval{Skills: []journal.SkillEval{{Name: "repro", Tasks: []string{"a"}, Scores: [][]float64{{0.5}}}}})
	for _, c := range []struct {
		of   measuredSplit
		gate float64
		want bool
	}{{lost, 0, false}, {lost, 0.1, true}, {found, 0.5, false}, {found, 0.6, true}} {
		if got := c.of.misses(c.gate); got != c.want {
			t.Errorf("mean %v misses the gate %g: %t", c.of.Mean, c.gate, got)
		}
	}
}
