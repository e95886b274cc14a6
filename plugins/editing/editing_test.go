package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

func build(t *testing.T, rec sdk.Record, template string) sdk.Task {
	t.Helper()
	b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: rec, Template: template})
	if err != nil || len(b.Tasks) != 1 {
		t.Fatalf("build: %v, %+v", err, b)
	}
	return b.Tasks[0]
}

func TestBuild(t *testing.T) {
	records := sdktest.Records()
	task := build(t, records[0], "brief")
	if want := "Fix shop.py clamp.\nclamp(3, 0, 2) gives 0, but it should be 2."; task.Prompt != want || task.System != "" {
		t.Errorf("prompt %q, system %q", task.Prompt, task.System)
	}
	if task.Key != "editing/hand-clamp" || !slices.Equal(task.Collect, []string{"shop.py"}) || len(task.Meta) != 1 {
		t.Errorf("%+v", task)
	}
	task = build(t, records[1], "full")
	if !strings.Contains(task.Prompt, "store/cart.py Cart.cheap\nstore/price.py total\n") || task.System == "" {
		t.Errorf("prompt %q", task.Prompt)
	}
	for _, f := range task.Workspace.Files {
		if grade.IsTest(f.Path) {
			t.Errorf("the workspace shows %s", f.Path)
		}
	}
	if got := build(t, records[0], "At {location} in {workspace}:\n").Prompt; got != "At shop.py clamp in /workspace:\n" {
		t.Errorf("own template: %q", got)
	}
}

func TestBuildRefusesAnUnknownPlaceholder(t *testing.T) {
	_, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: sdktest.Records()[0], Template: "one\n{function_list}"})
	if err == nil || !strings.Contains(err.Error(), "custom:2: {function_list}") {
		t.Errorf("error %v", err)
	}
}

func TestBuildRefusesAnUnknownOption(t *testing.T) {
	_, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: sdktest.Records()[0], Config: []sdk.Pair{{Key: "partial", Value: "true"}}})
	if err == nil || !strings.Contains(err.Error(), "partial") {
		t.Errorf("error %v", err)
	}
}

func TestSkipped(t *testing.T) {
	for name, change := range map[string]func(*sdk.Record){
		"no problem":         func(r *sdk.Record) { r.Problem = "" },
		"no tests":           func(r *sdk.Record) { r.FailToPass = nil },
		"no command":         func(r *sdk.Record) { r.TestCommand = "" },
		"unknown log":        func(r *sdk.Record) { r.LogParser = "nose" },
		"no patch":           func(r *sdk.Record) { r.Patch = "" },
		"patch of tests":     func(r *sdk.Record) { r.Patch = r.TestPatch },
		"patch does not fit": func(r *sdk.Record) { r.Workspace.Files[0].Data = []byte("x\n") },
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

func TestImageWorkspace(t *testing.T) {
	rec := sdktest.Records()[0]
	rec.Workspace = sdk.Workspace{Image: "example.org/shop", Dir: "/testbed"}
	task := build(t, rec, "full")
	if task.Reference != nil || !strings.Contains(task.Prompt, "/testbed") {
		t.Errorf("reference %+v, prompt %q", task.Reference, task.Prompt)
	}
	b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: rec, Template: "{files}"})
	if err != nil || !strings.Contains(b.Skipped, "{files}") {
		t.Errorf("%+v, error %v", b, err)
	}
}

const (
	buggy = "def clamp(x, low, high):\n    return min(low, min(x, high))\n\n\ndef double(x):\n    return 2 * x\n"
	fixed = "def clamp(x, low, high):\n    return max(low, min(x, high))\n\n\ndef double(x):\n    return 2 * x\n"
)

