package main

import (
	"encoding/json"
	"testing"
)

// TestBounds measures the policies whose scores are known: the reference answer
// scores 1 on every task of every skill, no answer scores 0, and a policy that has
// learnt nothing scores next to nothing, but for the skill with two answers.
func TestBounds(t *testing.T) {
	adopt(t)
	runs := "2"
	if testing.Short() {
		runs = "1"
	}
	for _, c := range []struct {
		policy   string
		min, max float64
		of       map[string]float64 // other upper bounds
	}{
		{"oracle", 1, 1, nil},
		{"noop", 0, 0, nil},
		{"random", 0, 0.1, map[string]float64{"review": 0.5}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			q := newQuickstart(t)
			p := q.run(t, 0, "eval", "--policy", c.policy, "-n", "4", "-k", runs, "-o", "json")
			var m measured
			if err := json.Unmarshal(p.stdout.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			if len(m.Splits) != 1 || len(m.Splits[0].Skills) != 5 {
				t.Fatalf("want one split of five skills: %+v", m)
			}
			for _, k := range m.Splits[0].Skills {
				most, other := c.of[k.Name]
				if !other {
					most = c.max
				}
				if k.Tasks != 4 || k.Excluded != 0 {
					t.Errorf("%s: %d tasks, %d episodes excluded", k.Name, k.Tasks, k.Excluded)
				}
				if k.Min < c.min || float64(k.Avg) > most || most == c.min && k.Max > most {
					t.Errorf("%s: %.2f on average, %.2f to %.2f; want %.2f to %.2f", k.Name, k.Avg, k.Min, k.Max, c.min, most)
				}
			}
			q.leavesNothing(t)
		})
	}
}

// TestRefusedLeavesNothing fails after sandboxes and plugins have been opened.
func TestRefusedLeavesNothing(t *testing.T) {
	adopt(t)
	q := newQuickstart(t, "policy.path="+t.TempDir())
	q.run(t, 13, "train")
	q.leavesNothing(t)
}
