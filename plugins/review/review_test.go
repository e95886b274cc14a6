package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// build makes the task of a record with a seed that gives the label wanted.
func build(t *testing.T, rec sdk.Record, template string, correct bool) sdk.Task {
	t.Helper()
	for seed := range uint64(64) {
		b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: rec, Template: template, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Tasks) == 1 && b.Tasks[0].Reference.Message == "<judgment>"+label(correct)+"</judgment>" {
			return b.Tasks[0]
		}
	}
	t.Fatalf("no seed gives the label %s", label(correct))
	return sdk.Task{}
}

func TestBuild(t *testing.T) {
	rec := sdktest.Records()[0]
	task := build(t, rec, "brief", true)
	want := `Does the diff fix it?
clamp(3, 0, 2) gives 0, but it should be 2.
shop.py
 def clamp(x, low, high):
     """Keep x within low and high."""
-    return min(low, min(x, high))
+    return max(low, min(x, high))
 
 
 def double(x):
<judgment>YES</judgment> or NO?`
	if task.Prompt != want || task.System != "" {
		t.Errorf("prompt %q", task.Prompt)
	}
	if !slices.Equal(task.Workspace.Patches, []string{rec.Candidates[0].Patch}) || !slices.Equal(task.Collect, []string{grade.Nothing}) {
		t.Errorf("%+v", task)
	}
	task = build(t, rec, "full", false)
	if !strings.Contains(task.Prompt, "diff --git a/shop.py b/shop.py\n") || !strings.Contains(task.Prompt, "max(low, max(x, high))") || task.System == "" {
		t.Errorf("prompt %q", task.Prompt)
	}
}

func TestShort(t *testing.T) {
	d, err := grade.ParseDiff("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@ def f():\n-1\r\n+2\r\n@@ -9 +9 @@\n-3\n+4\n\\ No newline at end of file\n--- /dev/null\n+++ b/b.py\n@@ -0,0 +1 @@\n+5\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := short(d), "a.py\n-1\n+2\n@@\n-3\n+4\nb.py\n+5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLabelsAreBalanced(t *testing.T) {
	rec := sdktest.Records()[0]
	correct := 0
	for i := range 400 {
		rec.ID = "r" + strconv.Itoa(i)
		b, err := (skill{}).Build(t.Context(), nil, &sdk.BuildRequest{Record: rec, Template: "brief", Seed: 5})
		if err != nil || len(b.Tasks) != 1 {
			t.Fatalf("%+v, error %v", b, err)
		}
		if strings.Contains(b.Tasks[0].Reference.Message, "YES") {
			correct++
		}
	}
	if correct < 160 || correct > 240 {
		t.Errorf("%d of 400 are correct", correct)
	}
}

// A record without a candidate of the label drawn gives no task, so that what
// exists does not tip the balance.
func TestNoCandidateOfTheLabel(t *testing.T) {
	rec := sdktest.Records()[0]
	rec.Candidates = rec.Candidates[:1]
	built := 0
	for i := range 200 {
		rec.ID = "r" + strconv.Itoa(i)
		b, err := (skill{}).Build(t.Context(), nil, &sdk.BuildRequest{Record: rec})
		if err != nil || (len(b.Tasks) == 0) != strings.Contains(b.Skipped, "label NO") {
			t.Fatalf("%+v, error %v", b, err)
		}
		built += len(b.Tasks)
	}
	if built < 70 || built > 130 {
		t.Errorf("%d of 200 records give a task", built)
	}
}

func TestSkipped(t *testing.T) {
	for name, change := range map[string]func(*sdk.Record){
		"no problem":    func(r *sdk.Record) { r.Problem = "" },
		"no candidate":  func(r *sdk.Record) { r.Candidates = nil },
		"broken patch":  func(r *sdk.Record) { r.Candidates[0].Patch, r.Candidates[1].Patch = "@@", "@@ -1 +1 @@\n" },
		"empty patches": func(r *sdk.Record) { r.Candidates[0].Patch, r.Candidates[1].Patch = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			rec := sdktest.Records()[0]
			change(&rec)
			b, err := (skill{}).Build(t.Context(), nil, &sdk.BuildRequest{Record: rec, Seed: 2})
			if err != nil || len(b.Tasks) != 0 || b.Skipped == "" {
				t.Errorf("%+v, error %v", b, err)
			}
		})
	}
}

func TestEvaluate(t *testing.T) {
	tests := []struct {
		message string
		want    string // the label that it agrees with; "" for none
		reason  string
	}{
		{"<judgment>YES</judgment>", "YES", ""},
		{"<judgment>NO</judgment>", "NO", ""},
		{"<review>\nfine\n</review>\n<JUDGMENT>\n\t yes \r\n</Judgment>\nBye.", "YES", ""},
		{"<judgment>NO</judgment> no: <judgment>YES</judgment>", "YES", ""},
		{"<judgment>YES</judgment> <judgment>maybe</judgment>", "", "neither YES nor NO"},
		{"<judgment>YES or NO</judgment>", "", "neither"},
		{"<judgment>YES.</judgment>", "", "neither"},
		{"<judgment></judgment>", "", "neither"},
		{"<judgment>YES", "", "no <judgment>"},
		{"YES</judgment>", "", "no <judgment>"},
		{"YES", "", "no <judgment>"},
		{"", "", "no <judgment>"},
		{"<judgment>YES <judgment>NO</judgment>", "NO", ""},
		{"\u0130\u0130<judgment>YES</judgment>", "YES", ""}, // letters that change their length in lower case
		{"\xff<judgment>NO</judgment>\xff", "NO", ""},
	}
	rec := sdktest.Records()[0]
	for _, correct := range []bool{true, false} {
		task := build(t, rec, "brief", correct)
		for _, tt := range tests {
			v, err := sdktest.Evaluate(t.Context(), skill{}, nil, &sdk.EvaluateRequest{Task: task, Output: sdk.Output{Message: tt.message}})
			if err != nil {
				t.Fatal(err)
			}
			want := 0.0
			if tt.want == label(correct) {
				want = 1
			}
			if v.Score != want || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("%q against %s: score %v, want %v: %s", tt.message, label(correct), v.Score, want, v.Reason)
			}
		}
	}
}

func TestHiddenPartMissing(t *testing.T) {
	for _, hidden := range [][]byte{nil, grade.Hide(&sdk.Record{ID: "x"})} {
		if v, err := sdktest.Evaluate(t.Context(), skill{}, nil, &sdk.EvaluateRequest{Task: sdk.Task{Key: "k", Hidden: hidden}}); err == nil {
			t.Errorf("%+v, want an error", v)
		}
	}
}

func FuzzJudgment(f *testing.F) {
	f.Add("<judgment>YES</judgment>")
	f.Add("<JUDGMENT><judgment></judgment>")
	f.Fuzz(func(t *testing.T, message string) {
		if got, ok := judgment(message); ok && got != strings.ToUpper(strings.TrimSpace(got)) || !ok && got != "" {
			t.Fatalf("%q: %q, %v", message, got, ok)
		}
	})
}
