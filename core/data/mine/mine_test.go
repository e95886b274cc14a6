package mine

import (
	"bufio"
	"context"
	"fmt"
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

// repo is a repository that is made step by step.
type repo struct {
	*testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	r := repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repo) git(args ...string) {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("git %q: %v: %s", args, err, out)
	}
}

func (r repo) write(name, text string) {
	r.Helper()
	name = filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r repo) commit(message string) {
	r.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", message)
}

// fixture is a repository with known answers: of its commits only "mend" gives a record.
func fixture(t *testing.T) string {
	t.Helper()
	r := newRepo(t)
	write, commit := r.write, r.commit
	const head = "import unittest\n\nfrom stock import count, total\n\n\nclass StockTest(unittest.TestCase):\n"
	const one = "    def test_count(self):\n        self.assertEqual(count([1, 2]), 2)\n"
	const two = "\n    def test_total_of_nothing(self):\n        self.assertEqual(total([]), 0)\n"
	const three = "\n    def test_total(self):\n        self.assertEqual(total([2, 3]), 5)\n"
	const count = "def count(items):\n    return len(items)\n\n\n"
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
	return r.dir
}

func options(t *testing.T) Options {
	t.Helper()
	return optionsIn(t, t.TempDir())
}

func optionsIn(t *testing.T, dir string) Options {
	t.Helper()
	d, err := local.New(local.Options{Dir: dir})
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

// Of a Go history: a mend, and what its tests could not even be compiled without.
func TestKnownGoHistory(t *testing.T) {
	const (
		head  = "package stock\n\nimport \"testing\"\n\n"
		one   = "func TestCount(t *testing.T) {\n\tif got := Count(2, 3); got != 2 {\n\t\tt.Errorf(\"Count(2, 3) = %d, want 2\", got)\n\t}\n}\n"
		two   = "\nfunc TestTotal(t *testing.T) {\n\tif got := Total(2, 3); got != 5 {\n\t\tt.Errorf(\"Total(2, 3) = %d, want 5\", got)\n\t}\n}\n"
		three = "\nfunc TestLargest(t *testing.T) {\n\tif got := Largest(2, 3); got != 3 {\n\t\tt.Errorf(\"Largest(2, 3) = %d, want 3\", got)\n\t}\n}\n"
		count = "package stock\n\nfunc Count(items ...int) int { return len(items) }\n"
		total = "\nfunc Total(items ...int) int {\n\tsum := 0\n\tfor _, n := range items%s {\n\t\tsum += n\n\t}\n\treturn sum\n}\n"
		large = "\nfunc Largest(items ...int) int {\n\tbest := items[0]\n\tfor _, n := range items {\n\t\tif n > best {\n\t\t\tbest = n\n\t\t}\n\t}\n\treturn best\n}\n"
	)
	r := newRepo(t)
	r.write("go.mod", "module example.com/stock\n\ngo 1.21\n")
	r.write("stock.go", count+fmt.Sprintf(total, "[1:]"))
	r.write("stock_test.go", head+one)
	r.commit("begin")
	r.write("stock.go", count+fmt.Sprintf(total, ""))
	r.write("stock_test.go", head+one+two)
	r.commit("mend: sum over everything")
	r.write("stock.go", count+fmt.Sprintf(total, "")+large)
	r.write("stock_test.go", head+one+two+three)
	r.commit("the largest")
	for _, name := range []string{"a", "b"} {
		r.write(name+"/x.go", "package "+name+"\n\nconst N = 1\n")
	}
	r.write("c/c.go", "package c\n\nimport (\n\t\"example.com/stock/a\"\n\t\"example.com/stock/b\"\n)\n\nconst N = a.N + b.N\n")
	r.write("c/c_test.go", "package c\n\nimport \"testing\"\n\nfunc TestN(t *testing.T) {}\n")
	r.write("stock.go", count+fmt.Sprintf(total, "")+large+"\n// The end.\n")
	r.commit("a package that imports others")

	dir := filepath.Join(os.TempDir(), fmt.Sprintf("valence-%d", os.Getuid())) // where the program itself keeps what it compiles once
	if _, err := local.PrepareGo(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	o := optionsIn(t, dir)
	o.Tries, o.Repeats, o.Packages = 1, 1, 3
	var records []sdk.Record
	y, err := Run(t.Context(), r.dir, o, func(_ context.Context, r sdk.Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 || y.Candidates != 3 || y.Refused["its tests import too many packages"] != 1 {
		t.Fatalf("%d records, %+v", len(records), y)
	}
	for i, want := range []struct {
		fails  []string
		passes []string
		issue  string
		target string
	}{
		{[]string{"TestLargest"}, []string{"TestCount", "TestTotal"}, "undefined: Largest", "Largest"},
		{[]string{"TestTotal"}, []string{"TestCount"}, "Total(2, 3) = 3, want 5", "Total"},
	} {
		named := func(names []string) []string {
			var out []string
			for _, n := range names {
				out = append(out, "example.com/stock."+n)
			}
			return out
		}
		got := &records[i]
		if !slices.Equal(got.FailToPass, named(want.fails)) || !slices.Equal(got.PassToPass, named(want.passes)) || !strings.Contains(got.Problem, want.issue) {
			t.Errorf("%q and %q, the issue: %s", got.FailToPass, got.PassToPass, got.Problem)
		}
		if len(got.Targets) != 1 || got.Targets[0].Name != want.target || got.Reproduce == "" {
			t.Errorf("%+v, script %q", got.Targets, got.Reproduce)
		}
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
