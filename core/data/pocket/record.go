package pocket

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

const (
	maxMutants    = 8 // of Record.Mutants
	maxWrong      = 3 // wrong candidates of a record
	minTests      = 4 // calls of each function of a tested module
	reproduceTake = 2 // calls of Record.Reproduce beside the issue's
)

// source is one module: which lines of the fixed file belong to which function.
type source struct {
	path  string
	stem  string
	lines []string // fixed
	start map[*part]int
}

// with gives the lines with one line of p's body replaced by a mutation.
func (s *source) with(lines []string, p *part, m mutation) []string {
	out := slices.Clone(lines)
	out[s.start[p]+bodyStart(2)+m.line] = "    " + p.fn.render(m.text)
	return out
}

func text(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

// fault is a part with its bug chosen.
type fault struct {
	*part
	examples []int // of facts.args
	mutation int   // of family.mutations
	shown    outcome
}

// finish makes the record of a measured draft, or nil if it cannot be made: no
// mutation of the split shows, or not in the examples where it must.
func (w *world) finish(r *draft) *Item {
	d := r.dice
	examples := map[*part][]int{}
	for _, p := range r.parts {
		if len(p.facts.args) < minTests {
			return nil
		}
		examples[p] = telling(p.facts)
	}
	faults := make([]*fault, len(r.bugs))
	for i, p := range r.bugs {
		f := &fault{part: p, examples: examples[p]}
		visible := w.Shape == ShapeModule && (r.phrasings[i] == phraseName || r.phrasings[i] == phraseBeh)
		var choice []int
		for m := range p.facts.wrong {
			if w.breaks(p, m) && (!visible || shows(p.facts.wrong[m], f.examples)) {
				choice = append(choice, m)
			}
		}
		if len(choice) == 0 {
			return nil
		}
		f.mutation = pick(d, choice)
		f.shown = pick(d, p.facts.wrong[f.mutation])
		faults[i] = f
	}
	sources := w.sources(r, examples)
	it := &Item{}
	for i, f := range faults {
		it.Bugs = append(it.Bugs, f.bug(sources[f.module].path, r.phrasings[i]))
	}
	if !w.record(it, r, faults, sources) {
		return nil
	}
	return it
}

// breaks says whether mutation m of p may be the bug of a record of this split.
func (w *world) breaks(p *part, m int) bool {
	return len(p.facts.wrong[m]) > 0 && (w.Split == SplitUnseen || p.fn.family.mutations[m].heldOut == (w.Split == SplitEval))
}

// telling is the pair of calls by which most mutations show; among equals the
// shortest.
func telling(m *measured) []int {
	masks := make([][2]uint64, len(m.args))
	for j, wrong := range m.wrong {
		for _, o := range wrong {
			masks[o.call][j/64%2] |= 1 << (j % 64)
		}
	}
	best, out := -1<<30, []int(nil)
	for i := range masks {
		for j := range i {
			caught := bits.OnesCount64(masks[i][0]|masks[j][0]) + bits.OnesCount64(masks[i][1]|masks[j][1])
			score := caught*1000 - len(m.args[i]) - len(m.args[j]) - len(m.want[i]) - len(m.want[j])
			if score > best {
				best, out = score, []int{j, i}
			}
		}
	}
	return out
}

func shows(wrong []outcome, calls []int) bool {
	return slices.ContainsFunc(wrong, func(o outcome) bool { return slices.Contains(calls, o.call) })
}

func (p *part) cases(calls []int) []Case {
	out := make([]Case, len(calls))
	for i, c := range calls {
		out[i] = p.gold(c)
	}
	return out
}

func (p *part) gold(call int) Case {
	return Case{p.fn.call(p.facts.args[call]), p.facts.want[call]}
}

// golden is every call that is known.
func (p *part) golden() []Case {
	out := make([]Case, len(p.facts.args))
	for i := range out {
		out[i] = p.gold(i)
	}
	return out
}

func (w *world) sources(r *draft, examples map[*part][]int) []*source {
	out := make([]*source, len(r.modules))
	for i, m := range r.modules {
		out[i] = &source{path: m + ".py", stem: m, start: map[*part]int{}}
	}
	for _, p := range r.parts {
		s := out[p.module]
		if len(s.lines) > 0 {
			s.lines = append(s.lines, "")
		}
		s.start[p] = len(s.lines)
		doc := p.fn.render(pick(r.dice, p.fn.family.docs))
		s.lines = append(s.lines, p.fn.lines(doc, p.cases(examples[p]), -1, "")...)
	}
	return out
}

func (f *fault) bug(path, phrasing string) Bug {
	m := f.fn.family.mutations[f.mutation]
	return Bug{
		Path:     path,
		Name:     f.fn.name,
		Family:   f.fn.family.id,
		Phrasing: phrasing,
		Before:   "    " + f.fn.render(m.text),
		After:    "    " + f.fn.render(f.fn.family.body[m.line]),
		Case:     f.gold(f.shown.call),
		Got:      f.shown.got,
		Raises:   f.shown.raises,
		Examples: f.cases(f.examples),
		Golden:   f.golden(),
	}
}

// record fills in it.Record; false if no wrong candidate can be had.
func (w *world) record(it *Item, r *draft, faults []*fault, sources []*source) bool {
	d := r.dice
	rec := &it.Record
	*rec = sdk.Record{
		ID:       w.id(r.n),
		Source:   "pocket",
		Language: "python",

		LogParser: "unittest",
	}
	broken := make([][]string, len(sources))
	for i, s := range sources {
		broken[i] = s.lines
	}
	var issues, families, kinds []string
	for i, f := range faults {
		s := sources[f.module]
		broken[f.module] = s.with(s.lines, f.part, f.fn.family.mutations[f.mutation])
		issues = append(issues, w.issue(d, &it.Bugs[i], f.fn.family))
		families = append(families, f.fn.family.id)
		kinds = append(kinds, it.Bugs[i].Phrasing)
		rec.Targets = append(rec.Targets, sdk.Target{Path: s.path, Name: f.fn.name, Line: int64(s.start[f.part] + 1)})
	}
	rec.Problem = strings.Join(issues, " ")
	rec.Meta = []sdk.Pair{
		{Key: "family", Value: strings.Join(families, ",")}, {Key: "split", Value: w.Split},
		{Key: "phrasing", Value: strings.Join(kinds, ",")}, {Key: "shape", Value: w.Shape},
	}
	order := make([]int, len(sources))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(sources[a].path, sources[b].path) })
	var fixedTree, brokenTree []any
	modules := []string{"python3 -m unittest -v"}
	for _, i := range order {
		s := sources[i]
		rec.Workspace.Files = append(rec.Workspace.Files, sdk.File{Path: s.path, Data: text(broken[i])})
		fixedTree = append(fixedTree, s.path, string(text(s.lines)))
		brokenTree = append(brokenTree, s.path, string(text(broken[i])))
		fix := replaced(s.path, broken[i], s.lines)
		rec.Patch += fix
		if fix != "" {
			name := "test_" + s.stem
			modules = append(modules, name)
			rec.TestFiles = append(rec.TestFiles, name+".py")
			rec.TestPatch += created(name+".py", w.tests(rec, r, faults, i, name))
		}
	}
	rec.Repo = fmt.Sprintf("pocket/%012x", hash(fixedTree...)>>16)
	rec.BaseCommit = fmt.Sprintf("%016x", hash(brokenTree...))
	rec.TestCommand = strings.Join(modules, " ")

	first := faults[0]
	s := sources[first.module]
	rec.UnitTestFile = "test_" + s.stem + ".py"
	rec.UnitTestCommand = "python3 " + rec.UnitTestFile
	rec.TestReference = asserts([]string{s.stem}, first.golden())
	w.mutants(rec, d, first, s)
	rec.Reproduce = reproduce(faults, sources)

	wrong := w.wrongFixes(d, first)
	if len(wrong) == 0 {
		return false
	}
	rec.Candidates = []sdk.Candidate{{Patch: rec.Patch, Correct: true, Origin: "gold"}}
	for _, m := range wrong {
		var fix string
		for _, i := range order {
			after := sources[i].lines
			if i == first.module {
				after = s.with(after, first.part, first.fn.family.mutations[m])
			}
			fix += replaced(sources[i].path, broken[i], after)
		}
		rec.Candidates = append(rec.Candidates, sdk.Candidate{Patch: fix, Origin: "mutated-gold"})
	}
	return true
}

