package testlog

// readJUnit reads JUnit XML, in as many documents as there are, by
// "classname.name". A test with <flakyFailure> passed in the end; <rerunFailure>
// comes with the <failure> that counts.
func readJUnit(log string, r *Results) {
	id, s := "", Missing
	depth := 0
	tags(log, func(t tag) {
		switch t.name {
		case "testsuites", "testsuite":
			switch {
			case t.empty:
			case t.closing:
				depth--
			default:
				depth++
			}
			r.ended = depth == 0
		case "testcase":
			if !t.closing {
				id, s = t.attribute("name"), Passed
				if class := t.attribute("classname"); class != "" {
					id = class + "." + id
				}
			}
			if (t.closing || t.empty) && id != "" {
				r.worsen(id, s)
				id = ""
			}
		case "failure":
			s = max(s, Failed)
		case "error":
			s = max(s, Errored)
		case "skipped":
			if t.attribute("type") == "pytest.xfail" {
				s = max(s, ExpectedFailure)
			} else {
				s = max(s, Skipped)
			}
		}
	})
}
