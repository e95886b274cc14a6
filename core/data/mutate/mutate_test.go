package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

func boxes(t *testing.T) trial.Sandboxes { return boxesIn(t, t.TempDir()) }

// goBoxes has the standard library compiled, in the folder that the program itself
// keeps it in: that takes a minute, once for each version of Go.
func goBoxes(t *testing.T) trial.Sandboxes {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("valence-%d", os.Getuid()))
	if _, err := local.PrepareGo(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return boxesIn(t, dir)
}

func boxesIn(t *testing.T, dir string) trial.Sandboxes {
	t.Helper()
	d, err := local.New(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return scoring.Sandboxes{Driver: d, Limits: sandbox.Limits{Memory: 1 << 30, Disk: 1 << 30, CPUs: 2, Output: 16 << 20}}
}

func journal(t *testing.T, name string) *trial.Journal {
	t.Helper()
	j, err := trial.OpenJournal(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// counting counts the sandboxes that are asked for, and fails from one on.
type counting struct {
	trial.Sandboxes
	made, most int
}

func (c *counting) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if c.made++; c.most > 0 && c.made > c.most {
		return nil, diag.Errorf(diag.KindSandbox, "run", "", "killed")
	}
	return c.Sandboxes.Run(ctx, r)
}

func shop(t *testing.T) *source.Tree {
	t.Helper()
	tree, err := source.Open("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// gather runs the generator and gives its records.
func gather(t *testing.T, s trial.Sandboxes, tree *source.Tree, run string, j *trial.Journal, o Options) ([]sdk.Record, *Yield, error) {
	t.Helper()
	r, err := runner.Builtin().Find(run, tree.Files)
	if err != nil {
		t.Fatal(err)
	}
	var out []sdk.Record
	o.Ahead = 1
	y, err := Run(t.Context(), tree, trial.NewLab(s, r, j, 1), o, func(_ context.Context, r sdk.Record) error {
		out = append(out, r)
		return nil
	})
	return out, y, err
}

// Everything that a record claims is so.
func TestShop(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	s := &counting{Sandboxes: boxes(t)}
	tree := shop(t)
	o := Options{Seed: 1, Tries: 4, Repeats: 2}
	records, y, err := gather(t, s, tree, "", journal(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	if y.Runner != "unittest" || y.Tests != 7 || y.Functions != 3 || y.Records != 2 || len(records) != 2 {
		t.Fatalf("%+v", y)
	}
	if y.Caught == 0 || y.Tried != y.Caught+y.Survived+y.Unsound+y.Endless {
		t.Errorf("%+v", y)
	}
	for _, skill := range []string{"localization", "editing", "unittest", "review", "repro"} {
		if y.Skills[skill][Served] != 2 {
			t.Errorf("%s: %v", skill, y.Skills[skill])
		}
	}
	for i := range records {
		check(t, tree, &records[i])
	}

	// The same again asks for nothing but the list of functions and the scripts.
	all := s.made
	again, _, err := gather(t, s, tree, "", journal(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, records), encode(t, again)) {
		t.Error("the same seed gives other records")
	}
	if s.made-all > 8 {
		t.Errorf("the second run made %d sandboxes, the first %d", s.made-all, all)
	}

	// Work that ended at any point goes on and comes to the same.
	part := filepath.Join(t.TempDir(), "journal")
	broken := &counting{Sandboxes: s.Sandboxes, most: all / 2}
	if _, _, err := gather(t, broken, tree, "", journal(t, part), o); diag.KindOf(err) != diag.KindSandbox {
		t.Fatal(err)
	}
	torn, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part, torn[:len(torn)-7], 0o600); err != nil {
		t.Fatal(err)
	}
	resumed, _, err := gather(t, s, tree, "", journal(t, part), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, records), encode(t, resumed)) {
		t.Error("what was resumed comes to other records")
	}
}

func encode(t *testing.T, records []sdk.Record) []byte {
	t.Helper()
	b, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func check(t *testing.T, tree *source.Tree, r *sdk.Record) {
	t.Helper()
	fixed, err := patch.Tree(r.Workspace.Files, r.Patch, r.TestPatch)
	if err != nil {
		t.Fatal(err)
	}
	if len(fixed) != len(tree.Files) {
		t.Fatalf("%s: %d files with both patches, want %d", r.ID, len(fixed), len(tree.Files))
	}
	for i, f := range fixed {
		if f.Path != tree.Files[i].Path || !bytes.Equal(f.Data, tree.Files[i].Data) {
			t.Errorf("%s: %s is not as it was", r.ID, f.Path)
		}
	}
	for _, id := range slices.Concat(r.FailToPass, r.PassToPass) {
		if strings.Contains(id, "Flaky") {
			t.Errorf("%s names the flaky test %s", r.ID, id)
		}
	}
	if len(r.FailToPass) == 0 || len(r.FailToPass)+len(r.PassToPass) != 7 {
		t.Errorf("%s: %d and %d tests, want 7 in all", r.ID, len(r.FailToPass), len(r.PassToPass))
	}
	for _, f := range r.Workspace.Files {
		if slices.ContainsFunc(r.FailToPass, func(id string) bool {
			return strings.HasPrefix(id, strings.ReplaceAll(strings.TrimSuffix(f.Path, ".py"), "/", ".")+".")
		}) {
			t.Errorf("%s: %s shows the tests of the function", r.ID, f.Path)
		}
	}
	if strings.Contains(r.Problem, "@@") || !strings.Contains(r.Problem, "```") || mentions(r) {
		t.Errorf("%s: the issue: %s", r.ID, r.Problem)
	}
	right, wrong := 0, 0
	for _, c := range r.Candidates {
		if c.Correct {
			right++
		} else {
			wrong++
		}
		if _, err := patch.Tree(r.Workspace.Files, c.Patch); err != nil {
			t.Errorf("%s: %s: %v", r.ID, c.Origin, err)
		}
	}
	if right != 1 || wrong == 0 || wrong > maxWrong {
		t.Errorf("%s: %d right and %d wrong candidates", r.ID, right, wrong)
	}
	if len(r.Mutants) == 0 || len(r.Mutants) > maxMutants || r.TestReference == "" || r.Reproduce == "" {
		t.Errorf("%s: %d mutants, reference of %d bytes, script of %d", r.ID, len(r.Mutants), len(r.TestReference), len(r.Reproduce))
	}
	if len(r.Targets) != 1 || r.UnitTestFile != "tests/test_shop.py" {
		t.Errorf("%s: %+v %s", r.ID, r.Targets, r.UnitTestFile)
	}
}

// mentions says whether an issue holds a line that the patch adds.
func mentions(r *sdk.Record) bool {
	diffs, err := grade.ParseDiff(r.Patch)
	if err != nil {
		return true
	}
	for _, d := range diffs {
		for _, h := range d.Hunks {
			for _, l := range h.Lines {
				if text := strings.TrimSpace(l[1:]); l[0] == '+' && len(text) > 8 && strings.Contains(r.Problem, text) {
					return true
				}
			}
		}
	}
	return false
}

// What the evaluators of the skills would say: verified by running the tests.
func TestCandidatesAreLabelledByTests(t *testing.T) {
	s := boxes(t)
	records, _, err := gather(t, s, shop(t), "", journal(t, ""), Options{Seed: 2, Tries: 4, Count: 1, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	lab := trial.NewLab(s, runner.Builtin()[1], journal(t, ""), 1)
	for _, c := range records[0].Candidates {
		changes, err := patch.Changes(records[0].Workspace.Files, c.Patch)
		if err != nil {
			t.Fatal(err)
		}
		v, err := lab.Verify(t.Context(), &records[0], changes, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v.Solved != c.Correct {
			t.Errorf("%s: labelled %t, but the tests say %t: %s", c.Origin, c.Correct, v.Solved, v.Reason)
		}
	}
}

// gauge is the Go module of testdata, whose files carry another ending there.
func gauge(t *testing.T) *source.Tree {
	t.Helper()
	tree, err := source.Open("testdata/gauge")
	if err != nil {
		t.Fatal(err)
	}
	for i := range tree.Files {
		tree.Files[i].Path = strings.TrimSuffix(tree.Files[i].Path, ".txt")
	}
	tree.Identify("gauge")
	return tree
}

func TestGauge(t *testing.T) {
	records, y, err := gather(t, goBoxes(t), gauge(t), "", journal(t, ""), Options{Seed: 1, Tries: 2, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	if y.Runner != "go" || y.Tests != 3 || len(records) != 1 {
		t.Fatalf("%+v", y)
	}
	r := &records[0]
	if r.Repo != "example.com/gauge" || r.Language != "go" || r.UnitTestFile != "gauge_test.go" || r.Reproduce == "" || len(r.FailToPass) == 0 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Problem, "Clamp(") {
		t.Errorf("the issue: %s", r.Problem)
	}
}

// A tree whose tests cannot be run says what is missing.
func TestWhatIsMissing(t *testing.T) {
	s := boxes(t)
	tree := &source.Tree{Name: "x", Files: []sdk.File{
		{Path: "a.py", Data: []byte("def f():\n    return 1\n")},
		{Path: "test_a.py", Data: []byte("import unittest\nimport numbness\n")},
	}}
	if _, _, err := gather(t, s, tree, "", journal(t, ""), Options{}); diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), "numbness") {
		t.Error(err)
	}
	r := *runner.Builtin()[1]
	r.Needs = "python3 -c 'import numbness'"
	_, err := Run(t.Context(), tree, trial.NewLab(s, &r, journal(t, ""), 1), Options{}, nil)
	if err == nil || !strings.Contains(err.Error(), "the sandbox cannot run unittest") || !strings.Contains(err.Error(), "numbness") {
		t.Error(err)
	}
}
