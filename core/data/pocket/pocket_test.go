package pocket

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
)

func shapes(yield func(split, shape string) bool) {
	for _, split := range []string{SplitTrain, SplitEval, SplitUnseen} {
		for _, shape := range []string{ShapeRepository, ShapeModule} {
			if !yield(split, shape) {
				return
			}
		}
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	var one sync.Mutex
	serial := func(ctx context.Context, script string, stdin []byte) ([]byte, error) {
		one.Lock()
		defer one.Unlock()
		return python(ctx, script, stdin)
	}
	for split, shape := range shapes {
		o := Options{Seed: 11, Count: 100, Split: split, Shape: shape}
		a := generate(t, o)
		b, err := Generate(t.Context(), serial, o)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(a, b); d != "" {
			t.Errorf("%s %s: the Runner's order shows:\n%s", split, shape, d)
		}
		o.Count = 37
		if d := differ(a[:37], generate(t, o)); d != "" {
			t.Errorf("%s %s: a smaller count gives other records:\n%s", split, shape, d)
		}
		for i, it := range a {
			if want := fmt.Sprintf("pocket-%s-%s-11-%d", split, shape, i); it.Record.ID != want {
				t.Fatalf("id %q, want %q", it.Record.ID, want)
			}
		}
	}
}

// differ is cmp.Diff, but quick where there is no difference.
func differ(a, b []*Item) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b)
}

// TestWindows cuts the same list into windows of other sizes. Records that repeat
// an earlier one are redrawn within and across windows alike.
func TestWindows(t *testing.T) {
	w, err := newWorld(Options{Seed: 3, Split: SplitEval, Shape: ShapeModule})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(sizes ...int) []*Item {
		m := &meter{run: python, kept: map[string]*measured{}}
		seen := map[[sha256.Size]byte]bool{}
		var out []*Item
		for _, n := range sizes {
			items, err := w.fill(t.Context(), m, seen, len(out), n)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, items...)
		}
		return out
	}
	if d := differ(cut(300), cut(100, 1, 150, 49)); d != "" {
		t.Error(d)
	}
}

// TestSplitsAreDisjoint compares all that a policy could have seen.
func TestSplitsAreDisjoint(t *testing.T) {
	const n = 700
	type seen struct{ records, problems, repositories, functions, families, bugs map[string]bool }
	look := func(split string) seen {
		s := seen{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
		for _, shape := range []string{ShapeRepository, ShapeModule} {
			for _, it := range generate(t, Options{Seed: 5, Count: n, Split: split, Shape: shape}) {
				r := &it.Record
				sum := fingerprint(r)
				s.records[string(sum[:])] = true
				s.problems[r.Problem] = true
				s.repositories[r.Repo] = true
				for _, f := range tree(t, r, r.Patch) {
					for fn := range strings.SplitSeq(f, "\n\n") {
						s.functions[withoutDocstring(fn)] = true
					}
				}
				for _, b := range it.Bugs {
					s.families[b.Family] = true
					s.bugs[b.Name+b.Before+b.After] = true
				}
			}
		}
		if len(s.records) != 2*n {
			t.Errorf("%s: %d different records of %d", split, len(s.records), 2*n)
		}
		return s
	}
	train, eval, unseen := look(SplitTrain), look(SplitEval), look(SplitUnseen)
	for name, other := range map[string]seen{"eval": eval, "unseen": unseen} {
		for what, pair := range map[string][2]map[string]bool{
			"records":      {train.records, other.records},
			"problems":     {train.problems, other.problems},
			"repositories": {train.repositories, other.repositories},
			"functions":    {train.functions, other.functions},
			"bugs":         {train.bugs, other.bugs},
		} {
			if both := common(pair[0], pair[1]); len(both) > 0 {
				t.Errorf("train and %s share %d %s, e.g. %q", name, len(both), what, both[0])
			}
		}
	}
	if both := common(unseen.families, train.families); len(both) > 0 {
		t.Errorf("unseen breaks train's families %v", both)
	}
	if both := common(unseen.families, eval.families); len(both) > 0 {
		t.Errorf("unseen breaks eval's families %v", both)
	}
	for split, s := range map[string]seen{SplitTrain: train, SplitEval: eval, SplitUnseen: unseen} {
		w, err := newWorld(Options{Split: split})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.families) != len(w.breaking) {
			t.Errorf("%s breaks %d of %d families", split, len(s.families), len(w.breaking))
		}
	}
}

func common(a, b map[string]bool) []string {
	var out []string
	for k := range a {
		if b[k] {
			out = append(out, k)
		}
	}
	return out
}

// withoutDocstring is a function's head and body: its identity.
func withoutDocstring(fn string) string {
	head, rest, _ := strings.Cut(strings.TrimSpace(fn), `"""`)
	_, body, _ := strings.Cut(rest, `"""`)
	return head + body
}

