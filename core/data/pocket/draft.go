package pocket

import (
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// world is the families and the options of one call of Generate.
type world struct {
	Options
	families []*family // what may stand in a package
	breaking []*family // what may be broken

	// Of families without constants, the split's functions without a compound
	// name: few, or none.
	plain map[*family][]function
}

func newWorld(o Options) (*world, error) {
	w := &world{Options: o, plain: map[*family][]function{}}
	for i := range specs {
		f, err := newFamily(&specs[i])
		if err != nil {
			return nil, diag.Wrap(diag.KindData, "generate pocket records", "family "+specs[i].names, err)
		}
		if o.Split == SplitUnseen || !f.unseen {
			w.families = append(w.families, f)
			w.plain[f] = w.plainFunctions(f)
		}
		if f.unseen == (o.Split == SplitUnseen) {
			w.breaking = append(w.breaking, f)
		}
	}
	return w, nil
}

var (
	moduleNames = strings.Fields("util core text shop price math_ops lists words calc team orders data names tools rules stock")
	syllables   = strings.Fields("sun map key row log bar net pin tag box fit run mix get set low big hot new old cut add sub min top end day bit sum red")
)

// phrasings are the ways in which an issue tells a bug: call with wrong and right
// value, with the right one, with the wrong one, the function's name, what the
// function is about.
const (
	phraseFull = "full"
	phraseWant = "want"
	phraseGot  = "got"
	phraseName = "name"
	phraseBeh  = "beh"
)

// part is a function at its place in a draft.
type part struct {
	module int
	fn     *function
	facts  *measured // filled in by meter.measure
}

// draft is a record before its values are known.
type draft struct {
	n         int
	dice      *dice // goes on where drawing ended
	modules   []string
	parts     []*part // module by module
	bugs      []*part
	phrasings []string // one a bug
}

// draw makes the attempt-th draft of record n; it depends on nothing else.
func (w *world) draw(n, attempt int) *draft {
	d := newDice("record", w.Seed, w.Split, w.Shape, n, attempt)
	r := &draft{n: n, dice: d}
	compound := d.percent(50)
	if w.Shape == ShapeModule {
		r.modules = []string{pick(d, moduleNames)}
		r.bugs = []*part{w.add(r, 0, w.breaking, compound)}
		if d.percent(20) {
			w.add(r, 0, brief(w.families), d.percent(50))
			if d.percent(50) {
				slices.Reverse(r.parts)
			}
		}
		r.phrasings = []string{pick(d, []string{phraseFull, phraseWant, phraseGot, phraseName, phraseBeh})}
		return r
	}
	r.modules = sample(d, moduleNames, d.between(3, 4))
	bugs := 1
	if d.percent(30) {
		bugs = 2
	}
	order := make([]int, len(r.modules))
	for i := range order {
		order[i] = i
	}
	shuffle(d, order)
	for m := range r.modules {
		size := d.between(2, 3)
		broken := -1
		if slices.Contains(order[:bugs], m) {
			broken = d.below(size)
		}
		for i := range size {
			from := w.families
			if i == broken {
				from = w.breaking
			}
			p := w.add(r, m, from, compound)
			if i == broken {
				r.bugs = append(r.bugs, p)
			}
		}
	}
	shuffle(d, r.bugs)
	for i := range r.bugs {
		choice := []string{phraseName, phraseBeh, phraseBeh}
		switch {
		case compound && i == 0:
			choice = []string{phraseName, phraseFull}
		case compound:
			choice = []string{phraseName}
		case i > 0:
			choice = []string{phraseName, phraseBeh}
		}
		r.phrasings = append(r.phrasings, pick(d, choice))
	}
	return r
}

// brief keeps the families with bodies of one line, so that a second function
// leaves a module small.
func brief(from []*family) []*family {
	var out []*family
	for _, f := range from {
		if len(f.body) == 1 {
			out = append(out, f)
		}
	}
	return out
}

// add puts a function of a family new to r into a module.
func (w *world) add(r *draft, module int, from []*family, compound bool) *part {
	for {
		f := pick(r.dice, from)
		if slices.ContainsFunc(r.parts, func(p *part) bool { return p.fn.family == f }) {
			continue
		}
		fn := w.instance(r.dice, f, compound)
		if fn == nil || slices.ContainsFunc(r.parts, func(p *part) bool { return p.fn.name == fn.name }) {
			continue
		}
		p := &part{module: module, fn: fn}
		r.parts = append(r.parts, p)
		return p
	}
}

func (w *world) plainFunctions(f *family) []function {
	if len(f.consts) > 0 {
		return nil
	}
	var out []function
	for _, name := range f.names {
		for r := range f.renames {
			if fn := (function{family: f, name: name, rename: r}); w.holds(&fn) {
				out = append(out, fn)
			}
		}
	}
	return out
}

// holds says whether a function belongs to the split.
func (w *world) holds(fn *function) bool { return fn.heldOut() == (w.Split != SplitTrain) }

// instance draws a function of the split; nil if there is none without a compound
// name.
func (w *world) instance(d *dice, f *family, compound bool) *function {
	const (
		variants      = 32 // sets of calls of a family without constants
		variantsConst = 2  // of each choice of constants
	)
	if !compound && len(f.consts) == 0 {
		if len(w.plain[f]) == 0 {
			return nil
		}
		fn := pick(d, w.plain[f])
		fn.variant = d.below(variants)
		return &fn
	}
	for range 60 {
		fn := &function{family: f, name: pick(d, f.names), rename: d.below(len(f.renames))}
		if compound {
			fn.name = pick(d, syllables) + "_" + pick(d, syllables)
		}
		for _, c := range f.consts {
			if len(c.choices) > 0 {
				fn.values = append(fn.values, d.below(len(c.choices)))
			} else {
				fn.values = append(fn.values, d.between(c.lo, c.hi))
			}
		}
		fn.variant = d.below(variants)
		if len(f.consts) > 0 {
			fn.variant %= variantsConst
		}
		if w.holds(fn) {
			return fn
		}
	}
	return nil
}
