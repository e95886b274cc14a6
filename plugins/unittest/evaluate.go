package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate gives 1 if and only if the test command succeeds on the correct code
// and fails on every mutant. Each run has a fresh sandbox that gets the test file
// and nothing else from the agent; the sources in it are reworded (see
// [grade.Reword]), so that a test of their text fails. The correct code is run
// again after a mutant that the hidden part decides, so that a test that only tells
// the first run from later ones, by the clock or by chance, fails.
// A command that runs into its time limit has failed. It stops at the first mutant
// that survives unless partial is set, where the score is the share of mutants
// caught. Components: passes, 1 if the tests pass on the correct code, and
// kill_ratio over the mutants that were run.
func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	o, err := read(r.Config)
	if err != nil {
		return nil, err
	}
	rec, err := grade.Reveal(&r.Task)
	if err != nil {
		return nil, err
	}
	if len(rec.Mutants) == 0 {
		return nil, fmt.Errorf("evaluate: %s: the hidden part has no mutant", r.Task.Key)
	}
	tests, ok := grade.Written(&r.Output, rec.UnitTestFile)
	if !ok {
		return verdict(0, 0, rec.UnitTestFile+" was not written"), nil
	}
	correct, reworded, err := original(rec)
	if err != nil {
		return nil, err
	}
	limit := grade.Deadline(r.Timeout, 2+len(rec.Mutants))
	draw := func(what string) uint64 { return grade.Hash(0, string(r.Task.Hidden), string(tests), what) }
	runs := 0
	succeeds := func(files []sdk.Change) (bool, *sdk.Log, error) {
		runs++
		log, err := grade.Run1(ctx, h, &sdk.RunRequest{
			Workspace: rec.Workspace,
			Changes:   append(files[:len(files):len(files)], sdk.Change{Path: rec.UnitTestFile, Data: tests}),
			Commands: []sdk.Command{{
				Shell: rec.UnitTestCommand, Millis: limit,
				// Makes no two runs the same request, which a memo would run once.
				Env: []string{fmt.Sprintf("PYTHONHASHSEED=%d", uint32(draw("run "+strconv.Itoa(runs))))},
			}},
		})
		if err != nil {
			return false, nil, err
		}
		return log.ExitCode == 0 && !log.TimedOut, log, nil
	}
	passes, log, err := succeeds(correct)
	if err != nil {
		return nil, err
	}
	if !passes {
		return verdict(0, 0, "the tests do not pass on the correct code: "+ending(log)), nil
	}
	caught, run, survivor := 0, 0, ""
	again := int(draw("again") % uint64(len(rec.Mutants))) // the mutant before the second run of the correct code
	for i, m := range rec.Mutants {
		run++
		survives, _, err := succeeds(overlay(correct, replaced(m.Files, rec, reworded)))
		if err != nil {
			return nil, err
		}
		switch {
		case !survives:
			caught++
		case survivor == "":
			survivor = m.ID
		}
		if survivor != "" && !o.partial {
			break
		}
		if i != again {
			continue
		}
		if passes, log, err = succeeds(correct); err != nil {
			return nil, err
		}
		if !passes {
			return verdict(0, 0, "the tests passed on the correct code once and not again: "+ending(log)), nil
		}
	}
	v := verdict(1, float64(caught)/float64(run), "")
	switch {
	case survivor == "":
		v.Score = 1
		v.Reason = fmt.Sprintf("passes on the correct code and catches all %d mutants", caught)
	default:
		v.Reason = fmt.Sprintf("mutant %s survives; %d of %d mutants run were caught", survivor, caught, run)
		if o.partial {
			v.Score = float64(caught) / float64(run)
		}
	}
	return v, nil
}

// original gives the correct content of the files that mutants replace, reworded.
// It reports false, with no changes, where the record does not list them all: then
// correct code and mutants stay as they are, so that the rewording tells nothing.
func original(r *sdk.Record) ([]sdk.Change, bool, error) {
	if len(r.Workspace.Files) == 0 {
		return nil, false, nil
	}
	tree, err := grade.ApplyDiff(r.Workspace.Files, r.Workspace.Patches...)
	if err != nil {
		return nil, false, err
	}
	var out []sdk.Change
	seen := map[string]bool{}
	for _, m := range r.Mutants {
		for _, f := range m.Files {
			if seen[f.Path] {
				continue
			}
			seen[f.Path] = true
			i := grade.Index(tree, f.Path)
			if i < 0 {
				return nil, false, nil
			}
			out = append(out, replaced(tree[i:i+1], r, true)...)
		}
	}
	return out, true, nil
}

// replaced gives files as changes to the workspace.
func replaced(files []sdk.File, r *sdk.Record, reword bool) []sdk.Change {
	var names []string
	for _, t := range r.Targets {
		names = append(names, t.Name)
	}
	out := make([]sdk.Change, 0, len(files))
	for _, f := range files {
		data := f.Data
		if reword {
			data = grade.Reword(f.Path, data, names...)
		}
		out = append(out, sdk.Change{Path: f.Path, Data: data, Exec: f.Exec})
	}
	return out
}

// overlay gives base with the changes of top in place of those to the same paths.
// A mutant thus differs from the correct code by its mutation alone: even the
// order in which files are written, and so their times and inodes, is the same.
func overlay(base, top []sdk.Change) []sdk.Change {
	out := append([]sdk.Change(nil), base...)
	for _, t := range top {
		if i := slices.IndexFunc(out, func(b sdk.Change) bool { return b.Path == t.Path }); i >= 0 {
			out[i] = t
		} else {
			out = append(out, t)
		}
	}
	return out
}

func verdict(passes, kills float64, reason string) *sdk.Verdict {
	return &sdk.Verdict{
		Components: []sdk.Component{{Name: "passes", Value: passes}, {Name: "kill_ratio", Value: kills}},
		Reason:     reason,
	}
}

// ending tells how a command ended, with the last of what it printed.
func ending(log *sdk.Log) string {
	s := fmt.Sprintf("exit status %d", log.ExitCode)
	if log.TimedOut {
		s = "no end within the time limit"
	}
	tail := log.Output
	if len(tail) > 500 {
		tail = "…" + tail[len(tail)-500:]
	}
	if tail != "" {
		s += "\n" + tail
	}
	return s
}
