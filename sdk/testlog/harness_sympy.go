package testlog

import "strings"

// harnessSympy reads what sympy's own runner prints: "test_name ok", " F" or " E",
// and the heads of tracebacks, "____ path.py:test_name ____". Any line with a
// ".py:" between two spaces is taken for such a head.
func harnessSympy(log string, r *Results) {
	for line := range lines(log) {
		first, last := strings.IndexByte(line, ' '), strings.LastIndexByte(line, ' ')
		if first == last {
			continue
		}
		if i := strings.LastIndex(line[first+1:last], ".py:"); i >= 0 {
			r.put(line[first+1:last], Failed)
		}
	}
	for line := range lines(log) {
		line = trim(line)
		if !strings.HasPrefix(line, "test_") {
			continue
		}
		name, _ := word(line)
		switch {
		case strings.HasSuffix(line, " E"):
			r.put(name, Errored)
		case strings.HasSuffix(line, " F"):
			r.put(name, Failed)
		case strings.HasSuffix(line, " ok"):
			r.put(name, Passed)
		}
	}
}
