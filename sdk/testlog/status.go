package testlog

// Status is how a test ended, ordered from best to worst: the greater of two is
// what a test that ended twice is worth.
type Status uint8

const (
	Missing         Status = iota // the log does not say
	Passed                        //
	ExpectedFailure               // failed, as its author said it would
	Skipped                       //
	Unclear                       // the harness's formats only: a word that begins like a status and is none, as in "ERROR: usage"
	Failed                        // also a test that passed and should not have
	Errored                       // failed outside its own assertions: in a fixture, at import
)

// String gives the word of the field: "PASSED", "XFAIL", "SKIPPED", "FAILED",
// "ERROR"; "UNCLEAR" and "MISSING" are ours.
func (s Status) String() string {
	switch s {
	case Passed:
		return "PASSED"
	case ExpectedFailure:
		return "XFAIL"
	case Skipped:
		return "SKIPPED"
	case Unclear:
		return "UNCLEAR"
	case Failed:
		return "FAILED"
	case Errored:
		return "ERROR"
	}
	return "MISSING"
}

// Passes reports whether a test that ended so did what its author expects of it.
func (s Status) Passes() bool { return s == Passed || s == ExpectedFailure }

// Fails reports whether the runner itself calls this a failure.
func (s Status) Fails() bool { return s == Failed || s == Errored }
