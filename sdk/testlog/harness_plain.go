package testlog

import (
	"strings"
	"unicode/utf8"
)

// The harness's rules for runners that give each test a line of its own.

// harnessCargo reads "test path::name ... ok"; ignored tests are not recorded.
func harnessCargo(log string, r *Results) {
	for line := range lines(log) {
		if !strings.Contains(line, "...") {
			continue
		}
		f := fields(line)
		if len(f) != 4 || f[0] != "test" || f[2] != "..." {
			continue
		}
		switch f[3] {
		case "ok":
			r.put(f[1], Passed)
		case "FAILED":
			r.put(f[1], Failed)
		}
	}
}

// harnessGoTest reads "--- PASS: Test/sub (0.01s)", however far it is indented.
func harnessGoTest(log string, r *Results) {
	for line := range lines(log) {
		if name, s, ok := goVerdict(trim(line)); ok {
			r.put(name, s)
		}
	}
}

// goVerdict reads "--- STATUS: name (anything)".
func goVerdict(line string) (name string, s Status, ok bool) {
	line, i := cutAny(line, "--- PASS: ", "--- FAIL: ", "--- SKIP: ")
	if i < 0 || !strings.HasSuffix(line, ")") {
		return "", 0, false
	}
	j := strings.LastIndex(line[:max(len(line)-2, 0)], " (")
	if j < 1 {
		return "", 0, false
	}
	return line[:j], [...]Status{Passed, Failed, Skipped}[i], true
}

// harnessJest reads `--verbose`: "✓ name (3 ms)", by the name alone.
func harnessJest(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "✓", "✕", "○")
		if i < 0 {
			continue
		}
		if rest, ok := cutSpace(rest); ok && rest != "" {
			name := rest
			if inner, ok := strings.CutSuffix(name, ")"); ok {
				name = cutDuration(name, inner)
			}
			r.put(trim(name), [...]Status{Passed, Failed, Skipped}[i])
		}
	}
}

// cutDuration cuts " (12 ms" off inner; whole is given back if there is no such.
func cutDuration(whole, inner string) string {
	unit, ok := strings.CutSuffix(inner, "s")
	if !ok {
		return whole
	}
	unit = trimRight(strings.TrimSuffix(unit, "m"))
	n := len(unit)
	for n > 0 && digit(unit[n-1]) {
		n--
	}
	if n == len(unit) || !strings.HasSuffix(unit[:n], "(") {
		return whole
	}
	if name, ok := cutLastSpace(unit[:n-1]); ok && name != "" {
		return name
	}
	return whole
}

// harnessJestJSON reads "[PASSED] name".
func harnessJestJSON(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "[PASSED]", "[FAILED]")
		if rest, ok := cutSpace(rest); ok && i >= 0 && rest != "" {
			r.put(rest, [...]Status{Passed, Failed}[i])
		}
	}
}

// harnessVitest reads `--reporter=verbose`: "✓ file > suite > name 3ms".
func harnessVitest(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "✓", "×", "↓")
		if i < 0 {
			continue
		}
		rest, ok := cutSpace(rest)
		if !ok || rest == "" {
			continue
		}
		head, skipped := strings.CutSuffix(rest, "[skipped]")
		if !skipped {
			head = strings.TrimSuffix(strings.TrimSuffix(head, "s"), "m")
			head = trimRight(head)
			n := len(head)
			for n > 0 && digit(head[n-1]) {
				n--
			}
			skipped = n < len(head)
			head = head[:n]
		}
		if name, ok := cutLastSpace(head); ok && skipped && name != "" {
			rest = name
		}
		r.put(rest, [...]Status{Passed, Failed, Skipped}[i])
	}
}

// harnessTAP reads "ok 1 name" and "not ok 2 name".
func harnessTAP(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "ok ", "not ok ")
		if i < 0 {
			continue
		}
		if n := digits(rest); n > 0 && len(rest) > n+1 && rest[n] == ' ' {
			r.put(rest[n+1:], [...]Status{Passed, Failed}[i])
		}
	}
}

// harnessKarma reads the tree of karma's spec reporter between "Starting browser"
// and "SUMMARY:". A suite follows the indentation of the one before it only so far.
func harnessKarma(log string, r *Results) {
	indent, started := -1, false
	var suites []string
	for line := range lines(log) {
		switch {
		case strings.HasPrefix(line, "SUMMARY:"):
			return
		case strings.Contains(line, "Starting browser"):
			started = true
			continue
		case !started:
			continue
		}
		rest := trimLeft(line)
		blank := line[:len(line)-len(rest)]
		if after, i := cutAny(rest, "✔", "✖"); i >= 0 {
			if name, ok := cutSpace(after); ok {
				r.put(r.join(suites, name), [...]Status{Passed, Failed}[i])
				continue
			}
		}
		// The last space before the name is not part of its indentation.
		n := utf8.RuneCountInString(blank) - 1
		switch {
		case n < 1:
		case n > indent:
			indent = n
			suites = append(suites, rest)
		case n < indent:
			indent = n
			if len(suites) > 0 {
				suites = suites[:len(suites)-1]
			}
		}
	}
}

