package swebench

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk/testlog"
)

// Tests sorts an instance's expected tests, in their order, by how they went.
type Tests struct {
	FailToPass, PassToPass Split
}

// Split has the tests of one list. A test whose status is Unclear is in neither.
type Split struct{ Success, Failure []string }

// Share of the tests that succeeded; 1 if there are none.
func (s *Split) Share() float64 {
	n := len(s.Success) + len(s.Failure)
	if n == 0 {
		return 1
	}
	return float64(len(s.Success)) / float64(n)
}

// Resolution is how far an instance is solved.
type Resolution uint8

const (
	None    Resolution = iota
	Partial            // some of FailToPass and all of PassToPass succeed
	Full               // all of both
)

// String gives the harness's word.
func (r Resolution) String() string {
	return [...]string{"RESOLVED_NO", "RESOLVED_PARTIAL", "RESOLVED_FULL"}[r]
}

// Resolution of an instance whose tests went so.
func (t *Tests) Resolution() Resolution {
	f, p := t.FailToPass.Share(), t.PassToPass.Share()
	switch {
	case p < 1 || f == 0:
		return None
	case f < 1:
		return Partial
	}
	return Full
}

// Compare sorts the tests that s expects by the results of a run.
//
// A test of FailToPass succeeds if it passed or failed as expected (XFAIL); one of
// PassToPass also if it was skipped. One that the log does not name has failed,
// unless s is fail_only, where it has succeeded: then only Failed is a failure.
func Compare(s *Spec, results *testlog.Results) (*Tests, error) {
	t := new(Tests)
	switch s.EvalType {
	case PassAndFail, "":
		for _, id := range s.FailToPass {
			t.FailToPass.add(id, status(results, id), testlog.Status.Passes)
		}
		for _, id := range s.PassToPass {
			t.PassToPass.add(id, status(results, id), func(s testlog.Status) bool { return s.Passes() || s == testlog.Skipped })
		}
	case FailOnly:
		notFailed := func(s testlog.Status) bool { return s != testlog.Failed }
		for _, id := range s.FailToPass {
			t.FailToPass.add(id, results.Status(id), notFailed)
		}
		for _, id := range s.PassToPass {
			t.PassToPass.add(id, results.Status(id), notFailed)
		}
	default:
		return nil, fmt.Errorf("grade: %s: eval_type: %q is neither %s nor %s", s.ID, s.EvalType, PassAndFail, FailOnly)
	}
	return t, nil
}

func (s *Split) add(id string, of testlog.Status, succeeds func(testlog.Status) bool) {
	switch {
	case succeeds(of):
		s.Success = append(s.Success, id)
	case of != testlog.Unclear:
		s.Failure = append(s.Failure, id)
	}
}

// status finds a test by its id. Some ids of the data are cut off within a parameter
// ("test[log(photon"): such a one stands for the tests that begin so, if they agree
// on whether they passed; the first of them then speaks for all.
func status(results *testlog.Results, id string) testlog.Status {
	if s := results.Status(id); s != testlog.Missing || strings.Count(id, "[") <= strings.Count(id, "]") {
		return s
	}
	first := testlog.Missing
	for name, s := range results.All() {
		switch {
		case !strings.HasPrefix(name, id):
		case first == testlog.Missing:
			first = s
		case first.Passes() != s.Passes():
			return testlog.Missing
		}
	}
	return first
}
