package mine

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/data/mutate"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Options say what to look for. The zero value of each field is its default.
type Options struct {
	mutate.Options          // of the records, and of the mistakes tried in what a commit changes
	From           string   // the commit to begin at; default HEAD
	Commits        int      // commits looked at, at most; 0: all
	Paths          []string // only commits whose sources and tests all lie below these; none: all
	Files          int      // source files that a commit changes, at most; default 8
	Packages       int      // of Go: packages beyond the standard library that a folder with its tests imports, at most; default 100
	Issues         Issues   // nil: there are none
	Runners        runner.Table
	Runner         string // by name; "": the first that fits
	Lab            func(*runner.Runner) *trial.Lab
	Told           func(Progress)
}

// Progress is how far the work has come.
type Progress struct {
	Done, All int // commits
	Records   int
	Commit    string
}

// Yield is what came of it.
type Yield struct {
	Repository string         `json:"repository"`
	Commits    int            `json:"commits"`
	Candidates int            `json:"candidates"` // change sources and tests
	Records    int            `json:"records"`
	Refused    map[string]int `json:"refused,omitempty"` // commits, by reason
	Skills     mutate.Skills  `json:"skills"`
}

// refusal says why a commit gives no record. It is no failure.
type refusal string

func (r refusal) Error() string { return string(r) }

// Run makes records of the commits of a repository, the newest first, and hands each
// to sink. It blocks until all are made or ctx ends.
func Run(ctx context.Context, dir string, o Options, sink func(context.Context, sdk.Record) error) (*Yield, error) {
	if o.From == "" {
		o.From = "HEAD"
	}
	if o.Files <= 0 {
		o.Files = 8
	}
	if o.Packages <= 0 {
		o.Packages = 100
	}
	if o.Told == nil {
		o.Told = func(Progress) {}
	}
	r, err := openRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	y := &Yield{Repository: r.name(), Refused: map[string]int{}, Skills: mutate.Skills{}}
	commits, err := r.history(ctx, o.From, o.Commits, o.Paths)
	if err != nil {
		return y, err
	}
	m := &miner{Options: o, repository: r, home: r.home(ctx)}
	for i, c := range commits {
		o.Told(Progress{i, len(commits), y.Records, c.id})
		y.Commits++
		rec, err := m.commit(ctx, c, y)
		var no refusal
		switch {
		case errors.As(err, &no):
			y.Refused[string(no)]++
			continue
		case err != nil:
			return y, err
		}
		if err := sink(ctx, *rec); err != nil {
			return y, err
		}
		y.Records++
		y.Skills.Count(rec)
		if o.Count > 0 && y.Records == o.Count {
			break
		}
	}
	o.Told(Progress{y.Commits, len(commits), y.Records, ""})
	return y, nil
}

type miner struct {
	Options
	repository *repository
	home       string // where it is developed; "" if it does not say
}

// split is what a commit changes, by kind.
type split struct {
	sources, tests, other []delta
}

func divide(r *runner.Runner, changes []delta) split {
	var s split
	for _, d := range changes {
		switch {
		case r.IsTest(d.path), testData(d.path):
			s.tests = append(s.tests, d)
		case r.IsSource(d.path):
			s.sources = append(s.sources, d)
		default:
			s.other = append(s.other, d)
		}
	}
	return s
}

// testData says whether a path is of what tests read.
func testData(p string) bool {
	for part := range strings.SplitSeq(path.Dir(p), "/") {
		if part == "testdata" || part == "tests" || part == "test" {
			return true
		}
	}
	return false
}

// below says whether a path is p or lies below it.
func below(path, p string) bool {
	p = strings.TrimSuffix(p, "/")
	return path == p || strings.HasPrefix(path, p+"/")
}

// prose says whether a path cannot matter to tests.
func prose(p string) bool {
	switch path.Ext(p) {
	case ".md", ".rst", ".txt", ".png", ".svg", ".jpg", ".gif", ".pdf":
		return true
	}
	return strings.HasPrefix(p, "docs/") || strings.HasPrefix(p, ".github/")
}

