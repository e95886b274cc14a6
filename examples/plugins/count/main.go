// Command count is a small skill: say how many functions a repository defines.
package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "count", "0.1.0" }

func (skill) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	n := 0
	for _, f := range r.Record.Workspace.Files {
		n += strings.Count("\n"+string(f.Data), "\ndef ")
	}
	answer := strconv.Itoa(n)
	return &sdk.BuildResponse{Tasks: []sdk.Task{{
		Key: "count/" + r.Record.ID, Skill: "count", Record: r.Record.ID,
		Prompt:    "How many functions do the Python files define?\nWrite the number to answer.txt.",
		Workspace: r.Record.Workspace,
		Collect:   []string{"answer.txt"},
		Hidden:    []byte("answer=" + answer),
		Reference: &sdk.Reference{Changes: []sdk.Change{{Path: "answer.txt", Data: []byte(answer + "\n")}}},
	}}}, nil
}

func (skill) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	for _, c := range r.Output.Changes {
		if "answer="+strings.TrimSpace(string(c.Data)) == string(r.Task.Hidden) {
			return &sdk.Verdict{Score: 1, Reason: "the number is right"}, nil
		}
	}
	return &sdk.Verdict{Reason: "answer.txt does not give the number of functions"}, nil
}
