package grade

import (
	"strings"

	"github.com/valence-rl/valence/sdk/testlog"
)

// Status is how one test ended.
type Status string

// The statuses. A test that was expected to fail and did has Passed.
const (
	Passed  Status = "passed"
	Failed  Status = "failed" // also errors, and tests that passed against expectation
	Skipped Status = "skipped"
)

// Results has the status of each test that a log names, by its id.
type Results map[string]Status

// add keeps the worst of contradictory statuses.
func (r Results) add(id string, s Status) {
	if old, ok := r[id]; ok && old != s {
		s = Failed
	}
	r[id] = s
}

// ParseLog reads the log of a test command. format is [sdk.Record.LogParser]:
// "unittest" (run with -v) or "pytest" (-v or -rA). It reports false for another.
// Such a log is the tests' own word; where the runner is Python's unittest,
// [UnittestRun] gives one that is not.
func ParseLog(format, log string) (Results, bool) {
	switch format {
	case "unittest":
		return parseUnittest(log), true
	case "pytest":
		return parsePytest(log), true
	}
	if parsed, err := testlog.Parse(format, log); err == nil {
		r := Results{}
		for id, status := range parsed.All() {
			switch {
			case status.Passes():
				r[id] = Passed
			case status.Fails():
				r[id] = Failed
			default:
				r[id] = Skipped
			}
		}
		return r, true
	}
	return nil, false
}

// TestID gives the dotted id of a test that unittest names "method (module.Class)"
// or, since Python 3.11, "method (module.Class.method)". Other ids stay as they are.
func TestID(s string) string {
	s = strings.TrimSpace(s)
	method, rest, ok := strings.Cut(s, " (")
	if !ok || !strings.HasSuffix(rest, ")") || strings.ContainsAny(method, " /:.") {
		return s
	}
	class := strings.TrimSuffix(rest, ")")
	if strings.HasSuffix(class, "."+method) {
		return class
	}
	return class + "." + method
}

func parseUnittest(log string) Results {
	r := Results{}
	current := "" // a test that is named and has no status yet
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimRight(line, "\r ")
		head, status, ended := cutStatus(line)
		name := head
		if i := strings.Index(name, ") ... "); i >= 0 { // something was printed on the test's line
			name = name[:i+1]
		}
		if id := TestID(name); id != strings.TrimSpace(name) {
			current = id
		}
		if ended && current != "" {
			r.add(current, status)
			current = ""
		}
	}
	return r
}

// cutStatus takes " ... ok" and the like off the end of a line.
func cutStatus(line string) (head string, s Status, ok bool) {
	i := strings.LastIndex(line, " ... ")
	if i < 0 {
		// A test that prints breaks the line; the status then stands alone.
		if s, ok = unittestStatus(line); ok {
			return "", s, true
		}
		return strings.TrimSuffix(line, " ..."), "", false
	}
	if s, ok = unittestStatus(line[i+len(" ... "):]); ok {
		return line[:i], s, true
	}
	return line, "", false
}

func unittestStatus(s string) (Status, bool) {
	switch s {
	case "ok", "expected failure":
		return Passed, true
	case "FAIL", "ERROR", "unexpected success":
		return Failed, true
	}
	return Skipped, s == "skipped" || strings.HasPrefix(s, "skipped ")
}

func parsePytest(log string) Results {
	r := Results{}
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimRight(line, "\r ")
		word, rest, _ := strings.Cut(line, " ")
		if s, ok := pytestStatus(word); ok && strings.Contains(rest, "::") { // -rA: STATUS id - message
			r.add(pytestID(rest), s)
			continue
		}
		if !strings.Contains(line, "::") {
			continue
		}
		// -v: id STATUS [ 12%]
		if i := strings.LastIndex(line, " ["); i > 0 && strings.HasSuffix(line, "%]") {
			line = strings.TrimRight(line[:i], " ")
		}
		if i := strings.LastIndex(line, " "); i > 0 {
			if s, ok := pytestStatus(line[i+1:]); ok {
				r.add(line[:i], s)
			}
		}
	}
	return r
}

// pytestID takes the message off an id; a parameter may look like the start of one.
func pytestID(s string) string {
	from := 0
	if i := strings.IndexByte(s, '['); i >= 0 && i < strings.Index(s, " - ") {
		from = max(0, strings.Index(s, "] - "))
	}
	if i := strings.Index(s[from:], " - "); i >= 0 {
		s = s[:from+i]
	}
	return strings.TrimSpace(s)
}

func pytestStatus(s string) (Status, bool) {
	switch s {
	case "PASSED", "XFAIL":
		return Passed, true
	case "FAILED", "ERROR", "XPASS":
		return Failed, true
	case "SKIPPED":
		return Skipped, true
	}
	return "", false
}
