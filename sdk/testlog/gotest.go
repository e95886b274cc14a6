package testlog

import "strings"

// readGoTest reads `go test -v`: "--- PASS: Test/sub (0.01s)", by the test's name;
// tests of one name in two packages count as one, the worse. Output without a
// newline may stand before the dashes.
func readGoTest(log string, r *Results) {
	for line := range lines(log) {
		line = trim(strings.ReplaceAll(Plain(line), "\x16", "")) // with which -test.v marks its own lines
		name, s, ok := goVerdict(line)
		if !ok {
			if i := strings.LastIndex(line, "--- "); i > 0 && strings.HasSuffix(line, "s)") {
				if name, s, ok = goVerdict(line[i:]); ok && !goTestName(name) {
					ok = false
				}
			}
		}
		if ok {
			r.worsen(name, s)
			continue
		}
		_, i := cutAny(line, "ok \t", "ok  \t", "FAIL\t", "?   \t", "--- FAIL: package")
		r.ended = r.ended || i >= 0 || line == "PASS" || line == "FAIL"
	}
}

func goTestName(name string) bool {
	_, i := cutAny(name, "Test", "Example", "Fuzz", "Benchmark")
	return i >= 0 && strings.IndexFunc(name, space) < 0
}

// readGoTestJSON reads the events of `go test -json`, by "package.Test/sub". A test
// that was under way when its package failed has failed. Other lines, which the
// build and the tests print, are passed over.
func readGoTestJSON(log string, r *Results) {
	type running struct{ pkg, id string }
	var under []running
	for line := range lines(log) {
		i := strings.IndexByte(line, '{')
		if i < 0 {
			continue
		}
		p := scanner{text: line[i:]}
		var action, pkg, test string
		p.object(func(key string) {
			switch key {
			case "Action":
				action = p.string()
			case "Package":
				pkg = p.string()
			case "Test":
				test = p.string()
			default:
				p.skip()
			}
		})
		if p.bad || pkg == "" {
			continue
		}
		s := Missing
		switch action {
		case "pass":
			s = Passed
		case "fail":
			s = Failed
		case "skip":
			s = Skipped
		case "run":
			if test != "" {
				under = append(under, running{pkg, pkg + "." + test})
			}
		}
		switch {
		case s == Missing:
		case test != "":
			r.worsen(pkg+"."+test, s)
		default:
			r.ended = true
			rest := under[:0]
			for _, u := range under {
				switch {
				case u.pkg != pkg:
					rest = append(rest, u)
				case s == Failed && r.Status(u.id) == Missing:
					r.worsen(u.id, Failed)
				}
			}
			under = rest
		}
	}
}
