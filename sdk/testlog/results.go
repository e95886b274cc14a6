package testlog

import (
	"iter"
	"strings"
)

const (
	// maxID is the length of the longest id that is kept, in bytes. Tools name
	// tests in a few hundred; names are joined from what surrounds a test, so that
	// without a bound a log of one megabyte could ask for terabytes.
	maxID = 8 << 10
	// maxText bounds the ids of one log together, in bytes.
	maxText = 64 << 20
)

// tooLong is an id that is not kept.
var tooLong = strings.Repeat("x", maxID+1)

// Results has the status of each test that a log names, in the order in which
// they were first named. The zero value is empty.
type Results struct {
	ids     []string
	status  map[string]Status
	text    int
	dropped int
	ended   bool
}

// Len is the number of tests.
func (r *Results) Len() int { return len(r.ids) }

// Status of a test by its id; [Missing] if the log does not name it.
func (r *Results) Status(id string) Status { return r.status[id] }

// All lists the tests in the order in which the log first names them.
func (r *Results) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for _, id := range r.ids {
			if !yield(id, r.status[id]) {
				return
			}
		}
	}
}

// Any reports whether some test has a status of which is says true.
func (r *Results) Any(is func(Status) bool) bool {
	for _, s := range r.status {
		if is(s) {
			return true
		}
	}
	return false
}

// Ended reports whether the runner's own last words were read: its summary, or
// the end of its document. Without them the log was cut or the runner died, and
// tests that the log does not name may or may not have run. Formats whose names
// begin with "parse_log_" do not look, as their logs have markers around them.
func (r *Results) Ended() bool { return r.ended }

// Dropped counts tests that were not kept because their ids were too long (8 KiB)
// or too many (64 MiB together). No real log comes near; what absent tests mean is
// not to be asked of such a log.
func (r *Results) Dropped() int { return r.dropped }

// put records how a test ended; the last word counts.
func (r *Results) put(id string, s Status) {
	if _, known := r.status[id]; !known {
		if len(id) > maxID || r.text+len(id) > maxText {
			r.dropped++
			return
		}
		if r.status == nil {
			r.status = map[string]Status{}
		}
		r.text += len(id)
		r.ids = append(r.ids, id)
	}
	r.status[id] = s
}

// worsen records how a test ended; the worst word counts.
func (r *Results) worsen(id string, s Status) { r.put(id, max(s, r.status[id])) }

// join makes the id of a test from the suites around it and its own name. An id
// that would be too long is given in a form that put does not keep.
func (r *Results) join(suites []string, name string) string {
	const between = " > "
	n := len(name)
	for _, s := range suites {
		n += len(s) + len(between)
	}
	if n > maxID {
		return tooLong
	}
	var b strings.Builder
	b.Grow(n)
	for _, s := range suites {
		b.WriteString(s)
		b.WriteString(between)
	}
	b.WriteString(name)
	return b.String()
}