// What an agent may try, and what it gets.
func TestEvaluate(t *testing.T) {
	file := func(path, text string) sdk.Change { return sdk.Change{Path: path, Data: []byte(text)} }
	const green = "import unittest\nclass T(unittest.TestCase):\n    def test_clamp_1(self): pass\n    def test_clamp_2(self): pass\n    def test_double_1(self): pass\n"
	tests := []struct {
		name    string
		changes []sdk.Change
		want    float64
		reason  string
	}{
		{"a fix", []sdk.Change{file("shop.py", fixed)}, 1, "all 3 tests passed"},
		{"a fix beside changes that do not count", []sdk.Change{file("other.py", "junk junk"), file("shop.py", fixed), file("test_shop.py", "junk junk")}, 1, ""},
		{"half a fix", []sdk.Change{file("shop.py", strings.Replace(fixed, "2 * x", "3 * x", 1))}, 0, "test_double_1: failed"},
		{"no fix", []sdk.Change{file("shop.py", buggy)}, 0, "test_clamp_1: failed"},
		{"nothing", nil, 0, "no file of the code location was changed"},
		{"code removed", []sdk.Change{{Path: "shop.py", Deleted: true}}, 0, "not run"},
		{"code made a link", []sdk.Change{{Path: "shop.py", Symlink: "test_shop.py"}}, 0, "not kept: shop.py"},
		{"tests edited", []sdk.Change{file("test_shop.py", green)}, 0, "not kept: test_shop.py"},
		{"tests edited beside a change", []sdk.Change{file("shop.py", buggy), file("test_shop.py", green)}, 0, "test_clamp_1: failed"},
		{"tests removed", []sdk.Change{file("shop.py", buggy), {Path: "test_shop.py", Deleted: true}}, 0, "test_clamp_1: failed"},
		{"conftest and sitecustomize planted", []sdk.Change{
			file("conftest.py", "import os; os._exit(0)"), file("shop.py", buggy), file("sitecustomize.py", "import os; os._exit(0)"),
		}, 0, "test_clamp_1: failed"},
		{"cache planted", []sdk.Change{file("__pycache__/shop.cpython-311.pyc", "junk"), file("shop.py", buggy)}, 0, "test_clamp_1: failed"},
		{"an edit elsewhere", []sdk.Change{file("other.py", fixed)}, 0, "not kept: other.py"},
		{"a printed OK and an early exit", []sdk.Change{file("shop.py", "import os\nprint('test_clamp_1 (test_shop.T) ... ok\\nRan 3 tests\\n\\nOK', flush=True)\nos._exit(0)\n")}, 0, "ended early, with exit status 0"},
		{"an early exit in a test", []sdk.Change{file("shop.py", "import os\ndef clamp(*a): os._exit(0)\ndef double(x): return 2 * x\n")}, 0, "ended early"},
		{"assertions replaced", []sdk.Change{file("shop.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"+buggy)}, 0, "changed unittest itself"},
		{"test class emptied", []sdk.Change{file("shop.py", "import unittest\nunittest.TestLoader.loadTestsFromModule = lambda *a: unittest.TestSuite()\n"+buggy)}, 0, "changed unittest itself"},
		{"syntax error", []sdk.Change{file("shop.py", "def")}, 0, "not run"},
		{"no end", []sdk.Change{file("shop.py", "while True: pass")}, 0, "did not end within the time limit"},
	}
	task := build(t, sdktest.Records()[0], "brief")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &sdk.EvaluateRequest{Task: task, Output: sdk.Output{Changes: tt.changes}, Seed: 3}
			if tt.name == "no end" {
				r.Timeout = 1000
			}
			v, err := sdktest.Evaluate(t.Context(), skill{}, &sdktest.Host{}, r)
			if err != nil {
				t.Fatal(err)
			}
			if v.Score != tt.want || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("score %v, want %v: %s", v.Score, tt.want, v.Reason)
			}
		})
	}
}

func TestComponents(t *testing.T) {
	task := build(t, sdktest.Records()[0], "brief")
	v, err := sdktest.Evaluate(t.Context(), skill{}, &sdktest.Host{}, &sdk.EvaluateRequest{Task: task, Output: sdk.Output{
		Changes: []sdk.Change{{Path: "shop.py", Data: []byte("def clamp(x, low, high):\n    return 2\n\n\ndef double(x):\n    return 2 * x\n")}},
	}})
	want := []sdk.Component{{Name: "fail_to_pass", Value: 0.5}, {Name: "pass_to_pass", Value: 1}}
	if err != nil || v.Score != 0 || !slices.Equal(v.Components, want) {
		t.Errorf("%+v, error %v", v, err)
	}
}

func TestOneRunWithoutWhatIsProtected(t *testing.T) {
	h := &sdktest.Host{Observe: func(r *sdk.RunRequest, _ *sdk.RunResponse) {
		if len(r.Changes) != 1 || r.Changes[0].Path != "shop.py" {
			t.Errorf("applied %+v", r.Changes)
		}
	}}
	_, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: build(t, sdktest.Records()[0], "brief"), Output: sdk.Output{
		Changes: []sdk.Change{{Path: "conftest.py"}, {Path: "shop.py", Data: []byte(fixed)}, {Path: "test_shop.py"}},
	}})
	if err != nil || h.Runs() != 1 {
		t.Errorf("error %v, %d runs", err, h.Runs())
	}
}
