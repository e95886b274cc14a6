package testlog

import "strings"

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
