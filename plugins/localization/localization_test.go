package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
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
	task := build(t, records[1], "brief")
	want := "Find the files to change.\n" + records[1].Problem + "\nFiles: store/__init__.py store/cart.py store/price.py\nWrite location.txt."
	if task.Prompt != want || task.System != "" {
		t.Errorf("prompt %q", task.Prompt)
	}
	if got := string(task.Reference.Changes[0].Data); got != "store/cart.py\nstore/price.py\n" {
		t.Errorf("reference %q", got)
	}
	task = build(t, records[2], "full")
	if strings.ContainsAny(task.Prompt, "{}") || !strings.Contains(task.Prompt, "/workspace/location.txt") || task.System == "" {
		t.Errorf("prompt %q", task.Prompt)
	}
	b, err := sdktest.Build(t.Context(), skill{}, nil, &sdk.BuildRequest{Record: records[0], Template: "in {location}"})
	if err == nil {
		t.Errorf("a template may give the answer away: %+v", b)
	}
}

// Tests, prose and files that the patch makes are not asked for.
func TestReference(t *testing.T) {
	hunk := "@@ -1 +1 @@\n-1\n+2\n"
	rec := &sdk.Record{Language: "python", Patch: "--- a/a.py\n+++ b/a.py\n" + hunk + "--- a/README.md\n+++ b/README.md\n" + hunk +
		"--- a/tests/test_a.py\n+++ b/tests/test_a.py\n" + hunk + "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+1\n" +
		"diff --git a/old.py b/moved.py\nrename from old.py\nrename to moved.py\n" + "--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"}
	got, err := reference(rec)
	if err != nil || !slices.Equal(got, []string{"a.py", "old.py", "gone.py"}) {
		t.Errorf("got %v, error %v", got, err)
	}
}

func TestSkipped(t *testing.T) {
	for name, change := range map[string]func(*sdk.Record){
		"no problem":   func(r *sdk.Record) { r.Problem = "" },
		"no patch":     func(r *sdk.Record) { r.Patch = "" },
		"only tests":   func(r *sdk.Record) { r.Patch = r.TestPatch },
		"broken patch": func(r *sdk.Record) { r.Patch = "--- a/a\n+++ b/a\n@@ x @@\n" },
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

func TestEvaluate(t *testing.T) {
	change := func(text string) []sdk.Change { return []sdk.Change{{Path: "location.txt", Data: []byte(text)}} }
	tests := []struct {
		name                     string
		changes                  []sdk.Change
		score, precision, recall float64
		reason                   string
	}{
		{"exact", change("store/cart.py\nstore/price.py\n"), 1, 1, 1, "exactly the 2 files"},
		{"other order, twice, blanks, dots", change("\n  ./store/price.py \n\n\tstore//cart.py\nstore/./price.py"), 1, 1, 1, ""},
		{"Windows", change("\ufeffstore/cart.py\r\nstore/price.py\r\n"), 1, 1, 1, ""},
		{"old Mac", change("store/cart.py\rstore/price.py"), 1, 1, 1, ""},
		{"one missing", change("store/cart.py\n"), 0, 1, 0.5, "missing: store/price.py"},
		{"one too many", change("store/cart.py\nstore/price.py\nREADME.md\n"), 0, 2. / 3, 1, "not to be changed: README.md"},
		{"both", change("store/cart.py\nother.py"), 0, 0.5, 0.5, "missing: store/price.py; not to be changed: other.py"},
		{"one line", change("store/cart.py store/price.py"), 0, 0, 0, "missing"},
		{"absolute", change("/workspace/store/cart.py\n/workspace/store/price.py\n"), 0, 0, 0, ""},
		{"letter case", change("Store/cart.py\nstore/price.py\n"), 0, 0.5, 0.5, ""},
		{"bytes that are no text", change("store/cart.py\n\xff\xfe\n"), 0, 0.5, 0.5, ""},
		{"very long", change(strings.Repeat("x", 5000) + strings.Repeat("\na", 3) + strings.Repeat("\n\u00e9", 20)), 0, 0, 0, "…"},
		{"empty", change(" \n\n"), 0, 0, 0, "names no file"},
		{"none", nil, 0, 0, 0, "was not written"},
		{"removed", []sdk.Change{{Path: "location.txt", Deleted: true}}, 0, 0, 0, "was not written"},
		{"a link", []sdk.Change{{Path: "location.txt", Symlink: "store"}}, 0, 0, 0, "was not written"},
	}
	task := build(t, sdktest.Records()[1], "brief")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := sdktest.Evaluate(t.Context(), skill{}, &sdktest.Host{}, &sdk.EvaluateRequest{Task: task, Output: sdk.Output{
				Changes: tt.changes, Message: "store/cart.py\nstore/price.py",
			}})
			if err != nil {
				t.Fatal(err)
			}
			if v.Score != tt.score || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("score %v, want %v: %s", v.Score, tt.score, v.Reason)
			}
			for i, want := range []float64{tt.precision, tt.recall} {
				if math.Abs(v.Components[i].Value-want) > 1e-9 {
					t.Errorf("%s is %v, want %v", v.Components[i].Name, v.Components[i].Value, want)
				}
			}
		})
	}
}

func TestUnicodePaths(t *testing.T) {
	rec := sdktest.Records()[0]
	rec.Patch = "diff --git \"a/caf\\303\\251.py\" \"b/caf\\303\\251.py\"\n--- \"a/caf\\303\\251.py\"\n+++ \"b/caf\\303\\251.py\"\n@@ -1 +1 @@\n-1\n+2\n"
	v, err := sdktest.Evaluate(t.Context(), skill{}, nil, &sdk.EvaluateRequest{Task: build(t, rec, "full"), Output: sdk.Output{
		Changes: []sdk.Change{{Path: "location.txt", Data: []byte("caf\u00e9.py\u00a0\r\n")}},
	}})
	if err != nil || v.Score != 1 {
		t.Errorf("%+v, error %v", v, err)
	}
}

func TestHiddenPartMissing(t *testing.T) {
	if v, err := sdktest.Evaluate(t.Context(), skill{}, nil, &sdk.EvaluateRequest{}); err == nil {
		t.Errorf("%+v, want an error", v)
	}
}

// No order and no repetition of the lines changes the set.
func TestOrderAndDuplicatesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfN(rapid.StringMatching(`[a-c]/[a-c]\.py`), 1, 5).Draw(t, "paths")
		mixed := rapid.Permutation(append(slices.Clone(paths), paths[0])).Draw(t, "mixed")
		a, b := listed(strings.Join(paths, "\n")), listed("./"+strings.Join(mixed, " \r\n\n./"))
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Fatalf("%v, %v", a, b)
		}
	})
}

func FuzzListed(f *testing.F) {
	f.Add("\ufeff./a.py\r\n\nb\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := listed(text)
		if again := listed(strings.Join(got, "\n")); len(got) > 0 && len(again) > len(got) {
			t.Fatalf("%q gives %q, and that %q", text, got, again)
		}
	})
}
