package testlog

import "strings"

// harnessDjango reads what Django's runner prints at verbosity 2, which is
// unittest's: "test (module.Class) ... ok", or a test's first docstring line in
// place of its name.
func harnessDjango(log string, r *Results) {
	named, any := "", false // what stood before the last " ... "
	for line := range lines(log) {
		line = trim(line)
		if strings.Contains(line, "--version is equivalent to version") {
			r.put("--version is equivalent to version", Passed)
		}
		before, _, dots := strings.Cut(line, " ... ")
		if dots {
			named, any = before, true
		}
		for _, suffix := range []string{" ... ok", " ... OK", " ...  OK"} {
			if strings.HasSuffix(line, suffix) {
				// One record's migration is announced on the line of a test.
				if strings.HasPrefix(line, "Applying sites.0002_alter_domain_unique...test_no_migrations") {
					_, line, _ = strings.Cut(line, "...")
					line = trim(line)
				}
				r.put(strings.TrimSuffix(line, suffix), Passed)
				break
			}
		}
		if name, _, ok := strings.Cut(line, " ... skipped"); ok {
			r.put(name, Skipped)
		}
		if strings.HasSuffix(line, " ... FAIL") {
			name, _, _ := strings.Cut(line, " ... FAIL")
			r.put(name, Failed)
		}
		headline(r, line, "FAIL:", Failed)
		if strings.HasSuffix(line, " ... ERROR") {
			name, _, _ := strings.Cut(line, " ... ERROR")
			r.put(name, Errored)
		}
		headline(r, line, "ERROR:", Errored)
		// Output came between the name and its status.
		if any && strings.HasPrefix(line, "ok") {
			r.put(named, Passed)
		}
	}
	interrupted(log, r, "Testing against Django installed in ", func(rest string) (int, bool) {
		for at := 0; ; {
			i := strings.Index(rest[at:], " silenced).\n")
			if i < 0 {
				return len(rest), false
			}
			at += i + len(" silenced).\n")
			if saysOK(rest[at:]) {
				return at, true
			}
		}
	})
	interrupted(log, r, "Internal Server Error: /", func(rest string) (int, bool) {
		line, after, more := strings.Cut(rest, "\n")
		return len(line), more && strings.HasSuffix(line, "/") && saysOK(after)
	})
	interrupted(log, r, "System check identified no issues (0 silenced)\n", func(rest string) (int, bool) {
		return 0, saysOK(rest)
	})
}

// headline reads the head of a traceback, "FAIL: test (module.Class)", which gives
// the method alone.
func headline(r *Results, line, head string, s Status) {
	if strings.HasPrefix(line, head) {
		_, rest := word(line)
		if name, _ := word(trimLeft(rest)); name != "" {
			r.put(name, s)
		}
	}
}

// saysOK reports whether the first line of a text is "ok".
func saysOK(s string) bool { return s == "ok" || strings.HasPrefix(s, "ok\n") }

// interrupted finds tests whose line goes on with a message of Django's, "name ...
// message". passed says of what follows whether the test passed, and in how many
// bytes of it nothing else is to be looked for. A name may be on the line before
// its dots.
func interrupted(log string, r *Results, message string, passed func(rest string) (skip int, ok bool)) {
	for from := 0; ; {
		i := strings.Index(log[from:], message)
		if i < 0 {
			return
		}
		i += from
		from = i + len(message)
		head, ok := cutLastSpace(log[:i])
		if !ok {
			continue
		}
		if head, ok = strings.CutSuffix(head, "..."); !ok {
			continue
		}
		if head, ok = cutLastSpace(head); !ok {
			continue
		}
		skip, ok := passed(log[from:])
		from += skip
		if ok {
			r.put(head[strings.LastIndexByte(head, '\n')+1:], Passed)
		}
	}
}
