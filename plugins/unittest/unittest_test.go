package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

func build(t *testing.T, rec sdk.Record, template string, config ...sdk.Pair) sdk.Task {
	t.Helper()
	b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: rec, Template: template, Config: config, Seed: 1})
	if err != nil || len(b.Tasks) != 1 {
		t.Fatalf("build: %v, %+v", err, b)
	}
	return b.Tasks[0]
}

func TestBuild(t *testing.T) {
	rec := sdktest.Records()[0]
	task := build(t, rec, "brief")
	if want := "Test shop.py clamp.\nWrite test_shop.py."; task.Prompt != want || task.System != "" {
		t.Errorf("prompt %q", task.Prompt)
	}
	if !slices.Equal(task.Collect, []string{"test_shop.py"}) || !slices.Equal(task.Workspace.Patches, []string{rec.Patch}) || len(rec.Workspace.Patches) != 0 {
		t.Errorf("%+v", task)
	}
	task = build(t, rec, "full")
	if strings.ContainsAny(task.Prompt, "{}") || !strings.Contains(task.Prompt, "python3 test_shop.py") || strings.Contains(task.Prompt, rec.Problem) {
		t.Errorf("prompt %q", task.Prompt)
	}
}

func TestFunctionsWithoutMutantsAreLeftOut(t *testing.T) {
	rec := sdktest.Records()[0]
	rec.Targets = append(rec.Targets, sdk.Target{Path: "shop.py", Name: "double"})
	if got := build(t, rec, "brief").Prompt; strings.Contains(got, "double") {
		t.Errorf("prompt %q", got)
	}
	rec.Mutants = append(rec.Mutants, sdk.Mutant{ID: "m9", Target: "double"})
	if got := build(t, rec, "brief").Prompt; !strings.Contains(got, "shop.py clamp, shop.py double") {
		t.Errorf("prompt %q", got)
	}
	for i := range rec.Mutants {
		rec.Mutants[i].Target = ""
	}
	if got := build(t, rec, "full").Prompt; !strings.Contains(got, "shop.py clamp\nshop.py double\n") {
		t.Errorf("prompt %q", got)
	}
}

func TestMutantsAreLimited(t *testing.T) {
	rec := sdktest.Records()[0]
	for len(rec.Mutants) < 40 {
		rec.Mutants = append(rec.Mutants, rec.Mutants...)
	}
	for _, tt := range []struct {
		config []sdk.Pair
		want   int
	}{{nil, 16}, {[]sdk.Pair{{Key: "mutants", Value: "2"}}, 2}} {
		b, err := skill{}.Build(t.Context(), nil, &sdk.BuildRequest{Record: rec, Config: tt.config})
		if err != nil {
			t.Fatal(err)
		}
		hidden, err := grade.Reveal(&b.Tasks[0])
		if err != nil || len(hidden.Mutants) != tt.want {
			t.Errorf("%v: %d mutants, want %d (error %v)", tt.config, len(hidden.Mutants), tt.want, err)
		}
	}
	for _, bad := range []sdk.Pair{{Key: "mutants", Value: "17"}, {Key: "mutants", Value: "0"}, {Key: "partial", Value: "yes"}, {Key: "other", Value: "1"}} {
		if _, err := (skill{}).Build(t.Context(), nil, &sdk.BuildRequest{Record: rec, Config: []sdk.Pair{bad}}); err == nil || !strings.Contains(err.Error(), bad.Key) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
}

func TestSkipped(t *testing.T) {
	for name, change := range map[string]func(*sdk.Record){
		"no mutant":  func(r *sdk.Record) { r.Mutants = nil },
		"no target":  func(r *sdk.Record) { r.Targets = nil },
		"no file":    func(r *sdk.Record) { r.UnitTestFile = "" },
		"no command": func(r *sdk.Record) { r.UnitTestCommand = "" },
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

const good = "from shop import *\nassert clamp(3, 0, 2) == 2\nassert clamp(-1, 0, 2) == 0\nassert clamp(1, 0, 2) == 1\n"

func TestEvaluate(t *testing.T) {
	partial := []sdk.Pair{{Key: "partial", Value: "true"}}
	tests := []struct {
		name   string
		tests  string
		config []sdk.Pair
		score  float64
		runs   int // sandboxes, where that is certain, without the second of the correct code
		reason string
	}{
		{"catches all", good, nil, 1, 4, "catches all 3 mutants"},
		{"catches all, partial", good, partial, 1, 4, ""},
		{"empty file", "", nil, 0, 2, "survives"},
		{"empty file, partial", "", partial, 0, 4, "0 of 3"},
		{"catches two", "from shop import *\nassert clamp(-1, 0, 2) == 0\nassert clamp(1, 0, 2) == 1\n", nil, 0, 0, "m3 survives"},
		{"catches two, partial", "from shop import *\nassert clamp(-1, 0, 2) == 0\nassert clamp(1, 0, 2) == 1\n", partial, 2. / 3, 4, "m3 survives"},
		{"wrong expectation", "from shop import *\nassert clamp(3, 0, 2) == 3\n", partial, 0, 1, "do not pass on the correct code"},
		{"always fails", "raise SystemExit(1)", nil, 0, 1, "do not pass on the correct code"},
		{"no syntax", "def", nil, 0, 1, "do not pass on the correct code"},
		{"compares the source", "import shop\nt = open('shop.py').read()\nassert t == '''def clamp(x, low, high):\n    \"\"\"Keep x within low and high.\"\"\"\n    return max(low, min(x, high))\n\n\ndef double(x):\n    return 2 * x\n'''\n", nil, 0, 1, "do not pass on the correct code"},
		{"compares the function's source", "import shop, inspect\nassert inspect.getsource(shop.clamp) == '''def clamp(x, low, high):\n    \"\"\"Keep x within low and high.\"\"\"\n    return max(low, min(x, high))\n'''\n", nil, 0, 1, "do not pass on the correct code"},
		{"remembers runs", "import os\nassert not os.path.exists('seen')\nopen('seen', 'w')\n", nil, 0, 2, "survives"},
		{"pretends that a tool is missing", "import os\nos._exit(127)\n", nil, 0, 2, "exit status 127"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := build(t, sdktest.Records()[0], "brief", tt.config...)
			r := &sdk.EvaluateRequest{Task: task, Config: tt.config, Output: sdk.Output{Changes: []sdk.Change{
				{Path: "conftest.py", Data: []byte("junk")}, {Path: "shop.py", Data: []byte("junk junk")}, {Path: "test_shop.py", Data: []byte(tt.tests)},
			}}}
			h := &sdktest.Host{}
			v, err := sdktest.Evaluate(t.Context(), skill{}, h, r)
			if err != nil {
				t.Fatal(err)
			}
			if v.Score != tt.score || !strings.Contains(v.Reason, tt.reason) || tt.runs != 0 && h.Runs() != tt.runs && h.Runs() != tt.runs+1 {
				t.Errorf("score %v, want %v, %d runs: %s", v.Score, tt.score, h.Runs(), v.Reason)
			}
		})
	}
}

// scripted is a host whose commands end as told: on the correct code, which comes
// first, as the first log says, and on the mutants as the others say.
type scripted struct {
	sdktest.Host
	logs    []sdk.Log
	correct []byte
	mutants int
	again   int // further runs of the correct code
}

func (h *scripted) Run(_ context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	code := r.Changes[0].Data
	switch {
	case h.correct == nil:
		h.correct = code
	case bytes.Equal(code, h.correct):
		h.again++
	default:
		h.mutants++
		return &sdk.RunResponse{Logs: h.logs[h.mutants : h.mutants+1]}, nil
	}
	return &sdk.RunResponse{Logs: h.logs[:1]}, nil
}

func TestEndings(t *testing.T) {
	ok, late, killed, failed := sdk.Log{}, sdk.Log{TimedOut: true, ExitCode: 137}, sdk.Log{ExitCode: 139}, sdk.Log{ExitCode: 1}
	for _, tt := range []struct {
		name string
		logs []sdk.Log
		want float64
	}{
		{"the mutants run into the limit", []sdk.Log{ok, late, late, late}, 1},
		{"the mutants fail, crash or hang", []sdk.Log{ok, failed, killed, late}, 1},
		{"a limit with exit status 0 is a failure", []sdk.Log{ok, {TimedOut: true}, failed, failed}, 1},
		{"the correct code runs into the limit", []sdk.Log{late}, 0},
		{"the correct code crashes", []sdk.Log{killed}, 0},
		{"the last mutant survives", []sdk.Log{ok, failed, failed, ok}, 0},
	} {
		h := &scripted{logs: tt.logs}
		v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: build(t, sdktest.Records()[0], "brief"), Output: sdk.Output{
			Changes: []sdk.Change{{Path: "test_shop.py", Data: []byte("x")}},
		}})
		if err != nil || v.Score != tt.want || h.mutants != len(tt.logs)-1 || tt.want == 1 && h.again != 1 {
			t.Errorf("%s: %+v, error %v, %d mutants run", tt.name, v, err, h.mutants)
		}
	}
}