func TestBreakingMutationsAreSplit(t *testing.T) {
	for _, split := range []string{SplitTrain, SplitEval} {
		w, err := newWorld(Options{Split: split})
		if err != nil {
			t.Fatal(err)
		}
		all, held := 0, 0
		for _, f := range w.families {
			if len(f.mutations) < 4 {
				t.Errorf("%s has %d mutations", f.id, len(f.mutations))
			}
			for m := range f.mutations {
				p := &part{fn: &function{family: f}, facts: &measured{wrong: make([][]outcome, len(f.mutations))}}
				if w.breaks(p, m) {
					t.Fatalf("%s: a mutation that never shows breaks", f.id)
				}
				p.facts.wrong[m] = []outcome{{}}
				if w.breaks(p, m) {
					held++
				}
				all++
			}
		}
		share := float64(held) / float64(all)
		if split == SplitTrain {
			share = 1 - share
		}
		if share < .24 || share > .32 {
			t.Errorf("%s: %.2f of the mutations are held out", split, share)
		}
	}
}

func TestPhrasingsAreSplit(t *testing.T) {
	for _, p := range []string{phraseFull, phraseWant, phraseGot, phraseName, phraseBeh} {
		train, eval := trainPhrases.sentences[p], evalPhrases.sentences[p]
		if len(train) < 8 || len(eval) < 3 {
			t.Errorf("%s: %d and %d sentences", p, len(train), len(eval))
		}
		for _, s := range eval {
			if slices.Contains(train, s) {
				t.Errorf("%q is in train and eval", s)
			}
		}
	}
}

// TestClaims runs what records say about themselves.
func TestClaims(t *testing.T) {
	for split, shape := range shapes {
		t.Run(split+"/"+shape, func(t *testing.T) {
			t.Parallel()
			items := generate(t, Options{Seed: 8, Count: 7, Split: split, Shape: shape})
			var jobs []job
			var checks []func(outcomeOf)
			add := func(j job, check func(outcomeOf)) { jobs, checks = append(jobs, j), append(checks, check) }
			for _, it := range items {
				claims(t, it, add)
			}
			for i, o := range work(t, jobs) {
				checks[i](o)
			}
		})
	}
}

func claims(t *testing.T, it *Item, add func(job, func(outcomeOf))) {
	r := &it.Record
	var modules []string
	for _, f := range r.TestFiles {
		modules = append(modules, strings.TrimSuffix(f, ".py"))
	}
	tests := func(name string, files map[string]string, passes func(id string) bool) {
		add(job{Files: files, Tests: modules}, func(o outcomeOf) {
			if len(o.Tests) != len(r.FailToPass)+len(r.PassToPass) {
				t.Errorf("%s %s: %d tests ran, %d are named", r.ID, name, len(o.Tests), len(r.FailToPass)+len(r.PassToPass))
			}
			for _, id := range append(slices.Clone(r.FailToPass), r.PassToPass...) {
				if got := o.Tests[id] == "ok"; got != passes(id) {
					t.Errorf("%s %s: test %s is %q", r.ID, name, id, o.Tests[id])
				}
			}
		})
	}
	tests("before", tree(t, r, r.TestPatch), func(id string) bool { return slices.Contains(r.PassToPass, id) })
	tests("after", tree(t, r, r.Patch, r.TestPatch), func(string) bool { return true })
	if len(r.FailToPass) == 0 {
		t.Errorf("%s: no test fails", r.ID)
	}

	script := func(name, path, text string, files map[string]string, succeeds bool) {
		files = maps.Clone(files)
		files[path] = text
		add(job{Files: files, Script: path}, func(o outcomeOf) {
			if (o.Exit == 0) != succeeds {
				t.Errorf("%s %s: exit status %d", r.ID, name, o.Exit)
			}
		})
	}
	fixed := tree(t, r, r.Patch)
	script("reproduce before", "reproduce.py", r.Reproduce, tree(t, r), false)
	script("reproduce after", "reproduce.py", r.Reproduce, fixed, true)
	script("reference", r.UnitTestFile, r.TestReference, fixed, true)
	if len(r.Mutants) == 0 || len(r.Mutants) > maxMutants {
		t.Errorf("%s: %d mutants", r.ID, len(r.Mutants))
	}
	for _, m := range r.Mutants {
		files := maps.Clone(fixed)
		for _, f := range m.Files {
			files[f.Path] = string(f.Data)
		}
		if maps.Equal(files, fixed) {
			t.Errorf("%s: mutant %s changes nothing", r.ID, m.ID)
		}
		script("reference on "+m.ID, r.UnitTestFile, r.TestReference, files, false)
		anyFails(t, r.ID+" mutant "+m.ID, files, tree(t, r, r.Patch, r.TestPatch), modules, add)
	}
	labels := map[bool]int{}
	for i, c := range r.Candidates {
		labels[c.Correct]++
		files := tree(t, r, c.Patch)
		if maps.Equal(files, tree(t, r)) {
			t.Errorf("%s: candidate %d changes nothing", r.ID, i)
		}
		if c.Correct {
			tests("gold candidate", tree(t, r, c.Patch, r.TestPatch), func(string) bool { return true })
		} else {
			anyFails(t, fmt.Sprint(r.ID, " candidate ", i), files, tree(t, r, c.Patch, r.TestPatch), modules, add)
		}
	}
	if labels[true] != 1 || labels[false] < 1 || labels[false] > maxWrong {
		t.Errorf("%s: candidates %v", r.ID, labels)
	}
	for i, b := range it.Bugs {
		target := r.Targets[i]
		lines := strings.Split(fixed[b.Path], "\n")
		if target.Path != b.Path || target.Name != b.Name || !strings.HasPrefix(lines[target.Line-1], "def "+b.Name+"(") {
			t.Errorf("%s: target %v is not at its line", r.ID, target)
		}
	}
	if b := it.Bugs[0]; strings.Contains(r.ID, ShapeModule) && (b.Phrasing == phraseName || b.Phrasing == phraseBeh) {
		script("the docstring shows the bug", "reproduce.py", asserts([]string{b.module()}, b.Examples), tree(t, r), false)
	}
}

