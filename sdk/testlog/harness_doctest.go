package testlog

import "strings"

// harnessDoctest reads the XML of doctest, a test framework of C++: a subcase has
// passed if every expression within it succeeded.
func harnessDoctest(log string, r *Results) {
	i := strings.Index(log, "<doctest")
	if i < 0 {
		return
	}
	log, _, _ = strings.Cut(log[i:], "</doctest>")
	type subcase struct {
		id     string
		failed bool
	}
	test := make([]string, 1)
	var open []subcase
	tags(log, func(t tag) {
		last := len(open) - 1
		switch {
		case t.name == "TestCase" && !t.closing:
			test[0], open = t.attribute("name"), nil
		case t.name == "SubCase" && !t.closing:
			id := r.join(test, t.attribute("name"))
			if t.empty {
				r.put(id, Passed)
				return
			}
			r.put(id, Unclear) // until its end is read
			open = append(open, subcase{id: id})
		case t.name == "SubCase" && last >= 0:
			s := Passed
			if open[last].failed {
				s = Failed
				if last > 0 {
					open[last-1].failed = true
				}
			}
			r.put(open[last].id, s)
			open = open[:last]
		case t.name == "Expression" && !t.closing && last >= 0 && t.attribute("success") != "true":
			open[last].failed = true
		}
	})
}