// tests writes the test module of a source and enters its tests into rec.
func (w *world) tests(rec *sdk.Record, r *draft, faults []*fault, module int, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "import unittest\n\nfrom %s import *\n\n\nclass T(unittest.TestCase):\n", r.modules[module])
	blank := ""
	for _, p := range r.parts {
		if p.module != module {
			continue
		}
		var wrong []outcome
		if i := slices.IndexFunc(faults, func(f *fault) bool { return f.part == p }); i >= 0 {
			wrong = p.facts.wrong[faults[i].mutation]
		}
		for i, c := range p.golden() {
			test := fmt.Sprintf("test_%s_%d", p.fn.name, i+1)
			fmt.Fprintf(&b, "%s    def %s(self):\n        self.assertEqual(%s, %s)\n", blank, test, c.Call, c.Want)
			blank = "\n"
			if shows(wrong, []int{i}) {
				rec.FailToPass = append(rec.FailToPass, name+".T."+test)
			} else {
				rec.PassToPass = append(rec.PassToPass, name+".T."+test)
			}
		}
	}
	return b.String()
}

// asserts is a script that checks cases one by one.
func asserts(modules []string, cases []Case) string {
	var b strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&b, "from %s import *\n", m)
	}
	for _, c := range cases {
		fmt.Fprintf(&b, "assert %s == %s\n", c.Call, c.Want)
	}
	return b.String()
}