// commit makes the record of one commit.
func (m *miner) commit(ctx context.Context, c commit, y *Yield) (*sdk.Record, error) {
	changes, err := m.repository.changes(ctx, c)
	if err != nil {
		return nil, err
	}
	// A repository may have tests of several runners; what can be told from paths alone
	// is told before a tree is read.
	var after *source.Tree
	var run *runner.Runner
	var s split
	for _, r := range m.Runners {
		if m.Runner != "" && m.Runner != r.Name {
			continue
		}
		s = divide(r, changes)
		if len(s.sources) == 0 || !slices.ContainsFunc(s.tests, func(d delta) bool { return d.status != 'D' && r.IsTest(d.path) }) {
			continue
		}
		if after == nil {
			if after, err = m.repository.tree(ctx, c.id); err != nil {
				return nil, err
			}
		}
		if r.Fits(after.Files) {
			run = r
			break
		}
	}
	switch {
	case run == nil:
		return nil, refusal("does not change both sources and tests")
	case len(s.sources) > m.Files:
		return nil, refusal("changes too many source files")
	case !slices.ContainsFunc(s.sources, func(d delta) bool { return d.status == 'M' }):
		return nil, refusal("only makes or removes source files")
	}
	for _, d := range slices.Concat(s.sources, s.tests) {
		if len(m.Paths) > 0 && !slices.ContainsFunc(m.Paths, func(p string) bool { return below(d.path, p) }) {
			return nil, refusal("changes sources or tests beside the paths")
		}
		if d.mode != "100644" && d.mode != "100755" {
			return nil, refusal("changes a link or a submodule")
		}
	}
	y.Candidates++
	before, err := m.repository.tree(ctx, c.parent)
	if err != nil {
		return nil, err
	}
	return m.record(ctx, c, run, s, before, after)
}

func (m *miner) record(ctx context.Context, c commit, run *runner.Runner, s split, before, after *source.Tree) (*sdk.Record, error) {
	after.Identify(m.repository.dir)
	after.Name = m.repository.name()
	if m.home != "" {
		after.Repo = m.home
	}
	// Tests of the units that the commit touches, by their own files or by the sources
	// beside them.
	touched := map[string]bool{}
	for _, d := range s.tests {
		if run.IsTest(d.path) && d.status != 'D' {
			touched[unit(run, d.path)] = true
		}
	}
	if run.Unit == runner.Folder {
		for _, d := range s.sources {
			touched[path.Dir(d.path)] = true
		}
	}
	if run.Language == "go" {
		if err := m.light(ctx, after, touched); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.tests, func(d delta) bool { return run.IsTest(d.path) && d.status != 'D' && touched[unit(run, d.path)] }) {
			return nil, refusal("its tests import too many packages")
		}
	}
	o := m.Options.Options
	o.Source, o.Commit = "git", c.parent
	o.Only = func(g runner.Group) bool { return touched[g.Name] }
	if run.Unit == runner.File {
		o.Only = nil
	}
	if run.Language == "go" {
		folders := []string{}
		for name := range touched {
			folders = append(folders, "./"+name)
		}
		slices.Sort(folders)
		vendored, err := source.Vendor(ctx, after, folders)
		if err != nil {
			if diag.KindOf(err) == diag.KindInterrupted {
				return nil, err
			}
			return nil, refusal("its modules are not in the host's module cache")
		}
		after = vendored
	}
	lab := m.Lab(run)
	bench, err := mutate.NewBench(ctx, after, lab, o)
	if diag.KindOf(err) == diag.KindData {
		var missing *diag.Diagnostic
		if errors.As(err, &missing) {
			return nil, err // the sandbox lacks what every commit needs
		}
		return nil, refusal("no test of it passes each time")
	}
	if err != nil {
		return nil, err
	}
	bug := mutate.Bug{
		ID:   mutate.Label(after.Name) + "__" + c.id[:12],
		Near: run.Groups(after.Files),
		Meta: []sdk.Pair{{Key: "commit", Value: c.id}},
	}
	bug.Near = slices.DeleteFunc(bug.Near, func(g runner.Group) bool { return !touched[g.Name] })
	for _, d := range slices.Concat(s.sources, s.other) {
		if prose(d.path) || d.mode != "100644" && d.mode != "100755" {
			continue
		}
		if d.status != 'A' && before.At(d.path) == nil || d.status != 'D' && after.At(d.path) == nil {
			return nil, refusal("changes a file that trees leave out")
		}
		change := sdk.Change{Path: d.path, Data: before.At(d.path)}
		if d.status == 'A' {
			change = sdk.Change{Path: d.path, Deleted: true}
		}
		bug.Changes = append(bug.Changes, change)
	}
	if bug.Passing, err = m.passedBefore(ctx, lab, run, before, after, touched); err != nil {
		return nil, err
	}
	functions, err := mutate.Find(ctx, lab, only(after.Files, s.sources))
	if err != nil {
		return nil, err
	}
	bug.Targets = changed(functions, before, after)
	var mutants []mutate.Mutant
	for i := range bug.Targets {
		if i == 3 {
			break // a commit that changes many functions is tested by its own tests well enough
		}
		more, err := bench.Mutants(ctx, &bug.Targets[i])
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, more...)
	}
	if m.Issues != nil {
		bug.Problem = m.Issues.Of(c.message)
	}
	rec, why, err := bench.Record(ctx, bug, mutants)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refusal(why)
	}
	if len(rec.PassToPass) == 0 {
		return nil, refusal("no test passes before and after")
	}
	from := "tests"
	if bug.Problem != "" {
		from = "issue"
	}
	rec.Meta = append(rec.Meta, sdk.Pair{Key: "problem", Value: from})
	return rec, nil
}