// anyFails checks that the golden tests of with catch the modules of files.
func anyFails(t *testing.T, name string, files, with map[string]string, modules []string, add func(job, func(outcomeOf))) {
	all := maps.Clone(with)
	maps.Copy(all, files)
	add(job{Files: all, Tests: modules}, func(o outcomeOf) {
		for _, status := range o.Tests {
			if status != "ok" {
				return
			}
		}
		t.Errorf("%s: all %d golden tests pass", name, len(o.Tests))
	})
}

// TestCommands runs the commands of a record as a shell does.
func TestCommands(t *testing.T) {
	r := &generate(t, Options{Seed: 21, Count: 1, Split: SplitTrain, Shape: ShapeRepository})[0].Record
	sh := func(files map[string]string, command string) (string, error) {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := sh(tree(t, r, r.TestPatch), r.TestCommand)
	if err == nil {
		t.Errorf("%s succeeds on the bug", r.TestCommand)
	}
	for _, id := range r.FailToPass {
		name := id[strings.LastIndexByte(id, '.')+1:]
		if !strings.Contains(out, "FAIL: "+name+" ") && !strings.Contains(out, "ERROR: "+name+" ") {
			t.Errorf("%s does not tell that %s fails:\n%s", r.TestCommand, id, out)
		}
	}
	if out, err := sh(tree(t, r, r.Patch, r.TestPatch), r.TestCommand); err != nil {
		t.Errorf("%s: %v\n%s", r.TestCommand, err, out)
	}
	files := tree(t, r, r.Patch)
	files[r.UnitTestFile] = r.TestReference
	if out, err := sh(files, r.UnitTestCommand); err != nil {
		t.Errorf("%s: %v\n%s", r.UnitTestCommand, err, out)
	}
}

func TestGenerateRefuses(t *testing.T) {
	ok := Options{Count: 1, Split: SplitTrain, Shape: ShapeModule}
	with := func(change func(*Options)) Options {
		o := ok
		change(&o)
		return o
	}
	answer := func(text string, err error) Runner {
		return func(context.Context, string, []byte) ([]byte, error) { return []byte(text), err }
	}
	own := diag.Errorf(diag.KindInterrupted, "run", "", "stopped")
	for _, c := range []struct {
		name string
		run  Runner
		o    Options
		kind diag.Kind
		text string
	}{
		{"count", python, with(func(o *Options) { o.Count = -1 }), diag.KindConfig, "generate pocket records: count: -1 is negative"},
		{"split", python, with(func(o *Options) { o.Split = "test" }), diag.KindConfig, `"test" is none of train, eval, unseen`},
		{"shape", python, with(func(o *Options) { o.Shape = "" }), diag.KindConfig, `"" is neither repository nor module`},
		{"no python", answer("", errors.New("not found")), ok, diag.KindSandbox, "run python3: not found"},
		{"own kind", answer("", own), ok, diag.KindInterrupted, "stopped"},
		{"no answer", answer("", nil), ok, diag.KindData, "answer of python3"},
		{"no JSON", answer("Python 2\n", nil), ok, diag.KindData, "answer of python3"},
	} {
		_, err := Generate(t.Context(), c.run, c.o)
		if err == nil || diag.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (%s), want %s of %s", c.name, err, diag.KindOf(err), c.text, c.kind)
		}
	}
	if items, err := Generate(t.Context(), python, with(func(o *Options) { o.Count = 0 })); err != nil || len(items) != 0 {
		t.Errorf("count 0: %v, %v", items, err)
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, shape := range []string{ShapeModule, ShapeRepository} {
		b.Run(shape, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n += len(generate(b, Options{Seed: 1, Count: 2048, Split: SplitTrain, Shape: shape}))
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
