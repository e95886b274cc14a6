package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate runs the script on both codes, each time in a fresh sandbox that gets
// nothing else from the agent, and asks the judge. The hidden part decides which
// code comes first; if the judge agrees, that one is run once more: a script that
// tells earlier runs from later ones, by the clock or by chance, does not end alike.
// Component: confidence, the judge's. A judge that fails is an error and no verdict.
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
	before, after, err := versions(rec)
	if err != nil {
		return nil, err
	}
	draw := func(what string) uint64 { return grade.Hash(0, string(r.Task.Hidden), string(text), what) }
	runs := 0
	run := func(code sdk.RunRequest) (*sdk.Log, error) {
		runs++
		code.Workspace = rec.Workspace
		code.Changes = append(code.Changes[:len(code.Changes):len(code.Changes)], sdk.Change{Path: s.file, Data: text})
		code.Commands = []sdk.Command{{
			// Less than a quarter of the time each; the rest is the judge's.
			Shell: s.command, Millis: grade.Deadline(r.Timeout, 5),
			// Makes no two runs the same request, which a memo would run once.
			Env: []string{fmt.Sprintf("PYTHONHASHSEED=%d", uint32(draw("run "+strconv.Itoa(runs))))},
		}}
		return grade.Run1(ctx, h, &code)
	}
	var logs [2]*sdk.Log // on the original code, on the fixed code
	codes := [2]sdk.RunRequest{before, after}
	first := int(draw("first") & 1)
	for _, i := range []int{first, 1 - first} {
		if logs[i], err = run(codes[i]); err != nil {
			return nil, err
		}
	}
	opinion, err := h.Ask(ctx, &sdk.JudgeRequest{
		Issue: rec.Problem, Script: string(text), Before: *logs[0], After: *logs[1],
	})
	if err != nil {
		return nil, err
	}
	v := &sdk.Verdict{
		Components: []sdk.Component{{Name: "confidence", Value: opinion.Confidence}},
		Reason:     opinion.Rationale,
	}
	if !opinion.Verdict {
		return v, nil
	}
	again, err := run(codes[first])
	if err != nil {
		return nil, err
	}
	if succeeded(again) != succeeded(logs[first]) {
		v.Reason = "the script ends now in one way and now in another on the same code"
		return v, nil
	}
	v.Score = 1
	return v, nil
}

func succeeded(log *sdk.Log) bool { return log.ExitCode == 0 && !log.TimedOut }

// versions gives what makes the original and the fixed code of the workspace. The
// sources that differ are reworded in both where the record lists them (see
// [grade.Reword]), so that a script cannot know the original by its digest.
func versions(r *sdk.Record) (before, after sdk.RunRequest, err error) {
	after.Patches = []string{r.Patch}
	if len(r.Workspace.Files) == 0 {
		return before, after, nil
	}
	diffs, err := grade.ParseDiff(r.Patch)
	if err != nil {
		return before, after, err
	}
	original, err := grade.ApplyDiff(r.Workspace.Files, r.Workspace.Patches...)
	if err != nil {
		return before, after, err
	}
	fixed, err := grade.ApplyDiff(original, r.Patch)
	if err != nil {
		return before, after, err
	}
	reworded := func(tree []sdk.File) (out []sdk.Change) {
		for _, f := range tree {
			if slices.ContainsFunc(diffs, func(d grade.FileDiff) bool { return d.Old == f.Path || d.New == f.Path }) {
				out = append(out, sdk.Change{Path: f.Path, Data: grade.Reword(f.Path, f.Data), Exec: f.Exec})
			}
		}
		return out
	}
	before.Changes, after.Changes = reworded(original), reworded(fixed)
	return before, after, nil
}
