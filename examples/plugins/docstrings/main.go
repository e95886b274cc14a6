// Command docstrings is a skill that runs code: document every function of a Python
// file and change nothing else.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

//go:embed check.py
var checker []byte

var (
	head = regexp.MustCompile(`(?m)^( *)def (\w+)\(.*\):\n`)
	doc  = regexp.MustCompile(`(?ms)^( *def [^\n]*:\n)\s+""".*?"""\n`)
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "docstrings", "0.1.0" }

func (skill) Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	words := r.Config[0].Value // the only setting in plugin.toml: the run's, or its default
	workspace := r.Record.Workspace
	for i, f := range workspace.Files {
		if !strings.HasSuffix(f.Path, ".py") || !head.Match(f.Data) {
			continue
		}
		bare := doc.ReplaceAll(f.Data, []byte("$1"))
		gold := head.ReplaceAll(bare, []byte("$0$1    \"\"\"$2"+strings.Repeat(" word", 50)+"\"\"\"\n"))
		// A task whose own reference does not pass is no task.
		if why, err := check(ctx, h, words, bare, gold); err != nil || why != "" {
			return &sdk.BuildResponse{Skipped: why}, err
		}
		workspace.Files[i].Data = bare
		return &sdk.BuildResponse{Tasks: []sdk.Task{{
			Key: "docstrings/" + r.Record.ID, Skill: "docstrings", Record: r.Record.ID,
			Prompt:    fmt.Sprintf("Give every function in %s a docstring of at least %s words.\nChange nothing else.", f.Path, words),
			Workspace: workspace,
			Collect:   []string{f.Path},
			Reference: &sdk.Reference{Changes: []sdk.Change{{Path: f.Path, Data: gold}}},
		}}}, nil
	}
	return &sdk.BuildResponse{Skipped: "no file of the workspace has a function"}, nil
}

func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if len(r.Output.Changes) == 0 {
		return &sdk.Verdict{Reason: "the file was not changed"}, nil
	}
	after := r.Output.Changes[0] // there is one at most: Collect names one file
	for _, before := range r.Task.Workspace.Files {
		if before.Path != after.Path {
			continue
		}
		why, err := check(ctx, h, r.Config[0].Value, before.Data, after.Data)
		if err != nil {
			return nil, err // no verdict: the host tries again
		}
		if why != "" {
			return &sdk.Verdict{Reason: why}, nil
		}
		return &sdk.Verdict{Score: 1, Reason: "every function is documented"}, nil
	}
	return nil, errors.New("the task's file is not in its workspace")
}

// check says in a fresh sandbox what is wrong with after, or "".
func check(ctx context.Context, h sdk.Host, words string, before, after []byte) (string, error) {
	res, err := h.Run(ctx, &sdk.RunRequest{
		Workspace: sdk.Workspace{Files: []sdk.File{{Path: "check.py", Data: checker}, {Path: "before.py", Data: before}, {Path: "after.py", Data: after}}},
		Commands:  []sdk.Command{{Shell: "python3 -I check.py " + words}},
	})
	if err != nil {
		return "", err
	}
	switch log := res.Logs[0]; log.ExitCode {
	case 0:
		return "", nil
	case 127:
		return "", errors.New("the sandbox has no python3")
	default:
		return fmt.Sprintf("exit status %d: %s", log.ExitCode, strings.TrimSpace(log.Output)), nil
	}
}
