package pocket

import (
	"regexp"
	"slices"
	"strings"
)

// mutation is one way to break a family: a line of the body, rewritten. Whether it
// breaks a function is found by running it.
type mutation struct {
	line    int
	text    string // with {constants}, and {constants+1}
	heldOut bool   // breaks functions of eval and unseen only
}

// rewrites are the mutation operators that replace a text. Blanks and brackets
// around operators keep them out of words and string literals.
var rewrites = map[string][]string{
	" < ":     {" <= ", " > ", " >= "},
	" <= ":    {" < ", " >= ", " > "},
	" > ":     {" >= ", " < ", " <= "},
	" >= ":    {" > ", " <= ", " < "},
	" == ":    {" != "},
	" != ":    {" == "},
	" + ":     {" - ", " * "},
	" - ":     {" + "},
	" * ":     {" + ", " - ", " // "},
	" // ":    {" * ", " % "},
	" % ":     {" // "},
	" += ":    {" -= ", " = "},
	" and ":   {" or "},
	"if not ": {"if "},
	"max(":    {"min("},
	"min(":    {"max("},
	"any(":    {"all("},
	"all(":    {"any("},
	"(i + 1)": {"i + 1"},
	"(w + h)": {"w + h"},
	"s * n":   {"s * (n + 1)", "s * (n - 1)", "s + s", "s"},
	"w * h":   {"w * h * 2"},
	"s == s[::-1]": {
		"s[0] == s[-1]", "s == s[1:]", "s[1:] == s[::-1]"},
	"t // {A}":    {"-(-t // {A})", "(t + 1) // {A}"},
	"min(x, {A})": {"x", "{A}", "min(x, -{A})"},

	// What is gone through, and how much of it.
	" not in r":     {" in r", " not in r[-1:]"},
	" in '":         {" not in '"},
	" in xs:":       {" in xs[1:]:", " in xs[:-1]:"},
	" in xs]":       {" in xs[1:]]", " in xs[:-1]]"},
	" in xs if":     {" in xs[1:] if", " in xs[:-1] if"},
	" in xs)":       {" in xs[1:])", " in xs[:-1])"},
	" in s:":        {" in s[1:]:", " in s[:-1]:"},
	" in ws:":       {" in ws[1:]:", " in ws[:-1]:"},
	"ws)":           {"ws[1:])", "ws[:-1])"},
	"xs, xs[":       {"xs[1:], xs["},
	"enumerate(xs)": {"enumerate(xs, 1)", "enumerate(xs[1:])"},
	"[1:]":          {"[:1]", "[:-1]", ""},
	"[:1]":          {"[1:]", "[1]", "[-1]", ""},
	"[::-1]":        {"[::-2]", "[:]", "[:-1]"},
	"[n:]":          {"[:n]", "[n + 1:]", "[n - 1:]", "[-n:]", "[:-n]"},
	"[:n]":          {"[n:]", "[:n - 1]", "[:n + 1]", "[:-n]"},
	"[:{A}]":        {"[{A}:]", "[-{A}:]"},
	"[0]":           {"[-1]", "[:2]", ""},
	"[1]":           {"[-1]", "[-2]"},

	// Results of built-ins.
	"sum(xs":            {"max(xs", "len(xs"},
	"sum(a":             {"max(a", "min(a"},
	"len(xs)":           {"max(xs)"},
	"len(w)":            {"len(ws)", "len(w) - 1"},
	"max(n, len(w))":    {"n + len(w)", "len(w)"},
	"max(xs) - min(xs)": {"max(xs) - xs[0]", "xs[-1] - min(xs)", "min(xs) - max(xs)"},
	"abs(a - b)":        {"a - b", "b - a", "abs(a) - abs(b)"},
	"sorted(xs)":        {"xs"},
	".upper(":           {".lower("},
	".ljust(n":          {".rjust(n", ".ljust(n + 1", ".ljust(n - 1"},
	"r.append(":         {"r.insert(0, "},
	"''.join":           {"' '.join"},
	"w[0]":              {"w[1:]", "w[:1] * 2"},
	"return s *":        {"return s[1:] *", "return s[:1] *"},
	"return -1":         {"return 0", "return 1", "return len(xs)"},
	"return 1":          {"return -1"},

	// Values.
	"n = 0":    {"n = 1"},
	"s = 0":    {"s = 1", "s = -1"},
	"r = 0":    {"r = 1", "r = 2"},
	"x > 0":    {"x != 0"},
	"h * 60":   {"h * 100", "h * 24"},
	"'aeiou'":  {"'aeio'", "'eiou'", "'aeou'"},
	"'A'":      {"'B'", "'C'"},
	"'B'":      {"'A'", "'C'"},
	"'C'":      {"'B'", "'A'"},
	"'even'":   {"'odd'", "'evens'"},
	"'odd'":    {"'even'", "'odds'"},
	"'{P}'":    {"'{P+1}'", "'{P+2}'"},
	"'{Q}'":    {"'{Q+1}'", "'{Q+2}'"},
	" + '{P}'": {""},
	"'{P}' + s + '{Q}'": {
		"s + '{P}' + '{Q}'", "'{P}' + '{Q}' + s", "'{P}' + s", "s + '{Q}'", "'{Q}' + s + '{P}'"},
}

