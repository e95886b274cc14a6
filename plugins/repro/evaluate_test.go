package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// exitCodes is a judge that looks at exit statuses alone.
type exitCodes struct{}

func (exitCodes) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	ok := r.Before.ExitCode != 0 && r.After.ExitCode == 0
	return &sdk.JudgeResponse{Verdict: ok, Confidence: 0.5, Rationale: "by exit status"}, nil
}

type broken struct{}

func (broken) Judge(context.Context, sdk.Host, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return nil, errors.New("judge is out")
}

func task(t *testing.T) sdk.Task {
	t.Helper()
	b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: sdktest.Records()[0], Template: "brief"})
	if err != nil || len(b.Tasks) != 1 {
		t.Fatalf("build: %v, %+v", err, b)
	}
	return b.Tasks[0]
}

func TestEvaluate(t *testing.T) {
	tests := []struct {
		name, script string
		want         float64
	}{
		{"shows the issue", "from shop import *\nassert clamp(3, 0, 2) == 2\n", 1},
		{"passes in both", "print('reproduced')\n", 0},
		{"fails in both", "raise SystemExit(1)\n", 0},
		{"finds no files of its own from the run before", "import os\nopen('seen', 'a').write('x')\nassert os.path.getsize('seen') == 2\n", 0},
		{"blank", " \n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &sdktest.Host{Judge: exitCodes{}}
			v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: task(t), Output: sdk.Output{
				Changes: []sdk.Change{{Path: "reproduce.py", Data: []byte(tt.script)}, {Path: "shop.py", Data: []byte("planted")}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if v.Score != tt.want {
				t.Errorf("score %v, want %v: %s", v.Score, tt.want, v.Reason)
			}
		})
	}
}

func TestOnlyTheScriptIsApplied(t *testing.T) {
	h := &sdktest.Host{Judge: exitCodes{}, Observe: func(r *sdk.RunRequest, _ *sdk.RunResponse) {
		if len(r.Changes) != 2 || r.Changes[0].Path != "shop.py" || r.Changes[1].Path != "reproduce.py" {
			t.Errorf("applied %+v", r.Changes)
		}
	}}
	_, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: task(t), Output: sdk.Output{
		Changes: []sdk.Change{{Path: "conftest.py", Data: []byte("x")}, {Path: "reproduce.py", Data: []byte("pass")}},
	}})
	if err != nil || h.Runs() != 2 {
		t.Errorf("error %v, %d runs, want 2", err, h.Runs())
	}
}

// What the script can see of the code tells it neither the original's digest nor
// which run it is in.
func TestRunsAreAlike(t *testing.T) {
	var codes, seeds []string
	h := &sdktest.Host{Judge: exitCodes{}, Observe: func(r *sdk.RunRequest, _ *sdk.RunResponse) {
		codes = append(codes, string(r.Changes[0].Data))
		seeds = append(seeds, r.Commands[0].Env[0])
	}}
	tk := task(t)
	v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: tk, Output: sdk.Output{
		Changes: []sdk.Change{{Path: "reproduce.py", Data: []byte("from shop import *\nassert clamp(3, 0, 2) == 2\n")}},
	}})
	if err != nil || v.Score != 1 {
		t.Fatalf("%+v, error %v", v, err)
	}
	slices.Sort(codes)
	if len(codes) != 3 || len(slices.Compact(slices.Clone(codes))) != 2 || slices.Contains(codes, string(tk.Workspace.Files[0].Data)) {
		t.Errorf("ran %q", codes)
	}
	slices.Sort(seeds)
	if len(slices.Compact(seeds)) != 3 {
		t.Error("two runs are the same request, which a memo would answer once")
	}
}

func TestMissingScriptAsksNobody(t *testing.T) {
	for name, change := range map[string]sdk.Change{
		"none":    {Path: "other.py", Data: []byte("x")},
		"removed": {Path: "reproduce.py", Deleted: true},
		"link":    {Path: "reproduce.py", Symlink: "/etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &sdktest.Host{Judge: broken{}}
			v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: task(t), Output: sdk.Output{Changes: []sdk.Change{change}}})
			if err != nil || v.Score != 0 || h.Runs() != 0 {
				t.Errorf("%+v, error %v, %d runs", v, err, h.Runs())
			}
		})
	}
}

func TestJudgeFailureIsAnError(t *testing.T) {
	_, err := sdktest.Evaluate(t.Context(), skill{}, &sdktest.Host{Judge: broken{}}, &sdk.EvaluateRequest{Task: task(t), Output: sdk.Output{
		Changes: []sdk.Change{{Path: "reproduce.py", Data: []byte("raise SystemExit(1)")}},
	}})
	if err == nil || !strings.Contains(err.Error(), "judge is out") {
		t.Errorf("error %v, want the judge's", err)
	}
}

func TestSkipped(t *testing.T) {
	for name, change := range map[string]func(*sdk.Record){
		"other language": func(r *sdk.Record) { r.Language = "cobol" },
		"no problem":     func(r *sdk.Record) { r.Problem = "" },
		"no patch":       func(r *sdk.Record) { r.Patch = "" },
		"broken patch":   func(r *sdk.Record) { r.Patch = "@@ -1 +1 @@\n" },
	} {
		t.Run(name, func(t *testing.T) {
			rec := sdktest.Records()[0]
			change(&rec)
			b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: rec})
			if err != nil || len(b.Tasks) != 0 || b.Skipped == "" {
				t.Errorf("%+v, error %v", b, err)
			}
		})
	}
}
