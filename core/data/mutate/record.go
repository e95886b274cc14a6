package mutate

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/data/reproduce"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/symptom"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

const (
	maxMutants = 16 // of a record
	maxWrong   = 3  // wrong candidates of a record
)

// Bug is a fault of a tree: files as they are with it.
type Bug struct {
	ID      string       // of the record
	Changes []sdk.Change // Deleted for a file that the mend makes
	Targets []Function   // what the mend changes
	Near    []runner.Group
	Log     string            // of tests that it fails
	Problem string            // the issue, where somebody wrote one; "": worded from the log
	Passing func(string) bool // tests that passed before the mend although they fail with its tests; nil: none
	Meta    []sdk.Pair
}

// changed gives the file of a change as the tree has it.
func (m *Bench) mended(c sdk.Change) sdk.Change {
	i := slices.IndexFunc(m.whole.Files, func(f sdk.File) bool { return f.Path == c.Path })
	if i < 0 {
		return sdk.Change{Path: c.Path, Deleted: true}
	}
	return sdk.Change{Path: c.Path, Data: m.whole.Files[i].Data, Exec: m.whole.Files[i].Exec}
}

// blank is a record of the tree without a fault in it.
func (m *Bench) blank(units []unit) *sdk.Record {
	r := &sdk.Record{
		Repo: m.tree.Repo, BaseCommit: m.commit(), Source: m.Source, Language: m.lab.Runner.Language,
		LogParser: m.lab.Runner.Parser,
	}
	for _, u := range units {
		r.TestFiles = append(r.TestFiles, u.Files...)
	}
	r.TestCommand = m.prefix + m.lab.Runner.Line(r.TestFiles...)
	return r
}

func (m *Bench) commit() string {
	if m.Commit != "" {
		return m.Commit
	}
	return m.tree.Digest()[:40]
}

