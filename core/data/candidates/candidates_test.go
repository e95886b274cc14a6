package candidates

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/sdk"
)

// world runs the one test of records: x.py has to begin with 2. What it says of a 5
// changes each time.
type world struct {
	runs atomic.Int64
	fail error
}

func (w *world) Run(_ context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	if strings.Contains(r.Commands[0].Shell, "base64") { // what an image holds
		out := new(sdk.RunResponse)
		for _, c := range r.Commands {
			log := sdk.Log{}
			if strings.Contains(c.Shell, "'x.py'") {
				log.Output = "-\n" + base64.StdEncoding.EncodeToString([]byte("1\n")) + "\n"
			}
			out.Logs = append(out.Logs, log)
		}
		return out, nil
	}
	n := w.runs.Add(1)
	text := ""
	for _, f := range r.Workspace.Files {
		text += string(f.Data)
	}
	for _, c := range r.Changes {
		text = string(c.Data)
	}
	word := "FAILED"
	if strings.HasPrefix(text, "2") || strings.HasPrefix(text, "5") && n%2 == 0 {
		word = "PASSED"
	}
	return &sdk.RunResponse{Logs: []sdk.Log{{Output: word + " t.py::a\n=== 1 test in 0.1s ===\n"}}}, nil
}

func patched(to string) string {
	return "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+" + to + "\n"
}

func record(id string) *sdk.Record {
	return &sdk.Record{
		ID: id, Source: "mutate", Patch: patched("2"), FailToPass: []string{"t.py::a"}, TestCommand: "test", LogParser: "pytest",
		Workspace: sdk.Workspace{Files: []sdk.File{{Path: "x.py", Data: []byte("1\n")}}},
	}
}

func attempt(policy, record, text string) Attempt {
	return Attempt{Record: record, Policy: policy, Changes: []sdk.Change{{Path: "x.py", Data: []byte(text)}}, Solved: strings.HasPrefix(text, "2")}
}

func lab(t *testing.T, w *world) *trial.Lab {
	t.Helper()
	j, err := trial.OpenJournal("")
	if err != nil {
		t.Fatal(err)
	}
	return trial.NewLab(w, nil, j, 2)
}