func TestNoFile(t *testing.T) {
	task := build(t, sdktest.Records()[0], "brief")
	for name, c := range map[string]sdk.Change{
		"none": {Path: "test_other.py"}, "removed": {Path: "test_shop.py", Deleted: true}, "link": {Path: "test_shop.py", Symlink: "shop.py"},
	} {
		h := &sdktest.Host{}
		v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: task, Output: sdk.Output{Changes: []sdk.Change{c}}})
		if err != nil || v.Score != 0 || h.Runs() != 0 || !strings.Contains(v.Reason, "was not written") {
			t.Errorf("%s: %+v, error %v, %d runs", name, v, err, h.Runs())
		}
	}
}

// Correct code and mutants differ by the mutation alone, so that no trace in the
// sandbox tells them apart, and every run gets the same paths.
func TestRunsDifferByTheMutationAlone(t *testing.T) {
	rec := sdktest.Records()[1]
	rec.Mutants[1].Files = []sdk.File{{Path: "store/cart.py", Data: []byte("from store.price import total\n")}}
	var seen [][]string
	seeds := map[string]bool{}
	h := &sdktest.Host{Observe: func(r *sdk.RunRequest, _ *sdk.RunResponse) {
		var paths []string
		for _, c := range r.Changes {
			paths = append(paths, c.Path)
			if strings.HasPrefix(c.Path, "store/") && !strings.HasSuffix(string(c.Data), "# checked\n") {
				t.Errorf("%s is not reworded: %q", c.Path, c.Data)
			}
		}
		seen = append(seen, paths)
		seeds[r.Commands[0].Env[0]] = true
	}}
	partial := []sdk.Pair{{Key: "partial", Value: "true"}}
	_, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: build(t, rec, "brief", partial...), Config: partial, Output: sdk.Output{
		Changes: []sdk.Change{{Path: rec.UnitTestFile}},
	}})
	if err != nil || len(seen) != 4 {
		t.Fatalf("error %v, runs %v", err, seen)
	}
	if len(seeds) != 4 {
		t.Errorf("two runs are the same request, which a memo would answer once: %v", seeds)
	}
	if len(seen[0]) != 3 {
		t.Errorf("changed %v", seen[0])
	}
	for _, paths := range seen {
		if !slices.Equal(paths, seen[0]) {
			t.Errorf("changed %v", paths)
		}
	}
}