// light leaves the folders whose tests every sandbox can compile in bearable time.
func (m *miner) light(ctx context.Context, tree *source.Tree, touched map[string]bool) error {
	maps.DeleteFunc(touched, func(folder string, _ bool) bool {
		return !slices.ContainsFunc(tree.Files, func(f sdk.File) bool { return path.Dir(f.Path) == folder && strings.HasSuffix(f.Path, "_test.go") })
	})
	imports, err := source.Imports(ctx, tree, slices.Sorted(maps.Keys(touched)))
	if diag.KindOf(err) == diag.KindData {
		return refusal("the go command cannot read its packages")
	}
	if err != nil {
		return err
	}
	maps.DeleteFunc(touched, func(folder string, _ bool) bool { return imports[folder] > m.Packages })
	return nil
}

// passedBefore tells which tests pass on the parent with the parent's own tests: new
// tests may keep a whole package from compiling there, which is no fault of the others.
func (m *miner) passedBefore(ctx context.Context, lab *trial.Lab, run *runner.Runner, before, after *source.Tree, touched map[string]bool) (func(string) bool, error) {
	var groups []runner.Group
	for _, g := range run.Groups(before.Files) {
		if touched[g.Name] {
			groups = append(groups, g)
		}
	}
	passed := map[string]bool{}
	if len(groups) > 0 {
		files := before.Files
		for _, f := range after.Files { // what was vendored for the one serves the other
			if strings.HasPrefix(f.Path, "vendor/") && before.At("vendor/modules.txt") == nil {
				files = append(files[:len(files):len(files)], f)
			}
		}
		env := slices.Clone(run.Env)
		if slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == "vendor/modules.txt" }) {
			env = append(env, "GOFLAGS=-mod=vendor")
		}
		out, err := lab.Test(ctx, trial.NewWorkspace(sdk.Workspace{Files: files, Env: env}), nil, groups, nil, 0, 0)
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			for _, id := range o.Passed {
				passed[id] = true
			}
		}
	}
	return func(id string) bool { return passed[id] }, nil
}

func unit(run *runner.Runner, p string) string {
	if run.Unit == runner.Folder {
		return path.Dir(p)
	}
	return p
}

func only(files []sdk.File, deltas []delta) []sdk.File {
	var out []sdk.File
	for _, f := range files {
		if slices.ContainsFunc(deltas, func(d delta) bool { return d.path == f.Path && d.status != 'D' }) {
			out = append(out, f)
		}
	}
	return out
}

// changed gives the functions whose text the parent does not have.
func changed(functions []mutate.Function, before, after *source.Tree) []mutate.Function {
	var out []mutate.Function
	for _, f := range functions {
		old := before.At(f.Path)
		lines := bytes.SplitAfter(after.At(f.Path), []byte("\n"))
		if f.Line < 1 || f.End > len(lines) || old == nil {
			continue
		}
		if !bytes.Contains(old, bytes.Join(lines[f.Line-1:f.End], nil)) {
			out = append(out, f)
		}
	}
	return out
}
