package testlog

import "strings"

// readPytest reads the short summary of `-rA` ("PASSED id", "FAILED id - message")
// and the lines of `-v` ("id PASSED [ 12%]"), with and without xdist. Ids are whole,
// spaces in parameters included. A test that passes against expectation (XPASS) has
// failed, and so has one with a failing subtest.
func readPytest(log string, r *Results) {
	pending := "" // a test of -v whose status output has pushed to a later line
	for line := range lines(log) {
		line = trimRight(Plain(line))
		if s, percent := cutPercent(line); percent {
			line = s
		}
		if worker, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(worker, "[gw") {
			if s, ok := strings.CutPrefix(rest, "["); ok { // [gw0] [ 12%] PASSED id
				_, rest, _ = strings.Cut(s, "] ")
			}
			line = rest
		}
		first, rest := word(line)
		if s := pytestStatus(first); s != Missing {
			switch id := pytestID(rest); {
			case rest == "" && pending != "":
				r.worsen(pending, s)
				pending = ""
			case strings.Contains(id, "::"):
				r.worsen(id, s)
			}
			continue
		}
		if !strings.Contains(line, "::") {
			r.ended = r.ended || pytestEnd(line)
			continue
		}
		if id, s := pytestVerbose(line); s != Missing {
			r.worsen(id, s)
			pending = ""
		} else if id := nodeID(line); id != "" {
			pending = id
		}
	}
}

func pytestStatus(word string) Status {
	switch word {
	case "PASSED":
		return Passed
	case "XFAIL":
		return ExpectedFailure
	case "SKIPPED":
		return Skipped
	case "FAILED", "XPASS":
		return Failed
	case "ERROR":
		return Errored
	}
	// Subtests are listed as "SUBFAIL id" or "SUBFAILED[message] id".
	if strings.HasPrefix(word, "SUBFAIL") {
		return Failed
	}
	return Missing
}

// pytestID takes the message off an id; a parameter may look like the start of one.
func pytestID(s string) string {
	s = trim(s)
	if strings.HasPrefix(s, "[") { // SKIPPED [3] path:12: reason
		return ""
	}
	end := strings.Index(s, " - ")
	if end < 0 {
		return s
	}
	if i := strings.IndexByte(s, '['); i >= 0 && i < end {
		switch j := strings.Index(s, "] - "); {
		case j >= 0:
			return s[:j+1]
		case strings.HasSuffix(s, "]"):
			return s
		}
	}
	return s[:end]
}

// cutPercent cuts the progress of `-v` off, "[ 12%]".
func cutPercent(line string) (string, bool) {
	if !strings.HasSuffix(line, "%]") {
		return line, false
	}
	i := strings.LastIndex(line, " [")
	if i < 0 || strings.Trim(line[i+2:len(line)-2], " 0123456789") != "" {
		return line, false
	}
	return trimRight(line[:i]), true
}

// pytestVerbose reads "id STATUS", "id STATUS (reason)".
func pytestVerbose(line string) (id string, s Status) {
	if i := strings.LastIndexFunc(line, space); i > 0 {
		if s := pytestStatus(line[i+1:]); s != Missing {
			return trimRight(line[:i]), s
		}
	}
	if strings.HasSuffix(line, ")") {
		for _, w := range []string{"SKIPPED", "XFAIL", "XPASS"} {
			if i := strings.LastIndex(line, " "+w+" ("); i > 0 {
				return trimRight(line[:i]), pytestStatus(w)
			}
		}
	}
	return "", Missing
}

// nodeID takes the id off a line that begins with one, "path.py::test[a b] output".
func nodeID(line string) string {
	if path, _, _ := strings.Cut(line, "::"); !strings.HasSuffix(path, ".py") || strings.IndexFunc(path, space) >= 0 {
		return ""
	}
	id, _ := word(line)
	if i := strings.IndexByte(id, '['); i >= 0 {
		if j := strings.IndexByte(line[i:], ']'); j >= 0 {
			return line[:i+j+1]
		}
	}
	return id
}

// pytestEnd reads the last line, "=== 1 failed, 2 passed in 0.12s ===".
func pytestEnd(line string) bool {
	line = strings.Trim(line, "= ")
	if strings.HasPrefix(line, "no tests ran in ") {
		return true
	}
	n := digits(line)
	if n == 0 || !strings.Contains(line, " in ") {
		return false
	}
	rest, i := cutAny(line[n:], " passed", " failed", " error", " skipped", " xfailed", " xpassed", " deselected", " warning")
	return i >= 0 && (rest[0] == ' ' || rest[0] == ',' || rest[0] == 's')
}
