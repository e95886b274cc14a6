// Editing: given an issue and the place of its cause, change the code there so
// that every test passes (ALGORITHMS 1, equation 4). The answer is what the files
// of the place hold at the end.
package main

import (
	"context"
	_ "embed"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
)

var (
	//go:embed prompts/full.txt
	full string
	//go:embed prompts/brief.txt
	brief string
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "editing", "0.1.0" }

// Build makes a task of a record with a gold patch and tests that it turns green.
func (skill) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec := &r.Record
	switch {
	case rec.Problem == "":
		return grade.Skip("the record has no problem statement"), nil
	case len(rec.FailToPass) == 0:
		return grade.Skip("the record names no test that the gold patch turns green"), nil
	case rec.TestCommand == "":
		return grade.Skip("the record has no test command"), nil
	}
	if !grade.Known(rec) {
		return grade.Skip("the log format %q is not known", rec.LogParser), nil
	}
	files, err := editable(rec)
	if err != nil {
		return grade.Skip("the gold patch: %v", err), nil
	}
	if len(files) == 0 {
		return grade.Skip("the gold patch changes nothing but tests"), nil
	}
	places, err := grade.Places(rec)
	if err != nil {
		return grade.Skip("the gold patch: %v", err), nil
	}
	if len(places) == 0 { // the patch only makes files
		for _, f := range files {
			places = append(places, grade.Place{Path: f})
		}
	}
	gold, err := reference(rec, files)
	if err != nil {
		return grade.Skip("the gold patch: %v", err), nil
	}
	collect := make([]string, len(files))
	for i, f := range files {
		collect[i] = grade.Exact(f)
	}
	return grade.BuildTask(r, sdk.Task{
		Skill:     "editing",
		Workspace: rec.Workspace,
		Collect:   collect,
		Hidden: grade.Hide(&sdk.Record{
			ID: rec.ID, Language: rec.Language, Workspace: rec.Workspace, Patch: rec.Patch,
			TestPatch: rec.TestPatch, FailToPass: rec.FailToPass, PassToPass: rec.PassToPass,
			TestCommand: rec.TestCommand, TestFiles: rec.TestFiles, LogParser: rec.LogParser,
		}),
		Reference: gold,
	}, full, brief,
		prompt.Value{Name: "issue_description", Text: rec.Problem},
		prompt.Value{Name: "requirement", Text: rec.Problem},
		prompt.Value{Name: "location", Text: location(places, r.Template == "brief")})
}

// editable gives the files of the gold patch without tests: the code location.
func editable(r *sdk.Record) ([]string, error) {
	diffs, err := grade.ParseDiff(r.Patch)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, d := range diffs {
		for _, p := range []string{d.Old, d.New} {
			if p != "" && !grade.IsTest(p) && !has(files, p) {
				files = append(files, p)
			}
		}
	}
	return files, nil
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// reference gives the gold patch's files as they are with it; nil where the record
// does not list the files of its workspace.
func reference(r *sdk.Record, files []string) (*sdk.Reference, error) {
	if len(r.Workspace.Files) == 0 {
		return nil, nil
	}
	before, err := grade.ApplyDiff(r.Workspace.Files, r.Workspace.Patches...)
	if err != nil {
		return nil, err
	}
	after, err := grade.ApplyDiff(before, r.Patch)
	if err != nil {
		return nil, err
	}
	ref := new(sdk.Reference)
	for _, f := range files {
		if i := grade.Index(after, f); i >= 0 {
			ref.Changes = append(ref.Changes, sdk.Change{Path: f, Data: after[i].Data, Exec: after[i].Exec})
		} else {
			ref.Changes = append(ref.Changes, sdk.Change{Path: f, Deleted: true})
		}
	}
	return ref, nil
}

func location(places []grade.Place, oneLine bool) string {
	s := make([]string, len(places))
	for i, p := range places {
		s[i] = p.String()
	}
	if oneLine {
		return strings.Join(s, ", ")
	}
	return strings.Join(s, "\n")
}