// Record makes the record of a bug; nil, with the reason, where it cannot be had.
// mutants are mistakes in the mended code that the tests catch.
func (m *Bench) Record(ctx context.Context, bug Bug, mutants []Mutant) (*sdk.Record, string, error) {
	units := m.groups
	if m.slow {
		units = slices.DeleteFunc(slices.Clone(units), func(u unit) bool {
			return !slices.ContainsFunc(bug.Near, func(g runner.Group) bool { return g.Name == u.Name })
		})
	}
	r := m.blank(units)
	r.ID = bug.ID
	broken := slices.Clone(bug.Changes)
	var fixed []sdk.Change
	before := map[string]sdk.Change{}
	for i, c := range broken {
		f := m.mended(c)
		if !c.Deleted && !f.Deleted {
			broken[i].Exec = f.Exec
		}
		if !utf8.Valid(c.Data) || !utf8.Valid(f.Data) {
			return nil, "a file that changes is not Unicode", nil
		}
		fixed = append(fixed, f)
		before[c.Path] = broken[i]
	}
	was := func(p string) ([]byte, bool) { return before[p].Data, !before[p].Deleted }

	// What the whole suite says of the bug, each time.
	failing, passing := map[string]int{}, map[string]int{}
	for repeat := range m.Repeats {
		outcomes, err := m.lab.Test(ctx, m.whole, broken, plain(units), m.stable, 0, repeat)
		if err != nil {
			return nil, "", err
		}
		for i, o := range outcomes {
			if bug.Log == "" && o.Log != "" {
				bug.Log = o.Log
			}
			for _, id := range units[i].stable {
				if _, ok := slices.BinarySearch(o.Passed, id); ok {
					passing[id]++
				} else {
					failing[id]++
				}
			}
		}
	}
	for _, id := range m.all(units) {
		switch {
		case passing[id] == m.Repeats, failing[id] == m.Repeats && bug.Passing != nil && bug.Passing(id):
			r.PassToPass = append(r.PassToPass, id)
		case failing[id] == m.Repeats:
			r.FailToPass = append(r.FailToPass, id)
		}
	}
	if len(r.FailToPass) == 0 {
		return nil, "no test fails each time", nil
	}

	// Out of sight go the test files that have a test of the functions: all that some
	// mutant of them fails.
	own := map[string]bool{}
	for _, k := range mutants {
		for _, id := range k.caught {
			own[id] = true
		}
	}
	for _, id := range r.FailToPass {
		own[id] = true
	}
	hidden := m.filesOf(slices.Sorted(maps.Keys(own)))
	var restore []sdk.Change
	tests := map[string]string{}
	for _, file := range m.whole.Files {
		switch c, changes := before[file.Path]; {
		case slices.Contains(hidden, file.Path):
			if !utf8.Valid(file.Data) {
				return nil, "a test file is not Unicode", nil
			}
			restore = append(restore, sdk.Change{Path: file.Path, Data: file.Data, Exec: file.Exec})
			tests[file.Path] = string(file.Data)
			continue
		case changes && c.Deleted:
			continue
		case changes:
			file.Data = c.Data
		}
		r.Workspace.Files = append(r.Workspace.Files, file)
	}
	for i, c := range broken {
		if fixed[i].Deleted && !c.Deleted {
			r.Workspace.Files = append(r.Workspace.Files, sdk.File{Path: c.Path, Data: c.Data, Exec: c.Exec})
		}
	}
	slices.SortFunc(r.Workspace.Files, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	r.Workspace.Env = m.whole.Env
	r.TestPatch = patch.Diff(func(string) ([]byte, bool) { return nil, false }, restore)
	r.Patch = patch.Diff(was, fixed)
	for _, f := range bug.Targets {
		r.Targets = append(r.Targets, sdk.Target{Path: f.Path, Name: f.Name, Line: int64(f.Line)})
	}
	r.Meta = append(r.Meta, bug.Meta...)
	r.Meta = append(r.Meta, sdk.Pair{Key: "runner", Value: m.lab.Runner.Name}, sdk.Pair{Key: "package", Value: m.tree.Name})

	symptoms := symptom.Read(r.LogParser, bug.Log, r.FailToPass, tests)
	if r.Problem = bug.Problem; r.Problem == "" {
		r.Problem = symptom.Issue(symptoms, r.Language, len(r.FailToPass)-1, grade.Hash(m.Seed, r.ID))
	}
	if r.Problem == "" {
		return nil, "the log of the failing tests says nothing", nil
	}

	checks := 1 // the same command ran as often as it takes; an evaluator's own has not
	if _, own := grade.Interpreter(r); own {
		checks = m.Repeats
	}
	for repeat := range checks {
		gold, err := m.lab.Verify(ctx, r, fixed, repeat)
		if err != nil {
			return nil, "", err
		}
		if !gold.Solved {
			return nil, "the gold patch does not pass as it is graded", nil
		}
		none, err := m.lab.Verify(ctx, r, nil, repeat)
		if err != nil {
			return nil, "", err
		}
		if none.Solved {
			return nil, "the broken tree passes as it is graded", nil
		}
	}
	w := trial.NewWorkspace(r.Workspace)
	if err := m.unitTest(ctx, r, w, fixed, hidden, mutants); err != nil {
		return nil, "", err
	}
	if err := m.reproduction(ctx, r, w, fixed, symptoms); err != nil {
		return nil, "", err
	}
	m.candidates(r, before, fixed, mutants)
	return r, "", nil
}

// candidates are the gold patch, and patches that mend the bug and leave another one:
// the tests caught each when it was tried.
func (m *Bench) candidates(r *sdk.Record, before map[string]sdk.Change, fixed []sdk.Change, mutants []Mutant) {
	r.Candidates = []sdk.Candidate{{Patch: r.Patch, Correct: true, Origin: "gold"}}
	was := func(p string) ([]byte, bool) { return before[p].Data, !before[p].Deleted }
	for _, i := range grade.Order(len(mutants), m.Seed, "candidates "+r.ID) {
		k := mutants[i]
		if len(r.Candidates) > maxWrong {
			return
		}
		if string(before[k.Path].Data) == string(k.data) || !slices.ContainsFunc(k.caught, func(id string) bool {
			return slices.Contains(r.FailToPass, id) || slices.Contains(r.PassToPass, id)
		}) {
			continue
		}
		changes := slices.Clone(fixed)
		at := slices.IndexFunc(changes, func(c sdk.Change) bool { return c.Path == k.Path })
		if at < 0 {
			continue
		}
		changes[at].Data = k.data
		r.Candidates = append(r.Candidates, sdk.Candidate{Patch: patch.Diff(was, changes), Origin: "mutated-gold"})
	}
}

// unitTest fills in what the unit-test skill needs: the test file that catches most
// mutants, as it was, is what an agent is to write again.
func (m *Bench) unitTest(ctx context.Context, r *sdk.Record, w *trial.Workspace, fixed []sdk.Change, hidden []string, mutants []Mutant) error {
	if len(mutants) == 0 {
		return nil
	}
	// One task asks for tests of what one file defines.
	source := mutants[0].Path
	at := slices.IndexFunc(fixed, func(c sdk.Change) bool { return c.Path == source })
	if at < 0 {
		return nil
	}
	mutants = slices.DeleteFunc(slices.Clone(mutants), func(k Mutant) bool { return k.Path != source })
	var names []string
	for _, t := range r.Targets {
		names = append(names, t.Name)
	}
	kills := map[string]int{}
	for _, k := range mutants {
		for _, file := range m.filesOf(k.caught) {
			kills[file]++
		}
	}
	files := slices.DeleteFunc(slices.Clone(hidden), func(p string) bool { return kills[p] == 0 })
	slices.SortStableFunc(files, func(a, b string) int { return kills[b] - kills[a] })
	for _, file := range files[:min(len(files), 3)] {
		shell := m.lab.Runner.UnitTestLine(file)
		reference := sdk.Change{Path: file, Data: m.tree.At(file)}
		tree := func(data []byte, repeat int) []sdk.Change {
			if repeat%2 == 1 {
				data = grade.Reword(source, data, names...)
			}
			changes := append(slices.Clone(fixed), reference)
			changes[at].Data = data
			return changes
		}
		good := true
		for repeat := range 2 { // as it is, and reworded
			o, err := m.lab.Succeeds(ctx, w, tree(fixed[at].Data, repeat), shell, repeat)
			if err != nil {
				return err
			}
			if o.Exit != 0 || o.TimedOut {
				good = false
				break
			}
		}
		if !good {
			continue
		}
		var kept []sdk.Mutant
		for _, i := range grade.Order(len(mutants), m.Seed, "mutants "+r.ID) {
			k := mutants[i]
			if len(kept) == maxMutants {
				break
			}
			if !slices.Contains(m.filesOf(k.caught), file) {
				continue
			}
			caught := true
			for repeat := range 2 {
				if repeat == 1 && bytes.Equal(grade.Reword(source, k.data, names...), k.data) {
					break // of another language than Python
				}
				o, err := m.lab.Succeeds(ctx, w, tree(k.data, repeat), shell, repeat)
				if err != nil {
					return err
				}
				caught = caught && o.Exit != 0 && !o.TimedOut
			}
			if caught {
				kept = append(kept, sdk.Mutant{ID: Label(k.Function) + "-" + strconv.Itoa(k.nth+1), Target: k.Function,
					Files: []sdk.File{{Path: source, Data: k.data, Exec: fixed[at].Exec}}})
			}
		}
		if len(kept) == 0 {
			continue
		}
		r.UnitTestFile, r.UnitTestCommand = file, shell
		r.TestReference, r.Mutants = string(reference.Data), kept
		return nil
	}
	return nil
}

// filesOf gives the test files that tests are in, as far as that can be told.
func (m *Bench) filesOf(tests []string) []string {
	var out []string
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, u := range m.groups {
		for _, id := range tests {
			if _, ok := slices.BinarySearch(u.stable, id); !ok {
				continue
			}
			if len(u.Files) == 1 {
				add(u.Files[0])
				break
			}
			at := slices.IndexFunc(u.Files, func(file string) bool { return defines(m.tree.At(file), id) })
			if at < 0 { // a test that is made in another way
				for _, file := range u.Files {
					add(file)
				}
				break
			}
			add(u.Files[at])
		}
	}
	return out
}

var goTest = regexp.MustCompile(`(?m)^func (\w+)\(`)

// defines says whether a Go test file has the function of a test.
func defines(data []byte, id string) bool {
	for _, m := range goTest.FindAllSubmatch(data, -1) {
		if mentionsTest(id, string(m[1])) {
			return true
		}
	}
	return false
}

// mentionsTest says whether an id of go test, package.TestName/subtest, is of a function.
func mentionsTest(id, name string) bool {
	_, rest, ok := strings.Cut(id, "."+name)
	return ok && (rest == "" || rest[0] == '/')
}

// reproduction fills in a script that fails on the bug and succeeds without it.
func (m *Bench) reproduction(ctx context.Context, r *sdk.Record, w *trial.Workspace, fixed []sdk.Change, symptoms []symptom.Symptom) error {
	name, command := reproduce.File(r.Language)
	if name == "" {
		return nil
	}
	// The script shows what the issue tells, and no other of its effects.
	var tests []string
	if told, ok := symptom.Telling(symptoms); ok {
		tests = append(tests, told.Test)
	} else {
		tests = append(tests, r.FailToPass[0])
	}
	for _, id := range tests {
		for _, file := range m.filesOf([]string{id}) {
			scripts, err := reproduce.Scripts(ctx, m.lab, sdk.File{Path: file, Data: m.tree.At(file)}, id)
			if err != nil {
				return err
			}
			for _, s := range scripts {
				script := sdk.Change{Path: name, Data: []byte(s)}
				shows := true
				for repeat := range 2 {
					before, err := m.lab.Succeeds(ctx, w, []sdk.Change{script}, command, repeat)
					if err != nil {
						return err
					}
					after, err := m.lab.Succeeds(ctx, w, append(slices.Clone(fixed), script), command, repeat)
					if err != nil {
						return err
					}
					if before.Exit == 0 || before.TimedOut || before.Exit >= 126 || after.Exit != 0 || after.TimedOut {
						shows = false
						break
					}
				}
				if shows {
					r.Reproduce = s
					return nil
				}
			}
		}
	}
	return nil
}

// Skills counts, for each skill, the records that serve it, and why others do not.
type Skills map[string]map[string]int

// Served is the key under which records that serve a skill are counted.
const Served = "served"

// Count counts a record.
func (s Skills) Count(r *sdk.Record) {
	add := func(skill string, served bool, why string) {
		if s[skill] == nil {
			s[skill] = map[string]int{}
		}
		if served {
			why = Served
		}
		s[skill][why]++
	}
	add("localization", r.Patch != "", "no patch")
	add("editing", len(r.FailToPass) > 0, "no failing test")
	add("unittest", len(r.Mutants) > 0, "no single test file passes alone and catches mutants")
	wrong := slices.ContainsFunc(r.Candidates, func(c sdk.Candidate) bool { return !c.Correct })
	add("review", wrong, "no other caught mutant for a wrong candidate")
	add("repro", r.Reproduce != "", "no script could be derived from a failing test")
}

// Add counts what other counts, too.
func (s Skills) Add(other Skills) {
	for skill, why := range other {
		for reason, n := range why {
			if s[skill] == nil {
				s[skill] = map[string]int{}
			}
			s[skill][reason] += n
		}
	}
}
