package testlog

import "strings"

// readCTRF reads the Common Test Report Format, by the test's name with its suites
// before it, joined by " > ". Text around the document is passed over. A status that
// the format does not have, and its "other", is a failure.
func readCTRF(log string, r *Results) {
	i := strings.IndexByte(log, '{')
	if i < 0 {
		return
	}
	p := scanner{text: log[i:]}
	listed := false
	p.object(func(key string) {
		if key != "results" {
			p.skip()
			return
		}
		p.object(func(key string) {
			if key != "tests" {
				p.skip()
				return
			}
			p.array(func() { ctrfTest(&p, r) })
			listed = true
		})
	})
	r.ended = listed && !p.bad
}

func ctrfTest(p *scanner, r *Results) {
	var name, status string
	var suites []string
	p.object(func(key string) {
		switch key {
		case "name":
			name = p.string()
		case "status":
			status = p.string()
		case "suite":
			suites = p.words()
		default:
			p.skip()
		}
	})
	if p.bad || name == "" {
		return
	}
	s := Failed
	switch status {
	case "passed":
		s = Passed
	case "skipped", "pending":
		s = Skipped
	}
	r.worsen(r.join(suites, name), s)
}
