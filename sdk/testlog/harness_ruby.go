package testlog

import (
	"strings"
	"unicode/utf8"
)

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
