package testlog

import (
	"strings"
	"unicode/utf8"
)

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
