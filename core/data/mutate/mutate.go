// Package mutate makes records of any tree whose tests pass: it breaks functions by
// small mistakes, keeps those that the tests catch, and writes down what the tests say.
//
// What comes out depends on the tree, the options, the seed and a model's answers, if
// one is asked, alone. Every run of tests and every answer is remembered in a journal,
// so that work that was stopped goes on where it was.
package mutate

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Options say what to make. The zero value of each field is its default.
type Options struct {
	Seed        uint64
	Count       int // records at most; 0: as many as there are
	PerFunction int // records of one function at most; default 1
	Tries       int // mistakes tried in one function; default 24
	Repeats     int // of each run that decides; default 3
	Ahead       int // functions examined at the same time; default 2
	Env         []string
	Deps        []sdk.File    // prepared dependencies, laid in runner.Deps
	Suite       time.Duration // the longest run of all tests; above it a record has only the units that matter; default 20 s
	Heard       func(Progress)
	Only        func(runner.Group) bool // limits what tests are run; nil: all
	Author      *Author                 // a model that writes mistakes; nil: operators alone make them
	Source      string                  // of the records; default "mutate"
	Commit      string                  // of the records; default a digest of the tree
}

// Progress is how far the work has come.
type Progress struct {
	Stage     string // "baseline", "mutants"
	Done, All int    // functions
	Records   int
	Tried     int
}

// Yield is what came of it.
type Yield struct {
	Source    string         `json:"source"`
	Runner    string         `json:"runner"`
	Tests     int            `json:"tests"` // that pass each time
	Dropped   []string       `json:"dropped,omitempty"`
	Functions int            `json:"functions"`
	Tried     int            `json:"tried"`             // mutants run
	Caught    int            `json:"caught"`            // by the tests
	Survived  int            `json:"survived"`          // no test noticed
	Unsound   int            `json:"unsound"`           // do not compile or load
	Endless   int            `json:"endless"`           // ran into the time limit
	Written   *Written       `json:"written,omitempty"` // by a model, if one was asked
	Records   int            `json:"records"`
	Refused   map[string]int `json:"refused,omitempty"` // functions with caught mutants and no record, by reason
	Skills    Skills         `json:"skills"`
}

// Run makes the records of a tree and hands each to sink, in an order that the seed
// decides. It blocks until all are made or ctx ends; the yield tells how far it came.
func Run(ctx context.Context, tree *source.Tree, lab *trial.Lab, o Options, sink func(context.Context, sdk.Record) error) (*Yield, error) {
	o = o.settled()
	y := &Yield{Source: tree.Name, Runner: lab.Runner.Name, Refused: map[string]int{}, Skills: Skills{}}
	if o.Author != nil {
		y.Written = new(Written)
	}
	o.Heard(Progress{Stage: "baseline"})
	m, err := NewBench(ctx, tree, lab, o)
	if err != nil {
		return y, err
	}
	y.Tests, y.Dropped = len(m.stable), m.dropped
	functions, err := Find(ctx, lab, tree.Files)
	if err != nil {
		return y, err
	}
	y.Functions = len(functions)
	order := grade.Order(len(functions), o.Seed, "functions of "+tree.Name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// Functions are examined some ahead of the one whose records come next.
	type answer struct {
		found *findings
		err   error
	}
	answers := make([]chan answer, len(order))
	begin := func(i int) {
		answers[i] = make(chan answer, 1)
		go func() {
			found, err := m.examine(ctx, &functions[order[i]])
			answers[i] <- answer{found, err}
		}()
	}
	for i := range min(o.Ahead, len(order)) {
		begin(i)
	}
	defer func() {
		cancel()
		for _, c := range answers {
			if c != nil && len(c) == 0 && cap(c) == 1 {
				select {
				case <-c:
				default:
				}
			}
		}
	}()
	for i := range order {
		var a answer
		select {
		case a = <-answers[i]:
		case <-ctx.Done():
			a.err = diag.Wrap(diag.KindInterrupted, "mutate", tree.Name, ctx.Err())
		}
		answers[i] = nil
		if a.err != nil {
			return y, a.err
		}
		y.count(a.found)
		for _, r := range a.found.records {
			if o.Count > 0 && y.Records == o.Count {
				return y, nil
			}
			if err := sink(ctx, r); err != nil {
				return y, err
			}
			y.Records++
			y.Skills.Count(&r)
		}
		o.Heard(Progress{"mutants", i + 1, len(order), y.Records, y.Tried})
		if o.Count > 0 && y.Records >= o.Count {
			return y, nil
		}
		if next := i + o.Ahead; next < len(order) {
			begin(next)
		}
	}
	return y, nil
}

func (o Options) settled() Options {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.PerFunction, 1)
	def(&o.Tries, 24)
	def(&o.Repeats, 3)
	def(&o.Ahead, 2)
	if o.Suite <= 0 {
		o.Suite = 20 * time.Second
	}
	if o.Source == "" {
		o.Source = "mutate"
	}
	if o.Heard == nil {
		o.Heard = func(Progress) {}
	}
	return o
}