// harnessPHPUnit reads `--testdox`: " ✔ name" under "Suite (Class\Name)".
func harnessPHPUnit(log string, r *Results) {
	suite := []string{"None"}
	for line := range lines(log) {
		if s, ok := phpSuite(line); ok {
			suite[0] = s
			continue
		}
		if rest, i := cutAny(trimLeft(line), "✔", "✘", "↩"); i >= 0 {
			r.put(r.join(suite, trimLeft(rest)), [...]Status{Passed, Failed, Skipped}[i])
		}
	}
}

func phpSuite(line string) (string, bool) {
	first, n := utf8.DecodeRuneInString(line)
	if !alphanumeric(first) || !strings.HasSuffix(line, ")") {
		return "", false
	}
	i := strings.LastIndex(line[:max(len(line)-2, 0)], " (")
	return line[:max(i, 0)], i > n
}

// harnessRubyUnit reads test-unit's "test: name: .: (0.01)".
func harnessRubyUnit(log string, r *Results) {
	for line := range lines(log) {
		line = trim(line)
		name, s, ok := rubyVerdict(strings.TrimPrefix(line, "test: "))
		if !ok {
			name, s, ok = rubyVerdict(line)
		}
		if ok {
			r.put(name, s)
		}
	}
}

// rubyVerdict takes the last "name: STATUS" of a line.
func rubyVerdict(line string) (name string, s Status, ok bool) {
	for i := strings.LastIndexByte(line, ':'); i > 0; i = strings.LastIndexByte(line[:i], ':') {
		rest, spaced := cutSpaces(line[i+1:])
		if !spaced || rest == "" {
			continue
		}
		switch rest[0] {
		case '.':
			return line[:i], Passed, true
		case 'E', 'F', 'O':
			if next, n := utf8.DecodeRuneInString(rest[1:]); n > 0 && alphanumeric(next) {
				continue
			}
			if rest[0] == 'O' {
				return line[:i], Skipped, true
			}
			return line[:i], Failed, true
		}
	}
	return "", 0, false
}

// harnessRSpec reads "name - passed", which the eval scripts make of JSON.
func harnessRSpec(log string, r *Results) {
	for line := range lines(log) {
		line = trim(line)
		p, f := strings.LastIndex(line, " - passed"), strings.LastIndex(line, " - failed")
		switch {
		case p > f && p > 0:
			r.put(line[:p], Passed)
		case f > 0:
			r.put(line[:f], Failed)
		}
	}
}

// harnessMinitest reads "Class#name. 0.01 s = .".
func harnessMinitest(log string, r *Results) {
	for line := range lines(log) {
		line = trim(line)
		at := strings.LastIndexAny(line, ".FE")
		if at < 0 {
			continue
		}
		equals := strings.LastIndexByte(line[:at], '=')
		if equals < 0 {
			continue
		}
		if i := strings.LastIndex(line[:equals], ". "); i > 0 {
			s := Failed
			if line[at] == '.' {
				s = Passed
			}
			r.put(line[:i], s)
		}
	}
}

// harnessCucumber reads `--format progress`: "feature ....F".
func harnessCucumber(log string, r *Results) {
	for line := range lines(log) {
		line = trim(line)
		for i := strings.LastIndexByte(line, ' '); i >= 0; i = strings.LastIndexByte(line[:i], ' ') {
			dots := line[i+1:]
			rest := strings.TrimLeft(dots, ".")
			n := len(dots) - len(rest)
			if n >= 1 && strings.HasPrefix(rest, "F") {
				r.put(line[:i], Failed)
				break
			}
			if n >= 2 {
				r.put(line[:i], Passed)
				break
			}
		}
	}
}

// harnessMaven pairs the test of each command, "-Dtest=name", with the outcomes of
// the builds, in their order: Maven does not name tests that passed.
func harnessMaven(log string, r *Results) {
	var tests []string
	var outcomes []Status
	for line := range lines(log) {
		line = trim(line)
		for i := strings.LastIndex(line, "-Dtest="); i >= 0; i = strings.LastIndex(line[:i], "-Dtest=") {
			if name, _ := word(line[i+len("-Dtest="):]); name != "" {
				tests = append(tests, name)
				break
			}
		}
		s := Missing
		switch {
		case strings.HasSuffix(line, "BUILD SUCCESS"):
			s = Passed
		case strings.HasSuffix(line, "BUILD FAILURE"):
			s = Failed
		}
		if s == Missing {
			continue
		}
		if len(tests) == 0 {
			outcomes = append(outcomes, s)
			continue
		}
		r.put(tests[0], s)
		tests = tests[1:]
	}
	for i := range min(len(tests), len(outcomes)) {
		r.put(tests[i], outcomes[i])
	}
}

