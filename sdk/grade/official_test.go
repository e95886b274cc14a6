package grade_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/swebench"
)

// logsOf is a host whose commands print one log with changes and one without.
type logsOf struct {
	sdk.Host
	with, without sdk.Log
	runs          int
}

func (h *logsOf) Run(_ context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	h.runs++
	log := h.without
	if len(r.Changes) > 0 {
		log = h.with
	}
	return &sdk.RunResponse{Logs: []sdk.Log{log}}, nil
}

// TestRunTestsOfSWEbench wants records of SWE-bench graded by its rules, and logs
// that decide nothing told apart from tests that failed.
func TestRunTestsOfSWEbench(t *testing.T) {
	const script = ": '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\n"
	marked := func(tests string) sdk.Log {
		return sdk.Log{Output: "+ : '>>>>> Start Test Output'\n" + tests + "\n+ : '>>>>> End Test Output'\n"}
	}
	good := marked("PASSED t.py::a\nSKIPPED t.py::b")
	for _, tt := range []struct {
		name, command string
		with, without sdk.Log
		solved        bool
		reason        string
		invalid       bool
		runs          int
	}{
		{name: "solved, with a skipped test", command: script, with: good, solved: true, reason: "all 2 tests passed", runs: 1},
		{name: "without markers", command: "pytest -rA", with: sdk.Log{Output: "PASSED t.py::a\nSKIPPED t.py::b"}, solved: true, reason: "all 2 tests passed", runs: 1},
		{name: "failed", command: script, with: marked("FAILED t.py::a - x\nPASSED t.py::b"), reason: "t.py::a: did not pass", runs: 1},
		{name: "late", command: script, with: sdk.Log{TimedOut: true, Output: ">>>>> Start Test Output\n"}, reason: "tests timed out", runs: 1},
		{name: "the changes break it all", command: script, with: marked("SyntaxError"), without: good, reason: "no test named; without the changes the tests run", runs: 2},
		{name: "it is broken anyway", command: script, with: marked("SyntaxError"), without: marked("SyntaxError"), invalid: true, runs: 2},
		{name: "no memory", command: script, with: marked("Killed"), without: good, invalid: true, runs: 1},
		{name: "cut", command: script, with: sdk.Log{Output: ">>>>> Start Test Output\nPASSED t.py::a"}, without: good, invalid: true, runs: 1},
		{name: "cut by the limit of output", command: script, with: sdk.Log{Truncated: true, Output: ">>>>> Start Test Output\nPASSED t.py::a"}, without: good, reason: "log cut short; without the changes the tests run", runs: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &sdk.Record{
				ID: "o__r-1", Repo: "o/r", LogParser: "parse_log_pytest", TestCommand: tt.command,
				FailToPass: []string{"t.py::a"}, PassToPass: []string{"t.py::b"},
			}
			if strings.Contains(tt.with.Output, "SKIPPED t.py::b") != tt.solved {
				t.Fatal("the case is not what it says")
			}
			h := &logsOf{with: tt.with, without: tt.without}
			rep, err := grade.RunTests(t.Context(), h, r, []sdk.Change{{Path: "a.py"}}, 1, "k", 0)
			var invalid *swebench.InvalidError
			if errors.As(err, &invalid) != tt.invalid || (err != nil) != tt.invalid || h.runs != tt.runs {
				t.Fatalf("error %v after %d runs", err, h.runs)
			}
			if err == nil && (rep.Solved != tt.solved || rep.Reason != tt.reason || (rep.FirstNotPassed == "") != tt.solved) {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// TestRunTestsOfOthers wants a skipped test to be no pass where SWE-bench's rules do
// not hold, and a runner that died to be named.
func TestRunTestsOfOthers(t *testing.T) {
	r := &sdk.Record{ID: "x", LogParser: "pytest", TestCommand: "pytest -rA", PassToPass: []string{"t.py::b"}}
	for output, want := range map[string]string{
		"t.py::b SKIPPED (no)\n=== 1 skipped in 0.1s ===": "t.py::b: skipped",
		"t.py::a PASSED":                 "the test runner did not reach its end; t.py::b: not run",
		"XPASS t.py::b\n1 xpassed in 1s": "t.py::b: failed",
		"PASSED t.py::b":                 "all 1 tests passed",
	} {
		rep, err := grade.RunTests(t.Context(), &logsOf{without: sdk.Log{Output: output}}, r, nil, 1, "k", 0)
		if err != nil || rep.Reason != want {
			t.Errorf("%q: %+v, error %v", output, rep, err)
		}
	}
	for parser, known := range map[string]bool{"pytest": true, "parse_log_jekyll": true, "nose": false} {
		r := &sdk.Record{ID: "jekyll__jekyll-9141", LogParser: parser}
		if grade.Known(r) != known {
			t.Errorf("%s: %v", parser, !known)
		}
	}
}
