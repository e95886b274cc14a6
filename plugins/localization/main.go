// Localization: given a request, name the source files that have to change
// (ALGORITHMS 1, equation 3). The answer is location.txt, one path a line.
package main

import (
	"context"
	_ "embed"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
)

// answer is the file that holds the agent's list.
const answer = "location.txt"

var (
	//go:embed prompts/full.txt
	full string
	//go:embed prompts/brief.txt
	brief string
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "localization", "0.1.0" }

// Build makes a task of a record whose gold patch changes source files. Files that
// the patch makes are not asked for: nobody can name what is not there yet.
func (skill) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec := &r.Record
	if rec.Problem == "" {
		return grade.Skip("the record has no problem statement"), nil
	}
	files, err := reference(rec)
	if err != nil {
		return grade.Skip("%v", err), nil
	}
	if len(files) == 0 {
		return grade.Skip("the gold patch changes no source file of %s", rec.Language), nil
	}
	list := ""
	for _, f := range files {
		list += f + "\n"
	}
	return grade.BuildTask(r, sdk.Task{
		Skill:     "localization",
		Workspace: rec.Workspace,
		Collect:   []string{answer},
		Hidden:    grade.Hide(&sdk.Record{ID: rec.ID, Language: rec.Language, Patch: rec.Patch}),
		Reference: &sdk.Reference{Changes: []sdk.Change{{Path: answer, Data: []byte(list)}}},
	}, full, brief,
		prompt.Value{Name: "requirement", Text: rec.Problem},
		prompt.Value{Name: "issue_description", Text: rec.Problem})
}

// reference gives the source files, tests apart, that the gold patch changes.
func reference(r *sdk.Record) ([]string, error) {
	diffs, err := grade.ParseDiff(r.Patch)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, d := range diffs {
		if d.Old != "" && grade.IsSource(r.Language, d.Old) && !grade.IsTest(d.Old) {
			files = append(files, d.Old)
		}
	}
	return files, nil
}
