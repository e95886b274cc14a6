package testlog

import (
	"strings"
	"unicode/utf8"
)

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
