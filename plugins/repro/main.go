// Issue reproduction: given an issue, write a script that fails because of it
// (ALGORITHMS 1, equation 7). The script's logs on the original code and on the
// code with the gold patch go to the skill's judge, whose verdict it is.
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

func (skill) Describe() (name, version string) { return "repro", "0.1.0" }

// script is what the agent writes in a language, and how it is run.
type script struct{ file, command string }

func scriptFor(language string) (script, bool) {
	switch strings.ToLower(language) {
	case "python":
		return script{"reproduce.py", "python3 reproduce.py"}, true
	case "go":
		return script{"reproduce.go", "go run reproduce.go"}, true
	}
	return script{}, false
}

// Build makes a task of a record with an issue and a gold patch.
func (skill) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec := &r.Record
	s, ok := scriptFor(rec.Language)
	switch {
	case !ok:
		return grade.Skip("no script is known for the language %q", rec.Language), nil
	case rec.Problem == "":
		return grade.Skip("the record has no problem statement"), nil
	}
	diffs, err := grade.ParseDiff(rec.Patch)
	if err != nil {
		return grade.Skip("the gold patch: %v", err), nil
	}
	if len(diffs) == 0 {
		return grade.Skip("the record has no gold patch"), nil
	}
	for _, d := range diffs {
		if d.Old == s.file || d.New == s.file {
			return grade.Skip("the gold patch touches %s itself", s.file), nil
		}
	}
	task := sdk.Task{
		Skill:     "repro",
		Workspace: rec.Workspace,
		Collect:   []string{s.file},
		Hidden: grade.Hide(&sdk.Record{
			ID: rec.ID, Language: rec.Language, Problem: rec.Problem, Workspace: rec.Workspace, Patch: rec.Patch,
		}),
	}
	if rec.Reproduce != "" {
		task.Reference = &sdk.Reference{Changes: []sdk.Change{{Path: s.file, Data: []byte(rec.Reproduce)}}}
	}
	return grade.BuildTask(r, task, full, brief,
		prompt.Value{Name: "issue_description", Text: rec.Problem},
		prompt.Value{Name: "requirement", Text: rec.Problem})
}
