package sdktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

func TestRun(t *testing.T) {
	workspace := sdk.Workspace{
		Files:   []sdk.File{{Path: "a/one.txt", Data: []byte("1\n")}, {Path: "run.sh", Data: []byte("#!/bin/sh\necho ran\n"), Exec: true}},
		Patches: []string{"--- a/a/one.txt\n+++ b/a/one.txt\n@@ -1 +1 @@\n-1\n+2\n"},
		Env:     []string{"COLOUR=red"},
	}
	tests := []struct {
		name string
		r    sdk.RunRequest
		want []sdk.Log
		err  string
	}{
		{
			name: "patches, then changes",
			r: sdk.RunRequest{
				Patches: []string{"--- a/a/one.txt\n+++ b/a/one.txt\n@@ -1 +1 @@\n-2\n+3\n"},
				Changes: []sdk.Change{{Path: "a/two.txt", Data: []byte("4\n")}, {Path: "run.sh", Deleted: true}, {Path: "none", Deleted: true}},
				Commands: []sdk.Command{
					{Shell: "cat a/*; ls"},
					{Shell: "echo $COLOUR $SIZE; exit 3", Env: []string{"SIZE=4"}},
				},
			},
			want: []sdk.Log{{Output: "3\n4\na\n"}, {Output: "red 4\n", ExitCode: 3}},
		},
		{name: "executable", r: sdk.RunRequest{Commands: []sdk.Command{{Shell: "./run.sh"}}}, want: []sdk.Log{{Output: "ran\n"}}},
		{name: "both streams", r: sdk.RunRequest{Commands: []sdk.Command{{Shell: "echo a; echo b >&2; printf '\\377'"}}}, want: []sdk.Log{{Output: "a\nb\n\ufffd"}}},
		{name: "signal", r: sdk.RunRequest{Commands: []sdk.Command{{Shell: "kill -9 $$"}}}, want: []sdk.Log{{ExitCode: 137}}},
		{name: "limit", r: sdk.RunRequest{Commands: []sdk.Command{{Shell: "echo a; sleep 600 & sleep 600", Millis: 200}}}, want: []sdk.Log{{Output: "a\n", ExitCode: 137, TimedOut: true}}},
		{name: "not found", r: sdk.RunRequest{Commands: []sdk.Command{{Shell: "no-such-command 2>/dev/null"}}}, want: []sdk.Log{{ExitCode: 127}}},
		{name: "patch elsewhere", r: sdk.RunRequest{Patches: []string{"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-2\n+3\n"}}, err: "x: no such file"},
		{name: "path outside", r: sdk.RunRequest{Changes: []sdk.Change{{Path: "../x"}}}, err: "not a clean path"},
		{name: "link", r: sdk.RunRequest{Changes: []sdk.Change{{Path: "x", Symlink: "a/one.txt"}}, Commands: []sdk.Command{{Shell: "cat x"}}}, want: []sdk.Log{{Output: "2\n"}}},
		{name: "through a link that leads out", r: sdk.RunRequest{Changes: []sdk.Change{{Path: "x", Symlink: "/"}, {Path: "x/y", Data: []byte("z")}}}, err: "escapes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &Host{}
			tt.r.Workspace = workspace
			a, err := h.Run(t.Context(), &tt.r)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.Logs {
				a.Logs[i].Millis = 0
			}
			if !slices.Equal(a.Logs, tt.want) || h.Runs() != 1 {
				t.Errorf("%+v after %d runs, want %+v", a.Logs, h.Runs(), tt.want)
			}
		})
	}
}

func TestRunRefusesImages(t *testing.T) {
	if _, err := (&Host{}).Run(t.Context(), &sdk.RunRequest{Workspace: sdk.Workspace{Image: "x"}}); err == nil {
		t.Error("no error")
	}
}

func TestRunIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Host{}).Run(ctx, &sdk.RunRequest{Commands: []sdk.Command{{Shell: "true"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestCapabilitiesThatAreNotThere(t *testing.T) {
	h := &Host{}
	if _, err := h.Ask(t.Context(), &sdk.JudgeRequest{}); err == nil {
		t.Error("a judge answered")
	}
	if _, err := h.Model(t.Context(), &sdk.ModelRequest{}); err == nil {
		t.Error("a model answered")
	}
	h.Answer = func(*sdk.ModelRequest) (*sdk.ModelResponse, error) {
		return &sdk.ModelResponse{Texts: []string{"x"}}, nil
	}
	if a, err := h.Model(t.Context(), &sdk.ModelRequest{}); err != nil || a.Texts[0] != "x" {
		t.Errorf("%+v, error %v", a, err)
	}
	h.Log(t.Context(), "info", "hello")
	if got := h.Lines(); !slices.Equal(got, []string{"info: hello"}) {
		t.Errorf("%v", got)
	}
}

type panics struct{}

func (panics) Describe() (name, version string) { return "panics", "0.1.0" }

func (panics) Evaluate(context.Context, sdk.Host, *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	panic("oops")
}

func TestCallsCrossTheBorder(t *testing.T) {
	if _, err := Evaluate(t.Context(), panics{}, nil, &sdk.EvaluateRequest{}); err == nil || !strings.Contains(err.Error(), "panic: oops") {
		t.Errorf("error %v", err)
	}
	if _, err := Build(t.Context(), panics{}, nil, &sdk.BuildRequest{}); err == nil || !strings.Contains(err.Error(), "build") {
		t.Errorf("error %v", err)
	}
}
