package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/sdk"
)

// What policies left in training and in evaluations becomes candidates, labelled in
// real sandboxes.
func TestDataLabel(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "made.jsonl"), filepath.Join(dir, "labelled.jsonl")
	w, _, err := records.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&sdk.Record{
		ID: "a", Source: "mutate", Problem: "x is wrong", Language: "python", LogParser: "pytest", FailToPass: []string{"t.py::a"},
		Patch:       "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n",
		TestCommand: "echo ==== test session starts ====; if grep -q 2 x.py; then echo PASSED t.py::a; else echo FAILED t.py::a; fi; echo ==== 1 test in 0.1s ====",
		Workspace:   sdk.Workspace{Files: []sdk.File{{Path: "x.py", Data: []byte("1\n")}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	episode := func(policy, text string) journal.Episode {
		return journal.Episode{Task: "editing/a", Skill: "editing", Policy: policy, Outcome: journal.Scored,
			Output: &sdk.Output{Changes: []sdk.Change{{Path: "x.py", Data: []byte(text)}}}}
	}
	trained, served := journal.Dir(filepath.Join(dir, "trained")), journal.Dir(filepath.Join(dir, "served"))
	if err := trained.WriteStep(journal.Step{Step: 1}, []journal.Episode{episode("engine", "1 + 2\n"), episode("engine", "3\n"), episode("engine", "3\n")}); err != nil {
		t.Fatal(err)
	}
	if err := served.WriteEval(journal.Eval{Split: "eval"}, []journal.Episode{episode("openai:m", "4\n")}); err != nil {
		t.Fatal(err)
	}
	label := func(args ...string) (string, int) {
		var out, complaints bytes.Buffer
		code := execute(append([]string{"data", "label", "--progress", "none"}, args...), strings.NewReader(""), &out, &complaints)
		return out.String() + complaints.String(), code
	}
	got, code := label(from, string(trained), string(served), "--out", to, "-j", "1", "--repeats", "2")
	want := to + `  1 record, 1 with candidates of policies
POLICY            RIGHT  WRONG
served: openai:m      0      1
trained: engine       1      1
ALL OF SOURCE  RIGHT  WRONG
mutate             2      2
1 attempt of 4 left out: another has the same
`
	if code != 0 || got != want {
		t.Errorf("exit code %d:\n%s", code, got)
	}
	list, err := records.Read(to)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list[0].Candidates {
		if c.Correct != strings.Contains(c.Patch, "2\n") || c.Correct != (i < 2) {
			t.Errorf("%d: %+v", i, c)
		}
	}
	if got, code := label(from, filepath.Join(dir, "nowhere"), "--out", to); code != 1 || !strings.Contains(got, "nowhere") {
		t.Errorf("exit code %d: %s", code, got)
	}
	if got, code := label(from, dir, "--out", to); code != 1 || !strings.Contains(got, "no run with a step or an evaluation") {
		t.Errorf("exit code %d: %s", code, got)
	}
}
