package run

import (
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/journal"
)

// describe fills in what a step's episodes say about each skill; nil stands for one
// that was lost or given up.
func describe(m *journal.Step, groups []group, skillOf func(i int) string) {
	tokens, turns := map[string]int{}, map[string]int{}
	for i, g := range groups {
		k := m.Skills[skillOf(i)]
		k.Groups++
		kept, zero, one, scored := false, true, true, 0
		for _, e := range g {
			if e == nil || e.Outcome != journal.Scored {
				continue
			}
			scored++
			k.Episodes++
			k.Score += e.Score
			k.Ends[e.End]++
			k.Turns += float64(e.Turns)
			k.TestRuns += float64(e.TestRuns)
			tokens[skillOf(i)] += e.SampledTokens
			turns[skillOf(i)] += e.Turns
			m.SampledTokens += e.SampledTokens
			if e.Filtered {
				k.Filtered++
			}
			kept = kept || e.Fate == string(grpo.Trained)
			zero = zero && e.Score == 0
			one = one && e.Score == 1
		}
		if kept {
			k.Kept++
		}
		if scored > 0 && zero {
			k.AllZero++
		}
		if scored > 0 && one {
			k.AllOne++
		}
	}
	for name, k := range m.Skills {
		if n := float64(k.Episodes); n > 0 {
			k.Score /= n
			k.Turns /= n
			k.TestRuns /= n
			k.Filtered /= n
		}
		if k.Groups > 0 {
			k.Kept /= float64(k.Groups)
		}
		if t := turns[name]; t > 0 {
			k.TurnTokens = float64(tokens[name]) / float64(t)
		}
	}
}

// used is how model use is stored: nil where nothing was asked.
func used(u journal.ModelUse) *journal.ModelUse {
	if u == (journal.ModelUse{}) {
		return nil
	}
	return &u
}