func (y *Yield) count(f *findings) {
	y.Tried += f.tried
	y.Caught += f.caught
	y.Survived += f.survived
	y.Unsound += f.unsound
	y.Endless += f.endless
	if y.Written != nil {
		y.Written.add(&f.written)
	}
	if f.refused != "" {
		y.Refused[f.refused]++
	}
}

// Bench is a tree whose tests have been run, ready to be broken. It is safe for
// concurrent use.
type Bench struct {
	Options
	tree    *source.Tree
	lab     *trial.Lab
	dropped []string         // test files that are of no use, with the reason
	whole   *trial.Workspace // the tree with its dependencies, unbroken
	groups  []unit
	stable  map[string]bool
	slow    bool   // the whole suite is too long for a record
	prefix  string // in front of the test command
}

// unit is a group of test files with what the baseline says of it.
type unit struct {
	runner.Group
	stable []string // tests that pass each time
	text   string   // of its files, for what they mention
	took   time.Duration
}

// NewBench runs the tests of a tree some times and keeps those that pass each time.
// The error is of KindData where there are none.
func NewBench(ctx context.Context, tree *source.Tree, lab *trial.Lab, o Options) (*Bench, error) {
	m := &Bench{Options: o.settled(), tree: tree, lab: lab}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// Mutants gives the mistakes in a function that the tests catch.
func (m *Bench) Mutants(ctx context.Context, f *Function) ([]Mutant, error) {
	return m.mutants(ctx, f, new(findings))
}

// Stable says whether a test passes each time.
func (m *Bench) Stable(id string) bool { return m.stable[id] }

func (m *Bench) fail(format string, args ...any) error {
	return diag.Errorf(diag.KindData, "mutate", m.tree.Name, format, args...)
}

// prepare runs all tests some times and keeps those that pass each time.
func (m *Bench) prepare(ctx context.Context) error {
	files := slices.Clone(m.tree.Files)
	for _, f := range m.Deps {
		f.Path = path.Join(runner.Deps, f.Path)
		files = append(files, f)
	}
	m.whole = trial.NewWorkspace(sdk.Workspace{Files: files, Env: m.env(files)})
	if m.lab.Prepare != nil {
		if err := m.lab.Prepare(ctx, &m.whole.Workspace); err != nil {
			return err
		}
	}
	if err := m.lab.Ready(ctx, m.whole); err != nil {
		return err
	}
	groups := m.lab.Runner.Groups(m.tree.Files)
	if m.Only != nil {
		groups = slices.DeleteFunc(groups, func(g runner.Group) bool { return !m.Only(g) })
	}
	limit := 2 * time.Minute
	if m.lab.Limit > 0 {
		limit = m.lab.Limit
	}
	passed := map[string]int{}
	fine := make([]unit, 0, len(groups))
	var first []trial.Outcome
	for repeat := range m.Repeats {
		out, err := m.lab.Test(ctx, m.whole, nil, groups, nil, limit, repeat)
		if err != nil {
			return err
		}
		for i := range out {
			for _, id := range out[i].Passed {
				passed[groups[i].Name+"\x00"+id]++
			}
		}
		if repeat == 0 {
			first = out
			if len(passed) == 0 {
				break // nothing to repeat
			}
		}
	}
	m.stable = map[string]bool{}
	owners := map[string]int{}
	for key, n := range passed {
		if _, id, _ := strings.Cut(key, "\x00"); n == m.Repeats {
			owners[id]++
		}
	}
	var total time.Duration
	for i, g := range groups {
		u := unit{Group: g, took: time.Duration(first[i].Millis) * time.Millisecond}
		for _, id := range first[i].Passed {
			// A name that two units share tells nothing of either.
			if passed[g.Name+"\x00"+id] == m.Repeats && owners[id] == 1 {
				u.stable = append(u.stable, id)
				m.stable[id] = true
			}
		}
		switch {
		case first[i].TimedOut:
			m.dropped = append(m.dropped, g.Name+": does not end within "+limit.String())
			continue
		case len(u.stable) == 0:
			m.dropped = append(m.dropped, g.Name+": no test of it passes each time: "+cause(first[i].Log))
			continue
		}
		for _, f := range g.Files {
			u.text += string(m.tree.At(f))
		}
		total += u.took
		fine = append(fine, u)
	}
	m.groups = fine
	if len(m.stable) == 0 {
		why := "the tree has no test"
		if len(m.dropped) > 0 {
			why = m.dropped[0]
		}
		return m.fail("no test passes: %s", why)
	}
	m.slow = total > m.Suite
	return m.honest(ctx)
}

// honest finds out in which form of the test command the skills' evaluators see the
// same tests pass, and drops tests that they do not.
func (m *Bench) honest(ctx context.Context) error {
	for _, prefix := range []string{"", "env "} {
		m.prefix = prefix
		r := m.blank(m.groups)
		r.Workspace = m.whole.Workspace
		r.PassToPass = m.all(m.groups)
		v, err := m.lab.Verify(ctx, r, nil, 0)
		if err != nil {
			return err
		}
		if v.Solved {
			return nil
		}
		m.dropped = append(m.dropped, "as "+prefix+m.lab.Runner.Name+": "+cause(v.Reason))
	}
	return m.fail("the tests pass one by one, but not together: %s", m.dropped[len(m.dropped)-1])
}

// env is what every command of a record's workspace is given.
func (m *Bench) env(files []sdk.File) []string {
	env := slices.Concat(m.lab.Runner.Env, m.Env)
	switch m.lab.Runner.Language {
	case "python":
		var paths []string
		if slices.ContainsFunc(files, func(f sdk.File) bool {
			return strings.HasPrefix(f.Path, "src/") && strings.HasSuffix(f.Path, ".py")
		}) {
			paths = append(paths, "/workspace/src")
		}
		if len(m.Deps) > 0 {
			paths = append(paths, "/workspace/"+runner.Deps)
		}
		if len(paths) > 0 {
			env = append(env, "PYTHONPATH="+strings.Join(paths, ":"))
		}
	case "go":
		if slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == "vendor/modules.txt" }) {
			env = append(env, "GOFLAGS=-mod=vendor")
		}
	}
	return env
}