var (
	numberOrConstant = regexp.MustCompile(`\{[A-C]\}|\b\d+\b`)
	constantOnly     = regexp.MustCompile(`^(-?\d+|'[^']*'|\{[A-Z]\})$`)
	difference       = regexp.MustCompile(`(\w+|\{[A-C]\}) - (\w+|\{[A-C]\})`)
)

// allMutations applies every operator at every place: rewrites, numbers that are
// off by one or by ten, swapped operands of a difference, one parameter in place
// of another, results that are off by one, cut or negated. A quarter is held out, chosen by hash.
func (f *family) allMutations() []mutation {
	var out []mutation
	seen := map[string]bool{}
	known := f.known()
	for i, line := range f.body {
		seen[line] = true
		add := func(from, to int, text string) {
			text = line[:from] + text + line[to:]
			if !seen[text] && known(text) {
				seen[text] = true
				out = append(out, mutation{line: i, text: text})
			}
		}
		for _, old := range sortedKeys(rewrites) {
			if f.gives == "text" && (old == " + " || old == " * ") {
				continue // texts know no other arithmetic
			}
			for _, at := range occurrences(line, old) {
				for _, text := range rewrites[old] {
					add(at, at+len(old), text)
				}
			}
		}
		for _, m := range numberOrConstant.FindAllStringIndex(line, -1) {
			if m[0] > 0 && line[m[0]-1] == '-' {
				continue // a sign or the end of a slice: rewrites know better
			}
			for _, text := range moved(line[m[0]:m[1]]) {
				add(m[0], m[1], text)
			}
		}
		for _, m := range difference.FindAllStringSubmatchIndex(line, -1) {
			add(m[0], m[1], line[m[4]:m[5]]+" - "+line[m[2]:m[3]])
		}
		f.swapParameters(line, add)
		if at := strings.Index(line, "return "); at >= 0 {
			at += len("return ")
			for _, text := range f.result(line[at:]) {
				add(at, len(line), text)
			}
		}
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	key := func(i int) uint64 { return hash("mutation", f.id, out[i].line, out[i].text) }
	slices.SortFunc(order, func(a, b int) int {
		if key(a) < key(b) {
			return -1
		}
		return 1
	})
	for _, i := range order[:(len(order)+3)/4] {
		out[i].heldOut = true
	}
	return out
}

// againstItself says whether line compares name with name.
func againstItself(line, name string) bool {
	return strings.Contains(line, name+" < "+name) || strings.Contains(line, name+" > "+name)
}

// known tells whether a line uses only names that the body has, or that rewrites
// bring and Python knows: an operator of another family's names does not apply.
func (f *family) known() func(line string) bool {
	names := map[string]bool{}
	for _, w := range strings.Fields("max min len any all or and not in lower rjust insert") {
		names[w] = true
	}
	note := func(w string, _ bool) { names[w] = true }
	words(strings.Join(f.body, " "), note)
	words(strings.Join(f.params, " "), note)
	return func(line string) bool {
		ok := true
		words(line, func(w string, name bool) {
			ok = ok && (!name || names[w] || w[0] <= 'Z' || len(w) > 2 && strings.Contains(line, "'"))
		})
		return ok
	}
}

// swapParameters puts other parameters of the same kind in the place of each.
func (f *family) swapParameters(line string, add func(from, to int, text string)) {
	at := 0
	words(line, func(w string, name bool) {
		i := slices.Index(f.params, w)
		for j := range f.params {
			if !name || i < 0 || i == j || f.args[i].kind != f.args[j].kind {
				continue
			}
			if q := f.params[j]; !againstItself(line[:at]+q+line[at+len(w):], q) {
				add(at, at+len(w), q)
			}
		}
		at += len(w)
	})
}

// result gives what may stand for a returned expression: off by one, cut, turned
// around, negated. Constants are left to other operators.
func (f *family) result(expr string) []string {
	if constantOnly.MatchString(expr) {
		return nil
	}
	switch f.gives {
	case "number":
		return []string{expr + " + 1", expr + " - 1"}
	case "truth":
		return []string{"not " + expr}
	case "text", "list":
		if !strings.Contains(expr, " ") || strings.HasSuffix(expr, "]") || strings.HasSuffix(expr, ")") {
			return []string{expr + "[1:]", expr + "[:-1]", expr + "[::-1]"}
		}
	}
	return nil
}

// moved gives the near misses of a number or of a {constant}.
func moved(n string) []string {
	if n[0] == '{' {
		k := n[1:2]
		return []string{"{" + k + "+1}", "{" + k + "-1}", "{" + k + "+10}"}
	}
	switch n {
	case "0":
		return []string{"1"}
	case "1":
		return []string{"2", "0"}
	case "2":
		return []string{"3", "1"}
	case "4":
		return []string{"5", "3", "2"}
	case "60":
		return []string{"61", "59", "70", "50"}
	case "100":
		return []string{"101", "99", "110", "10"}
	}
	return nil
}

func occurrences(line, text string) []int {
	var out []int
	for at := 0; ; {
		i := strings.Index(line[at:], text)
		if i < 0 {
			return out
		}
		out = append(out, at+i)
		at += i + 1
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
