package pocket

import (
	"fmt"
	"strconv"
	"strings"
)

// family is a spec made ready to draw from.
type family struct {
	id     string // its first name; stable, since the splits hang on it
	names  []string
	params []string
	docs   []string
	about  []string
	body   []string // lines with {constants}
	args   []argument
	consts []constant
	gives  string
	unseen bool

	renames   []map[string]string // different ways to call the parameters; the first is empty
	mutations []mutation
}

// constant is a {K} of the body: a number from lo to hi, or one of choices.
type constant struct {
	key     byte
	lo, hi  int
	choices []string
}

// parameterNames are other names for parameters, in two styles.
var parameterNames = []map[string]string{
	{"x": "v", "n": "k", "s": "t", "w": "g", "p": "q", "xs": "ys", "ws": "us", "a": "u", "b": "v", "age": "n", "d": "z"},
	{"x": "z", "n": "m", "s": "w", "w": "t", "p": "c", "xs": "nums", "ws": "names", "a": "l", "b": "r", "y": "n", "h": "k"},
}

func newFamily(s *spec) (*family, error) {
	f := &family{
		names:  strings.Fields(s.names),
		params: strings.Fields(s.params),
		docs:   strings.Split(s.docs, "|"),
		about:  strings.Split(s.about, "|"),
		body:   strings.Split(s.body, "\n"),
		gives:  s.gives,
		unseen: s.unseen,
	}
	f.id = f.names[0]
	for _, c := range strings.Split(s.consts, ";") {
		if c == "" {
			continue
		}
		w := strings.Fields(c)
		k := constant{key: w[0][0], choices: w[1:]}
		if lo, err := strconv.Atoi(w[1]); err == nil {
			hi, err := strconv.Atoi(w[2])
			if err != nil {
				return nil, fmt.Errorf("constant %q: %w", c, err)
			}
			k = constant{key: k.key, lo: lo, hi: hi}
		}
		f.consts = append(f.consts, k)
	}
	for _, a := range strings.Fields(s.args) {
		g, err := f.argument(a)
		if err != nil {
			return nil, err
		}
		f.args = append(f.args, g)
	}
	if len(f.args) != len(f.params) {
		return nil, fmt.Errorf("%d argument kinds for %d parameters", len(f.args), len(f.params))
	}
	f.renames = f.allRenames()
	f.mutations = f.allMutations()
	return f, nil
}

func (f *family) index(key byte) int {
	for i, c := range f.consts {
		if c.key == key {
			return i
		}
	}
	return -1
}

// allRenames lists the renamings that change something and capture no other name.
func (f *family) allRenames() []map[string]string {
	used := map[string]bool{}
	words(strings.Join(f.body, "\n"), func(w string, name bool) {
		if name {
			used[w] = true
		}
	})
	for _, p := range f.params {
		used[p] = true
	}
	out := []map[string]string{{}}
	for _, style := range parameterNames {
		m := map[string]string{}
		for _, p := range f.params {
			if to, ok := style[p]; ok && !used[to] {
				m[p] = to
			}
		}
		if len(m) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// words calls yield with the pieces of text in order: names, and single bytes of
// everything else.
func words(text string, yield func(piece string, name bool)) {
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && letter(text[j], j > i) {
			j++
		}
		if j > i {
			yield(text[i:j], true)
		} else {
			j = i + 1
			yield(text[i:j], false)
		}
		i = j
	}
}

func letter(c byte, digits bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || digits && c >= '0' && c <= '9'
}

// function is a member of a family: the instance by which the splits are made.
type function struct {
	family  *family
	name    string
	rename  int   // of family.renames
	values  []int // one a constant: the number, or the index of the choice
	variant int   // which set of calls it is tested with
}

// heldOut says whether f belongs to eval and unseen (a fifth of all) or to train.
// It goes by the text, which two families may share ("w * h" and "s * n" renamed).
func (f *function) heldOut() bool {
	text := f.name + "(" + strings.Join(f.family.params, ", ") + ")\n" + strings.Join(f.family.body, "\n")
	return hash("instance", f.render(text))%5 == 0
}

// literal is constant i moved by shift: numbers add it, choices step on in the list.
func (f *function) literal(i, shift int) string {
	c, v := f.family.consts[i], f.values[i]+shift
	if n := len(c.choices); n > 0 {
		return c.choices[v%n]
	}
	return strconv.Itoa(v)
}

// fill writes the constants into a text, {K} plain and {K+1}, {K-1} moved.
func (f *function) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '{')
		if i < 0 {
			break
		}
		j := i + strings.IndexByte(text[i:], '}')
		k := f.family.index(text[i+1])
		shift, _ := strconv.Atoi(text[i+2 : j])
		b.WriteString(text[:i])
		b.WriteString(f.literal(k, shift))
		text = text[j+1:]
	}
	b.WriteString(text)
	return b.String()
}

// render fills constants in and renames the parameters. Renaming comes first: a
// constant's text is never a name.
func (f *function) render(text string) string {
	m := f.family.renames[f.rename]
	if len(m) == 0 {
		return f.fill(text)
	}
	var b strings.Builder
	words(text, func(w string, name bool) {
		if to, ok := m[w]; ok && name {
			w = to
		}
		b.WriteString(w)
	})
	return f.fill(b.String())
}

func (f *function) call(args string) string { return f.name + "(" + args + ")" }

// lines is the function's source: head, docstring with examples, body. line and
// text replace one line of the body; line -1 replaces none.
func (f *function) lines(doc string, examples []Case, line int, text string) []string {
	out := make([]string, 0, len(f.family.body)+4)
	params := f.render(strings.Join(f.family.params, ", "))
	out = append(out, "def "+f.name+"("+params+"):", `    """`+doc)
	for _, e := range examples {
		out = append(out, "    "+e.Call+" -> "+e.Want)
	}
	out[len(out)-1] += `"""`
	for i, l := range f.family.body {
		if i == line {
			l = text
		}
		out = append(out, "    "+f.render(l))
	}
	return out
}

// bodyStart is where the body begins in lines with n examples.
func bodyStart(n int) int { return 2 + n }
