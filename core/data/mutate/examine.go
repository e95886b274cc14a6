package mutate

import (
	"context"
	"slices"
	"time"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// findings are what became of one function.
type findings struct {
	tried, caught, survived, unsound, endless int
	records                                   []sdk.Record
	refused                                   string
}

// mutant is an edit that the tests caught.
type mutant struct {
	Edit
	data    []byte   // the whole file with it
	caught  []string // tests that passed before and fail now, of the relevant units
	log     string
	nth     int
	spread  int // stable tests of the relevant units
	longest time.Duration
}

// examine tries a function's edits and makes records of what the tests catch.
func (m *maker) examine(ctx context.Context, f *Function) (*findings, error) {
	out := new(findings)
	original := m.tree.At(f.Path)
	edits := inOrder(f, m.Seed)
	if m.Proposer != nil {
		more, err := m.Proposer.Propose(ctx, sdk.File{Path: f.Path, Data: original}, f)
		if err != nil {
			return nil, err
		}
		edits = append(more, edits...)
	}
	units := m.relevant(f)
	var mutants []mutant
	limit := 10 * time.Second
	spread := 0
	for _, u := range units {
		limit = max(limit, 5*u.took)
		spread += len(u.stable)
	}
	for n, e := range edits {
		if out.tried == m.Tries {
			break
		}
		data := e.apply(original)
		outcomes, err := m.lab.Test(ctx, m.whole, []sdk.Change{{Path: f.Path, Data: data}}, plain(units), m.stable, limit, 0)
		if err != nil {
			return nil, err
		}
		out.tried++
		k := mutant{Edit: e, data: data, nth: n, spread: spread}
		endless, loads := false, false
		for i, o := range outcomes {
			endless = endless || o.TimedOut
			loads = loads || len(o.Passed)+len(o.Failed) > 0
			for _, id := range units[i].stable {
				if _, passed := slices.BinarySearch(o.Passed, id); !passed {
					k.caught = append(k.caught, id)
				}
			}
			if len(o.Failed) > 0 && k.log == "" {
				k.log = o.Log
			}
		}
		switch {
		case endless:
			out.endless++
		case !loads:
			out.unsound++
		case len(k.caught) == 0:
			out.survived++
		case k.log == "": // tests are missing and none has failed: a unit does not load
			out.unsound++
		default:
			out.caught++
			mutants = append(mutants, k)
		}
	}
	if len(mutants) == 0 {
		return out, nil
	}
	// The bug of a record is one that few of the tests notice.
	order := slices.Clone(mutants)
	slices.SortStableFunc(order, func(a, b mutant) int { return 2*band(a) + coarse(a) - 2*band(b) - coarse(b) })
	for _, bug := range order {
		if len(out.records) == m.PerFunction {
			break
		}
		r, why, err := m.record(ctx, f, units, bug, mutants, len(out.records)+1)
		if err != nil {
			return nil, err
		}
		if r == nil {
			out.refused = why
			continue
		}
		out.records = append(out.records, *r)
	}
	if len(out.records) > 0 {
		out.refused = ""
	}
	return out, nil
}

// band ranks mutants by the share of tests that they fail, roughly, so that the seed's
// order counts among like ones.
func band(m mutant) int {
	switch share := float64(len(m.caught)) / float64(max(1, m.spread)); {
	case share <= 0.2:
		return 0
	case share <= 0.5:
		return 1
	case share < 1:
		return 2
	}
	return 3
}

// coarse says whether a mutant is of the kind that nobody makes by mistake.
func coarse(m mutant) int {
	if m.Operator == "return" || m.Operator == "statement" {
		return 1
	}
	return 0
}

// pickOthers gives the mutants that differ from bug, in an order that the seed decides.
func pickOthers(mutants []mutant, bug mutant, seed uint64, id string) []mutant {
	var out []mutant
	for _, i := range grade.Order(len(mutants), seed, id) {
		if string(mutants[i].data) != string(bug.data) {
			out = append(out, mutants[i])
		}
	}
	return out
}
