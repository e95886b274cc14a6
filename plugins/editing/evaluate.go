package main

import (
	"context"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate gives 1 if and only if every test of FailToPass and PassToPass passes
// in a fresh workspace that has the hidden tests and, of the agent's changes, the
// editable files alone. Components: the shares of both groups that passed.
func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec, err := grade.Reveal(&r.Task)
	if err != nil {
		return nil, err
	}
	files, err := editable(rec)
	if err != nil {
		return nil, err
	}
	tests, err := grade.ParseDiff(rec.TestPatch)
	if err != nil {
		return nil, err
	}
	hidden := rec.TestFiles
	for _, d := range tests {
		hidden = append(hidden[:len(hidden):len(hidden)], d.Path())
	}
	changes, dropped := grade.Code(&r.Output, files, hidden...)
	if len(changes) == 0 {
		reason := "no file of the code location was changed"
		if out := append(dropped, r.Output.Outside...); len(out) > 0 {
			reason += "; not kept: " + strings.Join(clip(out), ", ")
		}
		return grade.Fail("%s", reason), nil
	}
	rep, err := grade.RunTests(ctx, h, rec, changes, r.Seed, r.Task.Key, grade.Deadline(r.Timeout, 2))
	if err != nil {
		return nil, err
	}
	v := &sdk.Verdict{
		Components: []sdk.Component{{Name: "fail_to_pass", Value: rep.FailToPass}, {Name: "pass_to_pass", Value: rep.PassToPass}},
		Reason:     rep.Reason,
	}
	if rep.Solved {
		v.Score = 1
	}
	return v, nil
}

func clip(paths []string) []string {
	if len(paths) > 10 {
		paths = append(paths[:10:10], "…")
	}
	return paths
}
