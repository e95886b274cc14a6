package swebench

import "fmt"

// Outcome says what a log is worth.
type Outcome uint8

const (
	Graded       Outcome = iota // the tests ran: their statuses count
	NotApplied                  // the patch did not apply
	TimedOut                    // the tests did not end within their limit
	NotReset                    // the tree could not be brought to the base commit
	Broken                      // the harness itself failed to run the tests
	NotStarted                  // no tests were started: setting up failed before them
	CutShort                    // the log ends within the tests
	Silent                      // no test is named, and nothing shows that the suite ran
	Contradicted                // the test command failed, and the log names no failure: it describes another run
	Flooded                     // more or longer ids than a log has
)

var outcomes = [...]string{
	"graded", "patch did not apply", "tests timed out", "tree not reset", "harness failed", "tests not started",
	"log cut short", "no test named", "exit status contradicts the log", "too many test ids",
}

func (o Outcome) String() string { return outcomes[o] }

// Fault says whose doing an outcome is.
type Fault uint8

const (
	Prediction     Fault = iota // the patch's: it earns what it earns
	Infrastructure              // the host's or the image's: no score follows
	Undecided                   // either's: the same run without the patch decides
)

// Fault says whose doing the run's outcome is. What the log shows of a broken
// environment goes before all, but for tests that ran.
func (r *Run) Fault() Fault {
	if r.Outcome != Graded && r.Signature.Environment {
		return Infrastructure
	}
	switch r.Outcome {
	case NotReset, Broken, CutShort:
		return Infrastructure
	case NotStarted, Silent:
		return Undecided
	}
	return Prediction
}

// InvalidError says that a log decides nothing about the prediction.
type InvalidError struct {
	ID        string
	Outcome   Outcome
	Fault     Fault // Infrastructure or Undecided
	Signature Signature
}

func (e *InvalidError) Error() string {
	s := fmt.Sprintf("grade: %s: %s", e.ID, e.Outcome)
	if e.Signature.Reason != "" {
		s += " (" + e.Signature.Reason + ")"
	}
	if e.Fault == Undecided {
		s += "; run it without the patch to see whose fault that is"
	}
	return s
}
