package testlog

import "strings"

// readCargo reads `cargo test`: "test path::name ... ok", documentation tests
// ("test src/lib.rs - item (line 3) ... ok") included. Ignored tests are skipped.
func readCargo(log string, r *Results) {
	pending := ""
	for line := range lines(log) {
		line = trim(Plain(line))
		if strings.HasPrefix(line, "test result: ") {
			r.ended, pending = true, ""
			continue
		}
		rest, ok := strings.CutPrefix(line, "test ")
		if !ok {
			if s := cargoStatus(line); s != Missing && pending != "" {
				r.worsen(pending, s)
				pending = ""
			}
			continue
		}
		name, outcome, ok := strings.Cut(rest, " ... ")
		if !ok {
			if name, ok = strings.CutSuffix(rest, " ..."); !ok {
				continue
			}
		}
		// Kinds of test are noted behind their names.
		for _, kind := range []string{" - should panic", " - compile fail", " - compile"} {
			name = strings.TrimSuffix(name, kind)
		}
		if name == "" {
			continue
		}
		pending = name
		if i := strings.LastIndexFunc(outcome, space); i >= 0 && !strings.HasPrefix(outcome, "ignored") {
			outcome = outcome[i+1:] // what the test printed
		}
		if s := cargoStatus(outcome); s != Missing {
			r.worsen(name, s)
			pending = ""
		}
	}
}

func cargoStatus(s string) Status {
	switch {
	case s == "ok":
		return Passed
	case s == "FAILED":
		return Failed
	case s == "ignored" || strings.HasPrefix(s, "ignored,"):
		return Skipped
	}
	return Missing
}
