package mutate

import (
	"context"
	"slices"
	"time"

	"github.com/valence-rl/valence/sdk"
)

// findings are what became of one function.
type findings struct {
	tried, caught, survived, unsound, endless int
	written                                   Written
	records                                   []sdk.Record
	refused                                   string
}

// Mutant is an edit that the tests caught.
type Mutant struct {
	Edit
	Path     string
	Function string

	data   []byte   // the whole file with it
	caught []string // tests that passed before and fail now, of the relevant units
	log    string
	nth    int
	spread int // stable tests of the relevant units
}

// examine tries a function's edits and makes records of what the tests catch.
func (m *Bench) examine(ctx context.Context, f *Function) (*findings, error) {
	out := new(findings)
	mutants, err := m.mutants(ctx, f, out)
	if err != nil || len(mutants) == 0 {
		return out, err
	}
	// The bug of a record is one that few of the tests notice.
	order := slices.Clone(mutants)
	slices.SortStableFunc(order, func(a, b Mutant) int { return 2*band(a) + coarse(a) - 2*band(b) - coarse(b) })
	near := plain(m.relevant(f))
	for _, k := range order {
		if len(out.records) == m.PerFunction {
			break
		}
		r, why, err := m.Record(ctx, Bug{
			ID: m.id(f, len(out.records)+1), Changes: []sdk.Change{{Path: f.Path, Data: k.data}}, Targets: []Function{*f},
			Near: near, Log: k.log, Meta: []sdk.Pair{{Key: "operator", Value: k.Operator}},
		}, mutants)
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

// mutants tries a function's edits and gives those that the tests catch.
func (m *Bench) mutants(ctx context.Context, f *Function, out *findings) ([]Mutant, error) {
	original := m.tree.At(f.Path)
	edits, err := m.edits(ctx, f, out)
	if err != nil {
		return nil, err
	}
	units := m.relevant(f)
	var mutants []Mutant
	limit := 20 * time.Second
	spread := 0
	for _, u := range units {
		limit = max(limit, 10*u.took)
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
		k := Mutant{Edit: e, Path: f.Path, Function: f.Name, data: data, nth: n, spread: spread}
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
			if e.Operator == byModel {
				out.written.Caught++
			}
			mutants = append(mutants, k)
		}
	}
	return mutants, nil
}

// band ranks mutants by the share of tests that they fail, roughly, so that the seed's
// order counts among like ones.
func band(m Mutant) int {
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
func coarse(m Mutant) int {
	if m.Operator == "return" || m.Operator == "statement" {
		return 1
	}
	return 0
}
