// Review: given an issue and a diff that claims to solve it, say whether it does
// (ALGORITHMS 1, equation 6). The answer is the judgment in the final message.
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

func (skill) Describe() (name, version string) { return "review", "0.1.0" }

// optFrom is the skill's own key of the run's TOML: record (default), model, both.
const optFrom = "candidates_from"

func read(config []sdk.Pair) (from string, err error) {
	opts, err := grade.ReadOptions(config, optFrom)
	if err != nil {
		return "", err
	}
	return opts.Word(optFrom, "record", "record", "model", "both")
}

// Build makes a task of one candidate: the record's, or the model's as the record's
// tests label them. Seed and record decide the label that is wanted, each with
// probability one half, so that the labels are balanced over records; a record
// without a candidate of that label gives no task.
func (skill) Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	from, err := read(r.Config)
	if err != nil {
		return nil, err
	}
	rec := &r.Record
	if rec.Problem == "" {
		return grade.Skip("the record has no problem statement"), nil
	}
	var all []sdk.Candidate
	if from != "model" {
		all = rec.Candidates
	}
	if from != "record" {
		more, why, err := proposed(ctx, h, r)
		if err != nil {
			return nil, err
		}
		if all = append(all[:len(all):len(all)], more...); len(all) == 0 {
			return grade.Skip("no candidate: %s", why), nil
		}
	}
	if len(all) == 0 {
		return grade.Skip("the record has no candidate patch"), nil
	}
	correct := grade.Hash(r.Seed, "label", rec.ID)&1 == 1
	var of []*sdk.Candidate
	for i := range all {
		if c := &all[i]; c.Correct == correct && c.Patch != "" {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return grade.Skip("no candidate with the label %s, which the record draws so that labels are balanced", label(correct)), nil
	}
	c := of[grade.Hash(r.Seed, "candidate", rec.ID)%uint64(len(of))]
	diffs, err := grade.ParseDiff(c.Patch)
	if err != nil {
		return grade.Skip("the candidate: %v", err), nil
	}
	if len(diffs) == 0 {
		return grade.Skip("the candidate changes no file"), nil
	}
	code := c.Patch
	if r.Template == "brief" {
		code = short(diffs)
	}
	w := rec.Workspace
	w.Patches = append(w.Patches[:len(w.Patches):len(w.Patches)], c.Patch)
	return grade.BuildTask(r, sdk.Task{
		Skill:     "review",
		Workspace: w,
		Collect:   []string{grade.Nothing},
		Hidden:    grade.Hide(&sdk.Record{ID: rec.ID, Candidates: []sdk.Candidate{*c}}),
		Reference: &sdk.Reference{Message: "<judgment>" + label(correct) + "</judgment>"},
	}, full, brief,
		prompt.Value{Name: "pr_description", Text: rec.Problem},
		prompt.Value{Name: "issue_description", Text: rec.Problem},
		prompt.Value{Name: "pr_code", Text: strings.TrimRight(code, "\n")})
}

// short renders diffs for small contexts: each path once, then its hunks, parted
// by a line "@@" where there are several.
func short(diffs []grade.FileDiff) string {
	var b strings.Builder
	for i := range diffs {
		b.WriteString(diffs[i].Path() + "\n")
		for j, h := range diffs[i].Hunks {
			if j > 0 {
				b.WriteString("@@\n")
			}
			for _, l := range h.Lines {
				b.WriteString(strings.TrimRight(l, "\r\n") + "\n")
			}
		}
	}
	return b.String()
}

func label(correct bool) string {
	if correct {
		return "YES"
	}
	return "NO"
}
