package testlog

import "strings"

// The trees that JavaScript's runners print. Ids are the names from the outermost
// suite to the test, joined by " > ".

// outline keeps the suites around a line by how far each is indented.
type outline struct {
	names   []string
	indents []int
}

// open makes a suite of a line; it ends those that are indented as far or further.
func (o *outline) open(indent int, name string) {
	o.shut(indent)
	o.names, o.indents = append(o.names, name), append(o.indents, indent)
}

// shut ends the suites that are indented as far as indent or further.
func (o *outline) shut(indent int) {
	n := len(o.names)
	for n > 0 && o.indents[n-1] >= indent {
		n--
	}
	o.names, o.indents = o.names[:n], o.indents[:n]
}

func (o *outline) clear() { o.shut(0) }

// glyph takes the sign of a test's outcome off a line, in the signs of terminals
// that have Unicode and of those that do not.
func glyph(s string) (rest string, of Status) {
	rest, i := cutAny(s, "✓ ", "✔ ", "√ ", "✕ ", "✗ ", "✖ ", "× ", "○ ", "✎ ", "↓ ")
	switch {
	case i < 0:
		return s, Missing
	case i < 3:
		return rest, Passed
	case i < 7:
		return rest, Failed
	}
	return rest, Skipped
}

// cutTime takes "(12 ms)", "(1.2s)" or "12ms" off the end of a name.
func cutTime(s string) string {
	head, closed := strings.CutSuffix(s, ")")
	t, ok := strings.CutSuffix(head, "s")
	if !ok {
		return s
	}
	t = strings.TrimRight(strings.TrimSuffix(t, "m"), " ")
	n := len(t)
	for n > 0 && (digit(t[n-1]) || t[n-1] == '.') {
		n--
	}
	if n == len(t) {
		return s
	}
	t = t[:n]
	if closed {
		if t, ok = strings.CutSuffix(t, "("); !ok {
			return s
		}
	}
	if t, ok = strings.CutSuffix(t, " "); !ok {
		return s
	}
	return trimRight(t)
}

// readJest reads `jest --verbose`: the file ("PASS path"), its suites and tests by
// indentation. The details of failures, which begin with "●", are passed over.
func readJest(log string, r *Results) {
	var o outline
	inside := false // in the tree of a file
	for line := range lines(log) {
		line = trimRight(Plain(line))
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		if path, i := cutAny(rest, "PASS ", "FAIL "); i >= 0 && indent < 2 { // in colour there is a space before it
			o.clear()
			o.open(0, cutTime(trim(path)))
			inside = true
			continue
		}
		switch {
		case rest == "":
			continue
		case strings.HasPrefix(line, "Tests: "):
			r.ended, inside = true, false
			continue
		case indent == 0 || strings.HasPrefix(rest, "● "):
			inside = false
			continue
		case !inside:
			continue
		}
		name, s := glyph(rest)
		if s == Missing {
			o.open(indent, rest)
			continue
		}
		o.shut(indent)
		if s == Skipped {
			name, _ = cutAny(name, "skipped ", "todo ")
		}
		r.worsen(r.join(o.names, cutTime(name)), s)
	}
}

// readVitest reads `vitest --reporter=verbose`: "✓ file > suite > name 3ms", or the
// tree that newer versions print, of which each suite has a count in parentheses.
func readVitest(log string, r *Results) {
	var o outline
	for line := range lines(log) {
		line = trimRight(Plain(line))
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		if tail, ok := strings.CutPrefix(rest, "Tests  "); ok && tail != "" {
			r.ended = true
			continue
		}
		name, s := glyph(rest)
		if s == Missing {
			if suite, ok := strings.CutPrefix(rest, "❯ "); ok {
				o.open(indent, vitestSuite(suite))
			}
			continue
		}
		o.shut(indent)
		name = cutTime(strings.TrimSuffix(name, " [skipped]"))
		if suite := vitestSuite(name); suite != name {
			o.open(indent, suite)
			continue
		}
		r.worsen(r.join(o.names, name), s)
	}
}

// vitestSuite takes what stands behind the name of a suite off: "(3)", "(3 tests | 1
// failed)", a duration. The name of a test stays as it is.
func vitestSuite(s string) string {
	t := cutTime(s)
	head, ok := strings.CutSuffix(t, ")")
	if !ok {
		return s
	}
	i := strings.LastIndex(head, " (")
	if i < 0 {
		return s
	}
	count := head[i+2:]
	n := digits(count)
	if n == 0 || n < len(count) && !strings.HasPrefix(count[n:], " test") {
		return s
	}
	return trimRight(head[:i])
}

// readMocha reads mocha's spec reporter: suites and tests by indentation, "✔ name",
// "1) name" for a failure, "- name" for one that is pending. It ends at "3 passing".
func readMocha(log string, r *Results) {
	var o outline
	listing := false // the failures, again and with their causes
	for line := range lines(log) {
		line = trimRight(Plain(line))
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		n := digits(rest)
		switch {
		case rest == "":
			continue
		case n > 0 && strings.HasPrefix(rest[n:], " passing"):
			r.ended, listing = true, true
			continue
		case indent == 0: // the end of the list, where another run may begin
			o.clear()
			listing = false
			continue
		case listing:
			continue
		}
		name, s := glyph(rest)
		if s == Missing {
			if n > 0 && strings.HasPrefix(rest[n:], ") ") {
				name, s = rest[n+2:], Failed
			} else if pending, ok := strings.CutPrefix(rest, "- "); ok {
				name, s = pending, Skipped
			}
		}
		if s == Missing {
			o.open(indent, rest)
			continue
		}
		o.shut(indent)
		r.ended = false
		r.worsen(r.join(o.names, cutTime(name)), s)
	}
}
