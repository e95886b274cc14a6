package swebench

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk/testlog"
)

// The lines that divide a log. The harness prints the first group itself; it has
// the words of all versions.
const (
	patchFailed = ">>>>> Patch Apply Failed"
	resetFailed = ">>>>> Reset Failed"
	testsError  = ">>>>> Tests Errored"
	testsLate   = ">>>>> Tests Timed Out"

	exitCode = ">>>>> Test Exit Code"
)

// The lines between which an eval script has the tests' output.
const (
	StartMarker = ">>>>> Start Test Output"
	EndMarker   = ">>>>> End Test Output"
)

// Run is what the log of one instance says.
type Run struct {
	Outcome    Outcome
	Signature  Signature // of a broken environment; of a run that is not Graded only
	Results    *testlog.Results
	Tests      Tests      // zero unless Graded
	Resolution Resolution // [None] unless Graded
	id         string
}

// Score is 1 if the instance is resolved and 0 if the prediction did not resolve it.
// The error is an [*InvalidError]: the log does not say.
func (r *Run) Score() (float64, error) {
	switch fault := r.Fault(); {
	case fault != Prediction:
		return 0, &InvalidError{ID: r.id, Outcome: r.Outcome, Fault: fault, Signature: r.Signature}
	case r.Resolution == Full:
		return 1, nil
	}
	return 0, nil
}

// Read grades the log of an eval script, test_output.txt, whose tests stand between
// markers and whose exit status is noted behind them ([EvalScript]).
//
// An error means that the instance cannot be graded at all: an unknown log format
// (*testlog.UnknownFormatError) or eval_type.
func Read(s *Spec, log string) (*Run, error) {
	log = testlog.Newlines(log)
	if o, noted := notedFailure(log); noted {
		return invalid(s, o, log)
	}
	_, tests, started := strings.Cut(log, StartMarker)
	if !started || !strings.Contains(log, EndMarker) {
		switch {
		case ranOutOfTime(log):
			return invalid(s, TimedOut, log)
		case started:
			return invalid(s, CutShort, log)
		}
		return invalid(s, NotStarted, log)
	}
	tests, _, _ = strings.Cut(tests, StartMarker)
	tests, _, _ = strings.Cut(tests, EndMarker)

	results, err := testlog.Parse(Format(s.LogParser, s.ID), tests)
	if err != nil {
		return nil, fmt.Errorf("grade: %s: %w", s.ID, err)
	}
	if results.Len() == 0 {
		// Some runners' output lands outside the markers.
		if results, err = testlog.Parse(Format(s.LogParser, s.ID), log); err != nil {
			return nil, err
		}
	}
	switch {
	case results.Dropped() > 0:
		return invalid(s, Flooded, log)
	case results.Len() == 0 && !suiteRan(log):
		return invalid(s, Silent, log)
	case results.Len() > 0 && exitedBadly(log) && !results.Any(testlog.Status.Fails):
		return invalid(s, Contradicted, log)
	}
	return graded(s, results)
}

// ReadFirst grades a log of the harness's first version (2023 and 2024), in which
// whatever follows the application of the prediction is the tests' output, and no
// exit status is noted. The rules for statuses are [Read]'s.
func ReadFirst(s *Spec, log string) (*Run, error) {
	const applied = ">>>>> Applied Patch"
	log = testlog.Newlines(log)
	if o, noted := notedFailure(log); noted {
		return invalid(s, o, log)
	}
	if !strings.Contains(log, applied) {
		return invalid(s, NotStarted, log)
	}
	if i := strings.LastIndex(log, applied+" (pred)"); i >= 0 {
		log = log[i+len(applied+" (pred)"):]
	}
	if !strings.Contains(log, ">>>>> Some Tests Failed") && !strings.Contains(log, ">>>>> All Tests Passed") {
		return invalid(s, CutShort, log)
	}
	results, err := testlog.Parse(Format(s.LogParser, s.ID), log)
	if err != nil {
		return nil, fmt.Errorf("grade: %s: %w", s.ID, err)
	}
	switch {
	case results.Dropped() > 0:
		return invalid(s, Flooded, log)
	case results.Len() == 0 && !suiteRan(log):
		return invalid(s, Silent, log)
	}
	return graded(s, results)
}

// notedFailure is what the harness itself wrote into a log that ends a run.
func notedFailure(log string) (Outcome, bool) {
	for _, f := range []struct {
		mark    string
		outcome Outcome
	}{{patchFailed, NotApplied}, {resetFailed, NotReset}, {testsError, Broken}, {testsLate, TimedOut}} {
		if strings.Contains(log, f.mark) {
			return f.outcome, true
		}
	}
	return 0, false
}

func graded(s *Spec, results *testlog.Results) (*Run, error) {
	tests, err := Compare(s, results)
	if err != nil {
		return nil, err
	}
	return &Run{Outcome: Graded, Results: results, Tests: *tests, Resolution: tests.Resolution(), id: s.ID}, nil
}

func invalid(s *Spec, o Outcome, log string) (*Run, error) {
	if !testlog.Known(Format(s.LogParser, s.ID)) {
		_, err := testlog.Parse(Format(s.LogParser, s.ID), "")
		return nil, fmt.Errorf("grade: %s: %w", s.ID, err)
	}
	return &Run{Outcome: o, Signature: Classify(log), Results: new(testlog.Results), id: s.ID}, nil
}

// exitedBadly reports whether the first exit status that a log notes is not 0.
func exitedBadly(log string) bool {
	for {
		_, rest, ok := strings.Cut(log, exitCode+":")
		if !ok {
			return false
		}
		number := strings.TrimPrefix(strings.TrimLeftFunc(rest, space), "-")
		if n := digits(number); n > 0 {
			return strings.Trim(number[:n], "0") != ""
		}
		log = rest
	}
}
