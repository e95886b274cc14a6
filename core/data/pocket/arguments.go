package pocket

import (
	"fmt"
	"strconv"
	"strings"
)

// argument draws one argument as a Python literal. It contains no quote but those
// around words, and words are letters only, so that ' turned into " gives JSON.
type argument struct {
	kind string // values of one kind may stand for each other
	draw func(d *dice, f *function) string
}

var dictionary = strings.Fields("ab cat level sun tree moon apple otto kite egg bird noon river stone aa oak lamp eye")
var palindromes = strings.Fields("otto level noon egg aa eye")

func number(n int) string { return strconv.Itoa(n) }

func quoted(w string) string { return "'" + w + "'" }

// list draws from lo to hi items.
func list(d *dice, lo, hi int, item func() string) string {
	items := make([]string, d.between(lo, hi))
	for i := range items {
		items[i] = item()
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// argument makes the drawer of a kind, with the constants it stays near to after a
// colon: "near:A,B". Numbers crowd around the values where a mutation shows.
func (f *family) argument(text string) (argument, error) {
	kind, keys, _ := strings.Cut(text, ":")
	var near []int
	for _, k := range strings.Split(keys, ",") {
		if k == "" {
			continue
		}
		i := f.index(k[0])
		if i < 0 {
			return argument{}, fmt.Errorf("argument %q: no constant %s", text, k)
		}
		near = append(near, i)
	}
	numbers := func(lo, hi int) argument {
		return argument{"number", func(d *dice, _ *function) string { return number(d.between(lo, hi)) }}
	}
	chosen := func(from ...int) argument {
		return argument{"number", func(d *dice, _ *function) string { return number(pick(d, from)) }}
	}
	lists := func(lo, hi int, item func(*dice, *function) string) argument {
		return argument{"list", func(d *dice, fn *function) string {
			return list(d, lo, hi, func() string { return item(d, fn) })
		}}
	}
	within := func(lo, hi int) func(*dice, *function) string {
		return func(d *dice, _ *function) string { return number(d.between(lo, hi)) }
	}
	switch kind {
	case "int":
		return numbers(-9, 20), nil
	case "small":
		return numbers(0, 4), nil
	case "few":
		return numbers(0, 3), nil
	case "positive":
		return numbers(1, 9), nil
	case "ring":
		return numbers(2, 6), nil
	case "low":
		return numbers(-5, 4), nil
	case "high":
		return numbers(5, 12), nil
	case "tens":
		return argument{"number", func(d *dice, _ *function) string { return number(10 * d.between(0, 30)) }}, nil
	case "signed":
		return chosen(0, 0, 1, 1, -1, -1, 2, -2, 3, -4, 5, -6, 7, -8, 9), nil
	case "year":
		return chosen(4, 8, 100, 200, 300, 7, 9, 96, 1900, 2024, 2023, 2000, 12, 50, 101, 400, 404, 1999), nil
	case "near":
		return argument{"number", func(d *dice, fn *function) string {
			v := fn.values[pick(d, near)]
			if d.percent(60) {
				return number(v + d.between(-1, 1))
			}
			return number(v + d.between(-6, 8))
		}}, nil
	case "multiple":
		return argument{"number", func(d *dice, fn *function) string {
			return number(fn.values[near[0]]*d.between(0, 3) + pick(d, []int{0, 1, -1, 2}))
		}}, nil
	case "list":
		if len(near) > 0 {
			return lists(1, 3, func(d *dice, fn *function) string {
				return number(fn.values[near[0]] + pick(d, []int{-2, -1, 0, 1, 3}))
			}), nil
		}
		return lists(2, 4, within(0, 9)), nil
	case "list0":
		return lists(0, 4, within(0, 9)), nil
	case "zeros":
		return lists(2, 4, func(d *dice, _ *function) string { return number(pick(d, []int{0, 0, 1, 1, -1, 2, -3, 4, 5})) }), nil
	case "repeats":
		return lists(2, 4, within(0, 3)), nil
	case "pair":
		return lists(2, 3, within(0, 5)), nil
	case "word":
		return argument{"word", func(d *dice, _ *function) string { return quoted(pick(d, dictionary)) }}, nil
	case "mirror":
		return argument{"word", func(d *dice, _ *function) string {
			if d.percent(50) {
				return quoted(pick(d, palindromes))
			}
			return quoted(pick(d, dictionary))
		}}, nil
	case "words":
		return argument{"words", func(d *dice, _ *function) string {
			return list(d, 1, 3, func() string { return quoted(pick(d, dictionary)) })
		}}, nil
	}
	return argument{}, fmt.Errorf("argument %q: no such kind", text)
}

// calls draws n different argument lists, or fewer where a family has no more.
// They depend on the constants and the variant alone.
func (f *function) calls(n int) []string {
	d := newDice("calls", f.family.id, f.values, f.variant)
	seen := map[string]bool{}
	out := make([]string, 0, n)
	args := make([]string, len(f.family.args))
	for try := 0; len(out) < n && try < 8*n; try++ {
		for i, a := range f.family.args {
			args[i] = a.draw(d, f)
		}
		if c := strings.Join(args, ", "); !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}