// harnessAnt reads "[junit] [PASS] name".
func harnessAnt(log string, r *Results) {
	for line := range lines(log) {
		rest, ok := strings.CutPrefix(trim(line), "[junit]")
		if !ok {
			continue
		}
		if rest, ok = cutSpaces(rest); !ok {
			continue
		}
		rest, i := cutAny(rest, "[PASS]", "[FAIL]", "[ERR]")
		if rest, ok = cutSpaces(rest); ok && i >= 0 {
			r.put(rest, [...]Status{Passed, Failed, Failed}[i])
		}
	}
}

// harnessGradle reads "Class > name PASSED", of which the status may come on a
// later line.
func harnessGradle(log string, r *Results) {
	pending := ""
	for line := range lines(log) {
		line = trim(line)
		s, head := Missing, ""
		if h, ok := strings.CutSuffix(line, "PASSED"); ok {
			s, head = Passed, h
		} else if h, ok := strings.CutSuffix(line, "FAILED"); ok {
			s, head = Failed, h
		}
		if s != Missing && head == "" { // the status alone
			if pending != "" {
				r.put(pending, s)
				pending = ""
			}
			continue
		}
		if name, ok := cutLastSpace(head); ok && utf8.RuneCountInString(name) >= 2 && name[0] != '>' {
			r.put(name, s)
			pending = ""
			continue
		}
		if f := fields(line); len(f) == 3 && f[1] == ">" && f[0][0] != '>' {
			pending = line
		}
	}
}

// harnessRedis reads "[ok]: name (12 ms)"; of a failure the file is cut off.
func harnessRedis(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "[ok]:", "[err]:", "[skip]:", "[ignore]:")
		if i < 0 {
			continue
		}
		name, ok := cutSpace(rest)
		if !ok || name == "" {
			continue
		}
		if inner, ok := strings.CutSuffix(name, ")"); ok {
			name = cutDuration(name, inner)
		}
		if i == 1 {
			name = cutPlace(name)
		}
		r.put(name, [...]Status{Passed, Failed, Skipped, Skipped}[i])
	}
}

// cutPlace cuts " in path" off the end.
func cutPlace(s string) string {
	i := strings.LastIndexFunc(s, space)
	if i < 0 || i == len(s)-1 {
		return s
	}
	head := trimRight(s[:i])
	if head, ok := strings.CutSuffix(head, "in"); ok {
		if cut := trimRight(head); len(cut) < len(head) {
			return cut
		}
	}
	return s
}

// harnessJq reads "PASS: name".
func harnessJq(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "PASS:", "FAIL:")
		if rest, ok := cutSpace(rest); ok && i >= 0 && rest != "" {
			r.put(rest, [...]Status{Passed, Failed}[i])
		}
	}
}

// harnessMicropython reads "pass name".
func harnessMicropython(log string, r *Results) {
	for line := range lines(log) {
		rest, i := cutAny(trim(line), "pass", "FAIL", "skip")
		if rest, ok := cutSpaces(rest); ok && i >= 0 && rest != "" {
			r.put(rest, [...]Status{Passed, Failed, Skipped}[i])
		}
	}
}

// harnessGoogletest reads "[       OK ] Suite.name (3 ms)".
func harnessGoogletest(log string, r *Results) {
	for line := range lines(log) {
		line = trim(line)
		end := lastParenthesis(line)
		if end < 0 {
			continue
		}
		// The last bracket that has a name and a duration behind it.
		for i := strings.LastIndexByte(line[:end], '['); i >= 0; i = strings.LastIndexByte(line[:i], '[') {
			rest, s := cutAny(trimLeft(line[i+1:]), "OK", "FAILED")
			if s < 0 {
				continue
			}
			rest, ok := strings.CutPrefix(trimLeft(rest), "]")
			if !ok {
				continue
			}
			if rest, ok = cutSpace(rest); !ok || len(line)-len(rest) > end {
				continue
			}
			r.put(line[len(line)-len(rest):end], [...]Status{Passed, Failed}[s])
			break
		}
	}
}

// lastParenthesis is where the last " (" begins in a line that ends in ")"; else -1.
func lastParenthesis(line string) int {
	if !strings.HasSuffix(line, ")") {
		return -1
	}
	for i := strings.LastIndexByte(line, '('); i >= 0; i = strings.LastIndexByte(line[:i], '(') {
		if head, ok := cutLastSpace(line[:i]); ok {
			return len(head)
		}
	}
	return -1
}
