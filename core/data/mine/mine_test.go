package mine

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/mutate"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// fixture is a repository with known answers: of its commits only "mend" gives a record.
func fixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(message string) {
		t.Helper()
		git("add", "-A")
		git("commit", "-q", "-m", message)
	}
	const head = "import unittest\n\nfrom stock import count, total\n\n\nclass StockTest(unittest.TestCase):\n"
	const one = "    def test_count(self):\n        self.assertEqual(count([1, 2]), 2)\n"
	const two = "\n    def test_total_of_nothing(self):\n        self.assertEqual(total([]), 0)\n"
	const three = "\n    def test_total(self):\n        self.assertEqual(total([2, 3]), 5)\n"
	const count = "def count(items):\n    return len(items)\n\n\n"
	git("init", "-q", "-b", "main")
	write("stock.py", count+"def total(items):\n    return items[0] + sum(items[1:])\n")
	write("tests/__init__.py", "")
	write("logo.dat", "\x00one")
	write("tests/test_stock.py", head+one)
	commit("begin")
	write("README.md", "# Stock\n")
	commit("words only")
	write("stock.py", count+"def total(items):\n    return sum(items)\n")
	write("tests/test_stock.py", head+one+two)
	write("logo.dat", "\x00two")
	commit("mend: sum over everything instead of the rest (#7)")
	write("stock.py", count+"def total(items):\n    # The sum.\n    return sum(items)\n")
	write("tests/test_stock.py", head+one+two+three)
	commit("a comment, and a test that passed before")
	write("tests/test_stock.py", head+one+two+three+"\n    def test_more(self):\n        self.assertEqual(count([]), 0)\n")
	commit("tests only")
	return dir
}

func options(t *testing.T) Options {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	j, err := trial.OpenJournal("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	boxes := scoring.Sandboxes{Driver: d, Limits: sandbox.Limits{Output: 16 << 20}}
	return Options{
		Options: mutate.Options{Seed: 1, Tries: 2, Repeats: 2}, Runners: runner.Builtin(),
		Lab: func(r *runner.Runner) *trial.Lab { return trial.NewLab(boxes, r, j, 1) },
	}
}

func TestKnownHistory(t *testing.T) {
	dir := fixture(t)
	o := options(t)
	run := func() ([]sdk.Record, *Yield) {
		t.Helper()
		var records []sdk.Record
		y, err := Run(t.Context(), dir, o, func(_ context.Context, r sdk.Record) error {
			records = append(records, r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return records, y
	}
	records, y := run()
	if len(records) != 1 || y.Commits != 4 || y.Candidates != 2 || y.Refused["no test fails each time"] != 1 || y.Refused["does not change both sources and tests"] != 2 {
		t.Fatalf("%d records, %+v", len(records), y)
	}
	r := &records[0]
	if !slices.Equal(r.FailToPass, []string{"tests.test_stock.StockTest.test_total_of_nothing"}) || !slices.Equal(r.PassToPass, []string{"tests.test_stock.StockTest.test_count"}) {
		t.Errorf("%q and %q", r.FailToPass, r.PassToPass)
	}
	if strings.Contains(r.Problem, "sum over everything") || !strings.Contains(r.Problem, "IndexError") || !strings.Contains(r.Problem, "total([])") {
		t.Errorf("the issue: %s", r.Problem)
	}
	if !strings.Contains(r.Patch, "+    return sum(items)") || strings.Contains(r.Patch, "test_stock") || len(r.BaseCommit) != 40 {
		t.Errorf("patch %s of %s", r.Patch, r.BaseCommit)
	}
	if !strings.Contains(r.Patch, "GIT binary patch") {
		t.Errorf("the patch leaves out what is binary: %s", r.Patch)
	}
	if len(r.Targets) != 1 || r.Targets[0].Name != "total" || r.Reproduce == "" || r.TestReference == "" {
		t.Errorf("%+v, script %q", r.Targets, r.Reproduce)
	}
	if _, err := patch.Tree(r.Workspace.Files, r.TestPatch, r.Patch); err != nil {
		t.Error(err)
	}

	o.Issues = Issues{"7": "The total of an empty stock is an error."}
	if records, _ := run(); len(records) != 1 || records[0].Problem != o.Issues["7"] {
		t.Errorf("the linked issue is not the problem: %+v", records)
	}
	o.Paths = []string{"README.md"}
	if _, y := run(); y.Commits != 1 {
		t.Errorf("%+v", y)
	}
}

func TestNoRepository(t *testing.T) {
	_, err := Run(t.Context(), t.TempDir(), Options{Runners: runner.Builtin()}, nil)
	if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), "no git repository") {
		t.Error(err)
	}
	if _, err := Run(t.Context(), fixture(t), Options{From: "--output=x", Runners: runner.Builtin()}, nil); diag.KindOf(err) != diag.KindData {
		t.Error(err)
	}
}

func TestIssues(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	lines := write("lines", `{"number": 3, "title": "A", "body": "b"}`+"\n\n"+`{"number": 4, "title": "C"}`+"\n")
	i, err := ReadIssues(lines)
	if err != nil || i["3"] != "A\n\nb" || i["4"] != "C" {
		t.Errorf("%q, %v", i, err)
	}
	for message, want := range map[string]string{
		"Fixes #3": "A\n\nb", "see GH-4, not #9": "C", "https://example.com/o/r/issues/4": "C", "3": "", "#33": "",
	} {
		if got := i.Of(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	write("lines", "{}\n")
	if _, err := ReadIssues(lines); err == nil || !strings.Contains(err.Error(), "line 1: number") {
		t.Error(err)
	}
	write("5.md", " text\n")
	if i, err := ReadIssues(dir); err != nil || i["5"] != "text" {
		t.Errorf("%q, %v", i, err)
	}
}

func FuzzObjects(f *testing.F) {
	f.Add("aa blob 2\nhi\n")
	f.Fuzz(func(t *testing.T, text string) {
		files := make([]sdk.File, 2)
		readObjects(bufio.NewReader(strings.NewReader(text)), files)
	})
}
