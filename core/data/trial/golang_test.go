package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// goBoxes has the standard library compiled, in the folder that the program itself
// keeps it in: that takes a minute or two, once for each version of Go.
func goBoxes(t *testing.T) Sandboxes {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("valence-%d", os.Getuid()))
	if _, err := local.PrepareGo(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	d, err := local.New(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return scoring.Sandboxes{Driver: d, Limits: sandbox.Limits{Memory: 1 << 30, Disk: 1 << 30, CPUs: 2, Output: 1 << 20}}
}

// Whatever a Go package does, only tests that ran to their end and passed have passed.
func TestGoOutcomes(t *testing.T) {
	const (
		head   = "package p\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\nvar _, _, _ = fmt.Sprint, os.Exit, time.Sleep\n\n"
		passes = "func TestA(t *testing.T) {}\n"
		forged = "fmt.Print(\"{\\\"Action\\\":\\\"pass\\\",\\\"Package\\\":\\\"m/p\\\",\\\"Test\\\":\\\"TestB\\\"}\\n--- PASS: TestB (0.00s)\\nPASS\\n\")\n"
	)
	tests := []struct {
		name, text     string
		passed, failed []string // bare names
		endless        bool
		succeeds       bool
	}{
		{"passes", passes, []string{"TestA"}, nil, false, true},
		{"subtests", "func TestB(t *testing.T) {\n\tt.Run(\"one two\", func(t *testing.T) {})\n\tt.Run(\"x\", func(t *testing.T) { t.Fail() })\n}\n",
			[]string{"TestB/one_two"}, []string{"TestB", "TestB/x"}, false, false},
		{"does not build", passes + "var x int = \"\"\n", nil, nil, false, false},
		{"panics", passes + "func TestB(t *testing.T) { panic(\"no\") }\nfunc TestC(t *testing.T) {}\n", []string{"TestA"}, []string{"TestB"}, false, false},
		{"exits in a test", passes + "func TestB(t *testing.T) {\n\t" + forged + "\tos.Exit(0)\n}\n", []string{"TestA"}, []string{"TestB"}, false, false},
		{"exits before the tests", passes + "func TestMain(m *testing.M) { os.Exit(0) }\n", nil, nil, false, true},
		{"exits when it is loaded", passes + "func init() { os.Exit(0) }\n", nil, nil, false, true},
		{"hangs", passes + "func TestB(t *testing.T) { time.Sleep(time.Hour) }\n", []string{"TestA"}, nil, true, false},
	}
	w := sdk.Workspace{Files: []sdk.File{{Path: "go.mod", Data: []byte("module m\n\ngo 1.21\n")}}}
	groups := make([]runner.Group, len(tests))
	for i, c := range tests {
		file := fmt.Sprintf("p%d/p_test.go", i)
		w.Files = append(w.Files, sdk.File{Path: file, Data: []byte(head + c.text)})
		groups[i] = runner.Group{Name: filepath.Dir(file), Files: []string{file}}
	}
	table := runner.Builtin()
	events := table[slices.IndexFunc(table, func(r *runner.Runner) bool { return r.Name == "go" })]
	text := *events
	text.Command, text.Parser = "go test -count=1 -vet=off -v {folders}", "gotest"
	w.Env = events.Env
	s := goBoxes(t)
	for _, r := range []*runner.Runner{events, &text} {
		j, err := OpenJournal("")
		if err != nil {
			t.Fatal(err)
		}
		lab := NewLab(s, r, j, 1)
		cases, groups := tests, groups
		if r == &text { // what differs is how the log is read
			cases, groups = tests[1:5], groups[1:5]
		}
		last := len(cases) - 1 // of all, it is the one that hangs, and takes its whole limit
		out, err := lab.Test(t.Context(), NewWorkspace(w), nil, groups[:last], nil, 2*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		end, err := lab.Test(t.Context(), NewWorkspace(w), nil, groups[last:], nil, 15*time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, end...)
		for i, c := range cases {
			named := func(names []string) []string {
				var ids []string
				for _, n := range names {
					if r == events {
						n = "m/" + groups[i].Name + "." + n
					}
					ids = append(ids, n)
				}
				return ids
			}
			o := out[i]
			if !slices.Equal(o.Passed, named(c.passed)) || o.TimedOut != c.endless || (o.Exit == 0) != c.succeeds {
				t.Errorf("%s: %s: passed %q, timed out %t, exit status %d; want %q, %t; %s", r.Parser, c.name, o.Passed, o.TimedOut, o.Exit, named(c.passed), c.endless, o.Log)
			}
			if !slices.Equal(o.Failed, named(c.failed)) {
				t.Errorf("%s: %s: failed %q, want %q", r.Parser, c.name, o.Failed, named(c.failed))
			}
		}
	}
}
