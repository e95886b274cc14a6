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

// blank is a record of the tree without a fault in it.
func (m *maker) blank(units []unit) *sdk.Record {
	r := &sdk.Record{
		Repo: m.tree.Repo, BaseCommit: m.tree.Digest()[:40], Source: "mutate", Language: m.lab.Runner.Language,
		LogParser: m.lab.Runner.Parser,
	}
	for _, u := range units {
		r.TestFiles = append(r.TestFiles, u.Files...)
	}
	r.TestCommand = m.prefix + m.lab.Runner.Line(r.TestFiles...)
	return r
}

// record makes the record of one bug; nil, with the reason, where it cannot be had.
func (m *maker) record(ctx context.Context, f *Function, near []unit, bug mutant, mutants []mutant, n int) (*sdk.Record, string, error) {
	units := m.groups
	if m.slow {
		units = near
	}
	r := m.blank(units)
	r.ID = m.id(f, n)
	broken := sdk.Change{Path: f.Path, Data: bug.data}

	// What the whole suite says of the bug, each time.
	failing, passing := map[string]int{}, map[string]int{}
	for repeat := range m.Repeats {
		outcomes, err := m.lab.Test(ctx, m.whole, []sdk.Change{broken}, plain(units), m.stable, 0, repeat)
		if err != nil {
			return nil, "", err
		}
		for i, o := range outcomes {
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
		switch m.Repeats {
		case failing[id]:
			r.FailToPass = append(r.FailToPass, id)
		case passing[id]:
			r.PassToPass = append(r.PassToPass, id)
		}
	}
	if len(r.FailToPass) == 0 {
		return nil, "no test fails each time", nil
	}

	// Out of sight go the test files that have a test of the function: all that some
	// mutant of it fails.
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
		switch {
		case slices.Contains(hidden, file.Path):
			if !utf8.Valid(file.Data) {
				return nil, "a test file is not Unicode", nil
			}
			restore = append(restore, sdk.Change{Path: file.Path, Data: file.Data, Exec: file.Exec})
			tests[file.Path] = string(file.Data)
			continue
		case file.Path == f.Path:
			broken.Exec = file.Exec
			file.Data = bug.data
		}
		r.Workspace.Files = append(r.Workspace.Files, file)
	}
	r.Workspace.Env = m.whole.Env
	absent := func(string) ([]byte, bool) { return nil, false }
	r.TestPatch = patch.Diff(absent, restore)
	fixed := sdk.Change{Path: f.Path, Data: m.tree.At(f.Path), Exec: broken.Exec}
	if !utf8.Valid(fixed.Data) {
		return nil, "the source file is not Unicode", nil
	}
	r.Patch = patch.Diff(func(string) ([]byte, bool) { return bug.data, true }, []sdk.Change{fixed})
	r.Targets = []sdk.Target{{Path: f.Path, Name: f.Name, Line: int64(f.Line)}}
	r.Meta = []sdk.Pair{{Key: "operator", Value: bug.Operator}, {Key: "runner", Value: m.lab.Runner.Name}, {Key: "package", Value: m.tree.Name}}

	symptoms := symptom.Read(r.LogParser, bug.log, r.FailToPass, tests)
	r.Problem = symptom.Issue(symptoms, r.Language, len(r.FailToPass)-1, grade.Hash(m.Seed, r.ID))
	if r.Problem == "" {
		return nil, "the log of the failing tests says nothing", nil
	}

	checks := 1 // the same command ran as often as it takes; an evaluator's own has not
	if _, own := grade.Interpreter(r); own {
		checks = m.Repeats
	}
	for repeat := range checks {
		gold, err := m.lab.Verify(ctx, r, []sdk.Change{fixed}, repeat)
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
	if err := m.unitTest(ctx, r, w, f, fixed, hidden, mutants); err != nil {
		return nil, "", err
	}
	if err := m.reproduction(ctx, r, w, fixed, symptoms); err != nil {
		return nil, "", err
	}
	m.candidates(r, f, bug, mutants)
	return r, "", nil
}

// candidates are the gold patch, and patches that mend the bug and leave another one:
// the tests caught each when it was tried.
func (m *maker) candidates(r *sdk.Record, f *Function, bug mutant, mutants []mutant) {
	r.Candidates = []sdk.Candidate{{Patch: r.Patch, Correct: true, Origin: "gold"}}
	for _, k := range pickOthers(mutants, bug, m.Seed, "candidates "+r.ID) {
		if len(r.Candidates) > maxWrong {
			return
		}
		if !slices.ContainsFunc(k.caught, func(id string) bool {
			return slices.Contains(r.FailToPass, id) || slices.Contains(r.PassToPass, id)
		}) {
			continue
		}
		diff := patch.Diff(func(string) ([]byte, bool) { return bug.data, true }, []sdk.Change{{Path: f.Path, Data: k.data}})
		r.Candidates = append(r.Candidates, sdk.Candidate{Patch: diff, Origin: "mutated-gold"})
	}
}

// unitTest fills in what the unit-test skill needs: the test file that catches most
// mutants, as it was, is what an agent is to write again.
func (m *maker) unitTest(ctx context.Context, r *sdk.Record, w *trial.Workspace, f *Function, fixed sdk.Change, hidden []string, mutants []mutant) error {
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
				data = grade.Reword(f.Path, data, f.Name)
			}
			return []sdk.Change{{Path: f.Path, Data: data, Exec: fixed.Exec}, reference}
		}
		good := true
		for repeat := range 2 { // as it is, and reworded
			o, err := m.lab.Succeeds(ctx, w, tree(fixed.Data, repeat), shell, repeat)
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
		for _, k := range pickOthers(mutants, mutant{}, m.Seed, "mutants "+r.ID) {
			if len(kept) == maxMutants {
				break
			}
			if !slices.Contains(m.filesOf(k.caught), file) {
				continue
			}
			caught := true
			for repeat := range 2 {
				if repeat == 1 && bytes.Equal(grade.Reword(f.Path, k.data, f.Name), k.data) {
					break // of another language than Python
				}
				o, err := m.lab.Succeeds(ctx, w, tree(k.data, repeat), shell, repeat)
				if err != nil {
					return err
				}
				caught = caught && o.Exit != 0 && !o.TimedOut
			}
			if caught {
				kept = append(kept, sdk.Mutant{ID: label(f.bare()) + "-" + strconv.Itoa(k.nth+1), Target: f.Name,
					Files: []sdk.File{{Path: f.Path, Data: k.data, Exec: fixed.Exec}}})
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
func (m *maker) filesOf(tests []string) []string {
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
func (m *maker) reproduction(ctx context.Context, r *sdk.Record, w *trial.Workspace, fixed sdk.Change, symptoms []symptom.Symptom) error {
	name, command := reproduce.File(r.Language)
	if name == "" {
		return nil
	}
	tests := []string{}
	for _, s := range symptoms {
		tests = append(tests, s.Test)
	}
	for _, id := range r.FailToPass {
		if !slices.Contains(tests, id) {
			tests = append(tests, id)
		}
	}
	for _, id := range tests[:min(len(tests), 2)] {
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
					after, err := m.lab.Succeeds(ctx, w, []sdk.Change{fixed, script}, command, repeat)
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

func (s Skills) count(r *sdk.Record) {
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
