package testlog

import (
	"strings"
	"unicode/utf8"
)

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
