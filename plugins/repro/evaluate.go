package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate runs the script twice, each time in a fresh sandbox that gets nothing
// else from the agent, and asks the judge. Component: confidence, the judge's. A
// judge that fails is an error and no verdict.
func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec, err := grade.Reveal(&r.Task)
	if err != nil {
		return nil, err
	}
	s, ok := scriptFor(rec.Language)
	if !ok {
		return nil, fmt.Errorf("evaluate: %s: no script is known for the language %q", r.Task.Key, rec.Language)
	}
	text, ok := grade.Written(&r.Output, s.file)
	if !ok || strings.TrimSpace(string(text)) == "" {
		return grade.Fail("%s was not written", s.file), nil
	}
	request := sdk.RunRequest{
		Workspace: rec.Workspace,
		Changes:   []sdk.Change{{Path: s.file, Data: text}},
		// Half of the time is the judge's.
		Commands: []sdk.Command{{Shell: s.command, Millis: grade.Deadline(r.Timeout, 4)}},
	}
	before, err := grade.Run1(ctx, h, &request)
	if err != nil {
		return nil, err
	}
	request.Patches = []string{rec.Patch}
	after, err := grade.Run1(ctx, h, &request)
	if err != nil {
		return nil, err
	}
	opinion, err := h.Ask(ctx, &sdk.JudgeRequest{
		Issue: rec.Problem, Script: string(text), Before: *before, After: *after,
	})
	if err != nil {
		return nil, err
	}
	v := &sdk.Verdict{
		Components: []sdk.Component{{Name: "confidence", Value: opinion.Confidence}},
		Reason:     opinion.Rationale,
	}
	if opinion.Verdict {
		v.Score = 1
	}
	return v, nil
}
