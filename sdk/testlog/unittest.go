package testlog

import "strings"

// readUnittest reads what Python's unittest prints at verbosity 2, "method
// (module.Class) ... ok", by dotted ids, and the heads of its tracebacks. A test
// that passes against expectation has failed.
func readUnittest(log string, r *Results) {
	current := "" // a test that is named and has no status yet
	ran := false
	for line := range lines(log) {
		line = trimRight(Plain(line))
		if rest, i := cutAny(line, "FAIL: ", "ERROR: "); i >= 0 {
			if id, ok := tracebackID(rest); ok {
				r.worsen(id, [...]Status{Failed, Errored}[i])
				continue
			}
		}
		ran = ran || strings.HasPrefix(line, "Ran ") && strings.Contains(line, " test")
		r.ended = r.ended || ran && (line == "OK" || line == "FAILED" || strings.HasPrefix(line, "OK (") || strings.HasPrefix(line, "FAILED ("))

		head, status := cutStatus(line)
		// A subtest that fails ends its line without a status, and the next test's
		// name follows on it.
		for part := range strings.SplitSeq(head, " ... ") {
			if id := DottedID(part); id != trim(part) {
				current = id
			}
		}
		if status != Missing && current != "" {
			r.worsen(current, status)
			current = ""
		}
	}
}

// DottedID gives the dotted id of a test that unittest names "method (module.Class)"
// or, since Python 3.11, "method (module.Class.method)". Other ids stay as they are.
func DottedID(s string) string {
	s = trim(s)
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

// tracebackID reads "method (module.Class)" with a subtest behind it: "[message]",
// "(i=1)".
func tracebackID(s string) (string, bool) {
	if id := DottedID(s); id != trim(s) && !strings.ContainsAny(id, "()[]") {
		return id, true
	}
	if i := strings.IndexByte(s, ')'); i >= 0 {
		id := DottedID(s[:i+1])
		return id, id != trim(s[:i+1])
	}
	return "", false
}

// cutStatus takes " ... ok" and the like off the end of a line.
func cutStatus(line string) (head string, s Status) {
	i := strings.LastIndex(line, " ... ")
	if i < 0 {
		// A test that prints breaks the line; the status then stands alone.
		if s = unittestStatus(line); s != Missing {
			return "", s
		}
		return strings.TrimSuffix(line, " ..."), Missing
	}
	if s = unittestStatus(line[i+len(" ... "):]); s != Missing {
		return line[:i], s
	}
	return strings.TrimSuffix(line, " ..."), Missing
}

func unittestStatus(s string) Status {
	switch s {
	case "ok":
		return Passed
	case "expected failure":
		return ExpectedFailure
	case "FAIL", "unexpected success":
		return Failed
	case "ERROR":
		return Errored
	}
	if s == "skipped" || strings.HasPrefix(s, "skipped ") {
		return Skipped
	}
	return Missing
}