func TestAdd(t *testing.T) {
	full := record("full")
	full.Candidates = []sdk.Candidate{{Patch: full.Patch, Correct: true, Origin: "gold"}, {Patch: patched("3"), Origin: "mutated-gold"}}
	bare := record("bare")
	imaged := record("imaged")
	imaged.Source, imaged.Workspace = "swebench", sdk.Workspace{Image: "i"}
	wrong := record("wrong")
	wrong.Patch = patched("9")
	untouched := record("untouched")
	records := []*sdk.Record{full, bare, imaged, wrong, untouched}
	link := attempt("p", "full", "")
	link.Changes = []sdk.Change{{Path: "y.py", Symlink: "/etc/passwd"}}
	lied := attempt("q", "bare", "7\n")
	lied.Solved = true // whatever the verdict said
	y, err := Add(t.Context(), lab(t, &world{}), records, []Attempt{
		attempt("p", "full", "2  \n"),        // the gold patch but for a blank
		attempt("p", "full", "2 # better\n"), // right
		attempt("p", "full", "3\n"),          // a candidate has it
		attempt("p", "full", "4\n"),          // wrong
		attempt("q", "full", "4\n"),          // the same
		attempt("q", "full", "5\n"),          // as the wind blows
		attempt("q", "full", "1 \n"),         // blanks
		attempt("q", "full", "1\n"), link, attempt("q", "full", "\xff"),
		lied, attempt("p", "bare", "22\n"),
		attempt("p", "imaged", "2\n"), attempt("p", "imaged", "3\n"), attempt("p", "wrong", "2\n"), attempt("p", "gone", "2\n"),
	}, Options{Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, r := range records {
		for _, c := range r.Candidates {
			got[r.ID] = append(got[r.ID], fmt.Sprint(c.Origin, " ", c.Correct, " ", strings.TrimSpace(c.Patch[strings.LastIndexByte(c.Patch, '+')+1:])))
		}
	}
	want := map[string][]string{
		"full":   {"gold true 2", "mutated-gold false 3", "p false 4"}, // and one of two right ones went
		"bare":   {"gold true 2", "q false 7", "p true 22"},
		"imaged": {"gold true 2", "p false 3"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&Yield{
		Attempts: 16, Records: 3, Added: 4, Balanced: 1,
		Policies: map[string]*Labels{"p": {1, 2}, "q": {0, 1}}, Sources: map[string]*Labels{"mutate": {3, 3}, "swebench": {1, 1}},
		Refused: map[string]int{
			"another has the same": 4, "the tests do not agree with themselves": 1, "it changes nothing but blanks at line ends": 1,
			"it changes nothing": 1, "it makes a symbolic link": 1, "a file of it is not Unicode": 1,
			"the record's tests do not pass with the gold patch": 1, "the file has no such record": 1,
		},
	}, y); d != "" {
		t.Error(d)
	}
}

// Policies take turns, and no record is flooded.
func TestMost(t *testing.T) {
	r := record("r")
	var attempts []Attempt
	for i := range 9 {
		attempts = append(attempts, attempt("p", "r", fmt.Sprintf("3%d\n", i)))
	}
	attempts = append(attempts, attempt("q", "r", "4\n"))
	w := &world{}
	y, err := Add(t.Context(), lab(t, w), []*sdk.Record{r}, attempts, Options{Most: 3, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	if y.Refused["the record has enough of the label"] != 7 || w.runs.Load() != 4 {
		t.Errorf("%+v after %d runs", y, w.runs.Load())
	}
	if y.Balanced != 2 || len(r.Candidates) != 2 {
		t.Errorf("%+v %+v", y, r.Candidates)
	}
}

// A sandbox's fault labels nothing and ends the work; a record whose tests cannot be
// run is passed over.
func TestFault(t *testing.T) {
	r := record("r")
	try := func(err error) (*Yield, error) {
		return Add(t.Context(), lab(t, &world{fail: err}), []*sdk.Record{r}, []Attempt{attempt("p", "r", "3\n")}, Options{})
	}
	if _, err := try(diag.Errorf(diag.KindSandbox, "create", "", "no sandbox")); diag.KindOf(err) != diag.KindSandbox {
		t.Error(err)
	}
	if y, err := try(errors.New("sh: not found")); err != nil || y.Refused["the record's tests cannot be run"] != 1 {
		t.Errorf("%+v, %v", y, err)
	}
	if len(r.Candidates) > 0 {
		t.Errorf("%+v", r.Candidates)
	}
}

func TestOf(t *testing.T) {
	out := &sdk.Output{Changes: []sdk.Change{{Path: "x.py"}}}
	for _, tt := range []struct {
		e  journal.Episode
		ok bool
	}{
		{journal.Episode{Task: "editing/a/b", Policy: "engine", Outcome: journal.Scored, Score: 1, Output: out}, true},
		{journal.Episode{Task: "review/a", Outcome: journal.Scored, Output: out}, false},
		{journal.Episode{Task: "editing/a", Outcome: "sandbox", Output: out}, false},
		{journal.Episode{Task: "editing/a", Outcome: journal.Scored}, false},
	} {
		a, ok := Of("run", &tt.e)
		if ok != tt.ok || ok && (a.Record != "a/b" || a.Policy != "run: engine" || !a.Solved) {
			t.Errorf("%+v: %+v, %t", tt.e, a, ok)
		}
	}
}

func TestBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []*sdk.Record
		before := map[string][]sdk.Candidate{}
		for i := range rapid.IntRange(0, 6).Draw(t, "records") {
			r := &sdk.Record{ID: fmt.Sprint(i), Source: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")}
			for k := range rapid.IntRange(0, 6).Draw(t, "candidates") {
				origin := rapid.SampledFrom([]string{"gold", "mutated-gold", "p", "q"}).Draw(t, "origin")
				r.Candidates = append(r.Candidates, sdk.Candidate{Patch: fmt.Sprint(i, k), Origin: origin, Correct: origin == "gold" || origin != "mutated-gold" && rapid.Bool().Draw(t, "right")})
			}
			before[r.ID] = slices.Clone(r.Candidates)
			records = append(records, r)
		}
		gone := balance(records, 1)
		total := map[string]int{} // right less wrong
		may := map[string]bool{}  // a right one or a wrong one could go
		for _, r := range records {
			had, have := map[string]int{}, map[string]int{}
			for _, c := range before[r.ID] {
				had[fmt.Sprint(c.Correct)]++
			}
			spare := map[string]bool{}
			for _, c := range r.Candidates {
				label := fmt.Sprint(c.Correct)
				have[label]++
				spare[label] = spare[label] || c.Origin != "gold"
				if c.Correct {
					total[r.Source]++
				} else {
					total[r.Source]--
				}
				if !slices.Contains(before[r.ID], c) {
					t.Fatalf("%+v is new", c)
				}
			}
			for label, n := range had {
				if n > 0 && have[label] == 0 {
					t.Fatalf("record %s lost its last of label %s", r.ID, label)
				}
				if have[label] > 1 && spare[label] {
					may[r.Source+label] = true
				}
			}
			for _, c := range before[r.ID] {
				if c.Origin == "gold" && !slices.Contains(r.Candidates, c) {
					t.Fatal("a gold patch is gone")
				}
			}
			gone -= len(before[r.ID]) - len(r.Candidates)
		}
		if gone != 0 {
			t.Fatalf("%d are counted that did not go", gone)
		}
		for source, n := range total {
			if n > 0 && may[source+"true"] || n < 0 && may[source+"false"] {
				t.Fatalf("source %s is %d apart, and one could go", source, n)
			}
		}
	})
}