func (m *Bench) all(units []unit) []string {
	var out []string
	for _, u := range units {
		out = append(out, u.stable...)
	}
	slices.Sort(out)
	return out
}

// cause is the line of a log that tells best why tests do not run: the last that names
// an error, and without one the last of all.
func cause(log string) string {
	log = strings.TrimSpace(log)
	line := log[strings.LastIndexByte(log, '\n')+1:]
	if named := namesError.FindAllString(log, -1); len(named) > 0 {
		line = strings.TrimSpace(named[len(named)-1])
	}
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	return line
}

var namesError = regexp.MustCompile(`(?m)^(?:E +)?[\w.]*(?:Error|Exception)\b.*$`)

// relevant gives the units whose files mention a function, those that do most often
// first; all of them where none does.
func (m *Bench) relevant(f *Function) []unit {
	type counted struct {
		unit
		n int
	}
	var list []counted
	for _, u := range m.groups {
		n := words(u.text, f.bare())
		if m.lab.Runner.Unit == runner.Folder && path.Dir(f.Path) == u.Name {
			n++
		}
		if n > 0 {
			list = append(list, counted{u, n})
		}
	}
	slices.SortStableFunc(list, func(a, b counted) int { return b.n - a.n })
	if len(list) == 0 {
		return m.groups
	}
	var out []unit
	for _, c := range list {
		out = append(out, c.unit)
	}
	return out
}

// words counts a name in a text, whole.
func words(text, name string) int {
	n := 0
	for i := 0; ; {
		j := strings.Index(text[i:], name)
		if j < 0 {
			return n
		}
		j += i
		i = j + len(name)
		if (j == 0 || !letter(text[j-1])) && (i == len(text) || !letter(text[i])) {
			n++
		}
	}
}

func letter(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

func plain(units []unit) []runner.Group {
	out := make([]runner.Group, len(units))
	for i, u := range units {
		out[i] = u.Group
	}
	return out
}

// Label is s as a text that can stand in an id.
func Label(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '-'
	}, s)
}

func (m *Bench) id(f *Function, n int) string {
	return fmt.Sprintf("%s__%s-%s-%d", Label(m.tree.Name), Label(strings.TrimSuffix(f.Path, path.Ext(f.Path))), Label(f.Name), n)
}