// reproduce checks the issue's calls and a few more that the bugs break.
func reproduce(faults []*fault, sources []*source) string {
	var modules []string
	var cases []Case
	for _, f := range faults {
		modules = append(modules, sources[f.module].stem)
		cases = append(cases, f.gold(f.shown.call))
		take := reproduceTake
		for _, o := range f.facts.wrong[f.mutation] {
			if o.call != f.shown.call && take > 0 {
				cases = append(cases, f.gold(o.call))
				take--
			}
		}
	}
	return asserts(modules, cases)
}

// mutants enters variants of the first target: in train those that break train's
// functions, elsewhere any.
func (w *world) mutants(rec *sdk.Record, d *dice, f *fault, s *source) {
	var choice []int
	for m := range f.facts.wrong {
		if len(f.facts.wrong[m]) > 0 && (w.Split != SplitTrain || w.breaks(f.part, m)) {
			choice = append(choice, m)
		}
	}
	shuffle(d, choice)
	seen := map[string]bool{}
	for _, m := range choice {
		data := text(s.with(s.lines, f.part, f.fn.family.mutations[m]))
		if seen[string(data)] {
			continue
		}
		seen[string(data)] = true
		rec.Mutants = append(rec.Mutants, sdk.Mutant{
			ID:     fmt.Sprintf("%s-%d", f.fn.name, m+1),
			Target: f.fn.name,
			Files:  []sdk.File{{Path: s.path, Data: data}},
		})
		if len(rec.Mutants) == maxMutants {
			return
		}
	}
}

// wrongFixes lists mutations that leave the target broken in another way, those
// of the broken line first: a fix that looks at the right place. Where the split
// holds out too few mutations, eval takes others too.
func (w *world) wrongFixes(d *dice, f *fault) []int {
	ms := f.fn.family.mutations
	rank := func(m int) int {
		switch {
		case ms[m].line == f.line() && w.breaks(f.part, m):
			return 0
		case ms[m].line == f.line() && w.Split != SplitTrain:
			return 1
		case w.breaks(f.part, m):
			return 2
		}
		return 3
	}
	key := func(m int) string { return fmt.Sprint(ms[m].line, f.fn.render(ms[m].text)) }
	seen := map[string]bool{key(f.mutation): true}
	var out []int
	order := make([]int, len(ms))
	for i := range order {
		order[i] = i
	}
	shuffle(d, order)
	slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	for _, m := range order {
		if len(f.facts.wrong[m]) == 0 || seen[key(m)] || rank(m) == 3 && w.Split == SplitTrain {
			continue
		}
		seen[key(m)] = true
		if out = append(out, m); len(out) == maxWrong {
			break
		}
	}
	return out
}

func (f *fault) line() int { return f.fn.family.mutations[f.mutation].line }
