package testlog

import "strings"

// The harness's rules for pytest read the lines of the short test summary that
// `-rA` prints, "PASSED path::test". What looks like a slip is kept: the expected
// ids of the data were made by the same rules.

// statusWords are the words with which such a line begins; nothing need follow
// the word, so that "ERRORS" counts as one.
var statusWords = [...]string{"FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"}

func startsWithStatus(line string) bool {
	_, i := cutAny(line, statusWords[:]...)
	return i >= 0
}

func wordStatus(word string) Status {
	switch word {
	case "PASSED":
		return Passed
	case "XFAIL":
		return ExpectedFailure
	case "SKIPPED":
		return Skipped
	case "FAILED":
		return Failed
	case "ERROR":
		return Errored
	}
	return Unclear
}

// summaryLine reads "STATUS id ..."; the id ends at the first space, also within
// its parameters.
func summaryLine(line string) (id string, s Status, ok bool) {
	if !startsWithStatus(line) {
		return "", 0, false
	}
	if strings.HasPrefix(line, "FAILED") {
		line = strings.ReplaceAll(line, " - ", " ")
	}
	status, rest := word(line)
	id, _ = word(trimLeft(rest))
	if id == "" || skipCount(status, id) {
		return "", 0, false
	}
	return id, wordStatus(status), true
}

// skipCount tells "SKIPPED [3] path:12: reason", which names no test. The same is
// not asked of other words: "[100%]" is an expected id of two records.
func skipCount(status, id string) bool {
	return status == "SKIPPED" && len(id) > 2 && id[0] == '[' && digits(id[1:]) == len(id)-2 && id[len(id)-1] == ']'
}

func harnessPytest(log string, r *Results) {
	for line := range lines(log) {
		if id, s, ok := summaryLine(line); ok {
			r.put(id, s)
		}
	}
}

// harnessPytestOptions shortens a parameter that is an absolute path to its last
// element, as it depends on where the repository lies.
func harnessPytestOptions(log string, r *Results) {
	for line := range lines(log) {
		id, s, ok := summaryLine(line)
		if !ok {
			continue
		}
		if i, j := strings.IndexByte(id, '['), strings.LastIndexByte(id, ']'); i >= 0 && j > i {
			option := id[i+1 : j]
			if strings.HasPrefix(option, "/") && !strings.HasPrefix(option, "//") && !strings.Contains(option, "*") {
				option = option[strings.LastIndexByte(option, '/'):]
			}
			id = id[:i+1] + option + "]"
		}
		r.put(id, s)
	}
}

// harnessMatplotlib names mouse buttons by their numbers, as older versions print
// them.
func harnessMatplotlib(log string, r *Results) {
	for line := range lines(log) {
		if strings.Contains(line, "MouseButton.") {
			line = strings.ReplaceAll(line, "MouseButton.LEFT", "1")
			line = strings.ReplaceAll(line, "MouseButton.RIGHT", "3")
		}
		if id, s, ok := summaryLine(line); ok {
			r.put(id, s)
		}
	}
}

// harnessPytestV2 keeps spaces in ids, takes colours off and reads the lines of
// `-v` without a percentage, in which the status comes last.
func harnessPytestV2(log string, r *Results) {
	for line := range lines(log) {
		line = uncoloured(line)
		if startsWithStatus(line) {
			if strings.HasPrefix(line, "FAILED") {
				line, _, _ = strings.Cut(line, " - ")
			}
			if f := fields(line); len(f) >= 2 && !skipCount(f[0], f[1]) {
				r.put(strings.Join(f[1:], " "), wordStatus(f[0]))
			}
			continue
		}
		for _, w := range statusWords {
			if strings.HasSuffix(line, w) {
				if f := fields(line); len(f) >= 2 {
					r.put(strings.Join(f[:len(f)-1], " "), wordStatus(f[len(f)-1]))
				}
				break
			}
		}
	}
}

// uncoloured drops "[32m" and the like, with or without an escape before it, and
// all control characters, tabs too.
func uncoloured(line string) string {
	if strings.IndexFunc(line, func(r rune) bool { return r == '[' || r > 0 && r < ' ' }) < 0 {
		return line
	}
	var b strings.Builder
	b.Grow(len(line))
	for i := 0; i < len(line); i++ {
		if line[i] == '[' {
			if n := digits(line[i+1:]); n > 0 && i+1+n < len(line) && line[i+1+n] == 'm' {
				i += n + 1
				continue
			}
		}
		if c := line[i]; c == 0 || c >= ' ' {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// harnessSeaborn reads both forms, and failures in the summary alone.
func harnessSeaborn(log string, r *Results) {
	for line := range lines(log) {
		failed, passed := strings.HasPrefix(line, "FAILED"), strings.Contains(line, "PASSED")
		if !failed && !passed {
			continue
		}
		first, rest := word(trimLeft(line))
		second, _ := word(trimLeft(rest))
		switch {
		case second == "":
		case failed:
			r.put(second, Failed)
		case strings.Contains(line, " PASSED "):
			if second == "PASSED" {
				r.put(first, Passed)
			}
		case strings.HasPrefix(line, "PASSED"):
			r.put(second, Passed)
		}
	}
}
