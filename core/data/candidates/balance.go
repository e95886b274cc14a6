package candidates

import (
	"cmp"
	"maps"
	"slices"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// surplus is a candidate that may go.
type surplus struct {
	record    *sdk.Record
	at        int // in its candidates
	synthetic bool
	nth       int // of its label in the record
	dice      uint64
}

// balance takes candidates away until the records of each source have as many right as
// wrong ones, or no more can go: synthetic ones first, of the records that have most. A
// record keeps one of each label that it has, and its gold patch. It gives how many went.
func balance(records []*sdk.Record, seed uint64) (gone int) {
	sources := map[string][]*sdk.Record{}
	for _, r := range records {
		sources[r.Source] = append(sources[r.Source], r)
	}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		var all Labels
		for _, r := range sources[source] {
			for i := range r.Candidates {
				all.count(&r.Candidates[i], 1)
			}
		}
		var may []surplus
		for _, r := range sources[source] {
			may = append(may, surpluses(r, all.Right > all.Wrong, seed)...)
		}
		slices.SortStableFunc(may, func(a, b surplus) int {
			if a.synthetic != b.synthetic {
				if a.synthetic {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(b.nth, a.nth), cmp.Compare(a.dice, b.dice))
		})
		may = may[:min(len(may), max(all.Right-all.Wrong, all.Wrong-all.Right))]
		drop(may)
		gone += len(may)
	}
	return gone
}

// surpluses gives the candidates of a label in a record that are not its first: the gold
// patch comes first, then those of policies.
func surpluses(r *sdk.Record, correct bool, seed uint64) (out []surplus) {
	order := func(c *sdk.Candidate) int {
		switch {
		case c.Origin == gold:
			return 0
		case synthetic(c.Origin):
			return 2
		}
		return 1
	}
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Correct == correct {
			out = append(out, surplus{record: r, at: i, synthetic: synthetic(c.Origin), dice: grade.Hash(seed, "balance", r.ID, c.Patch)})
		}
	}
	slices.SortStableFunc(out, func(a, b surplus) int { return order(&r.Candidates[a.at]) - order(&r.Candidates[b.at]) })
	for n := range out {
		out[n].nth = n
	}
	return slices.DeleteFunc(out, func(s surplus) bool { return s.nth == 0 || r.Candidates[s.at].Origin == gold })
}

func drop(list []surplus) {
	at := map[*sdk.Record][]int{}
	for _, s := range list {
		at[s.record] = append(at[s.record], s.at)
	}
	for r, places := range at {
		var kept []sdk.Candidate
		for i, c := range r.Candidates {
			if !slices.Contains(places, i) {
				kept = append(kept, c)
			}
		}
		r.Candidates = kept
	}
}
