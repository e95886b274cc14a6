package swebench_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/swebench"
	"github.com/valence-rl/valence/sdk/testlog"
)

// within puts the markers of an eval script around the tests' output.
func within(tests string, rest ...string) string {
	return "+ : '>>>>> Start Test Output'\n" + tests + "\n+ : '>>>>> End Test Output'\n" + strings.Join(rest, "\n")
}

var spec = swebench.Spec{ID: "o__r-1", LogParser: "parse_log_pytest", FailToPass: []string{"t.py::a"}, PassToPass: []string{"t.py::b"}}

func TestRead(t *testing.T) {
	const both = "PASSED t.py::a\nPASSED t.py::b"
	for _, tt := range []struct {
		name, log  string
		outcome    swebench.Outcome
		resolution swebench.Resolution
		fault      swebench.Fault
		reason     string
	}{
		{"resolved", within(both), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"CRLF", strings.ReplaceAll(within(both), "\n", "\r\n"), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"exit status 0", within(both, ">>>>> Test Exit Code: 0"), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"failed", within("FAILED t.py::a - x\nPASSED t.py::b", ">>>>> Test Exit Code: 1"), swebench.Graded, swebench.None, swebench.Prediction, ""},
		{"failed elsewhere", within(both+"\nFAILED t.py::c", ">>>>> Test Exit Code: 1"), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"passes, and exits with an error", within(both, ">>>>> Test Exit Code: 1"), swebench.Contradicted, swebench.None, swebench.Prediction, ""},
		{"killed", within(both+"\nKilled", ">>>>> Test Exit Code: 137"), swebench.Contradicted, swebench.None, swebench.Infrastructure, "out_of_memory"},
		{"the first exit status counts", within(both, ">>>>> Test Exit Code: x", ">>>>> Test Exit Code: 0", ">>>>> Test Exit Code: 1"), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"outside the markers", both + "\n" + within(""), swebench.Graded, swebench.Full, swebench.Prediction, ""},
		{"before the markers, and some within", both + "\n" + within("PASSED t.py::a"), swebench.Graded, swebench.None, swebench.Prediction, ""},
		{"cut within the tests", ">>>>> Start Test Output\n" + both, swebench.CutShort, swebench.None, swebench.Infrastructure, ""},
		{"never started", "pip install failed", swebench.NotStarted, swebench.None, swebench.Undecided, ""},
		{"no network", "Could not resolve host: x", swebench.NotStarted, swebench.None, swebench.Infrastructure, "network_unreachable"},
		{"empty", "", swebench.NotStarted, swebench.None, swebench.Undecided, ""},
		{"no tests", within("ModuleNotFoundError: No module named 'x'"), swebench.Silent, swebench.None, swebench.Undecided, "missing_module"},
		{"no browser", within("Failed to launch"), swebench.Silent, swebench.None, swebench.Infrastructure, "browser_launch_failed"},
		{"a suite that names no test", within("3 passing"), swebench.Graded, swebench.None, swebench.Prediction, ""},
		{"late", ">>>>> Start Test Output\n" + both + "\n\nTimeout error: 1800 seconds exceeded.", swebench.TimedOut, swebench.None, swebench.Prediction, "tests_timed_out"},
		{"late, in the words of the first version", within(both, ">>>>> Tests Timed Out after 900 seconds"), swebench.TimedOut, swebench.None, swebench.Prediction, ""},
		{"not applied", within(both, ">>>>> Patch Apply Failed"), swebench.NotApplied, swebench.None, swebench.Prediction, ""},
		{"not reset", within(both, ">>>>> Reset Failed"), swebench.NotReset, swebench.None, swebench.Infrastructure, ""},
		{"errored", within(both, ">>>>> Tests Errored"), swebench.Broken, swebench.None, swebench.Infrastructure, ""},
		{"flooded", within("PASSED " + strings.Repeat("x", 10_000)), swebench.Flooded, swebench.None, swebench.Prediction, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run, err := swebench.Read(&spec, tt.log)
			if err != nil {
				t.Fatal(err)
			}
			if run.Outcome != tt.outcome || run.Resolution != tt.resolution || run.Fault() != tt.fault || run.Signature.Reason != tt.reason {
				t.Errorf("%s, %s, fault %d, %q", run.Outcome, run.Resolution, run.Fault(), run.Signature.Reason)
			}
			score, err := run.Score()
			var invalid *swebench.InvalidError
			if errors.As(err, &invalid) != (tt.fault != swebench.Prediction) || (score == 1) != (tt.resolution == swebench.Full) {
				t.Errorf("score %g, error %v", score, err)
			}
			if report := swebench.NewReport(&spec, run); report.Applied != (tt.outcome == swebench.Graded) || report.Resolved != (score == 1) {
				t.Errorf("report %+v", report)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	s := spec
	s.LogParser = "parse_log_nose"
	var unknown *testlog.UnknownFormatError
	for _, log := range []string{"", within("x"), ">>>>> Reset Failed"} {
		if _, err := swebench.Read(&s, log); !errors.As(err, &unknown) {
			t.Errorf("%q: %v", log, err)
		}
	}
	s = spec
	s.EvalType = "pass"
	if _, err := swebench.Read(&s, within("PASSED a")); err == nil || !strings.Contains(err.Error(), "eval_type") {
		t.Errorf("eval_type: %v", err)
	}
}

// TestStatuses holds what each status is worth in either list.
func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		line            string
		f2p, p2p, alone string // + success, - failure, . in neither list
	}{
		{"PASSED t", "+", "+", "+"},
		{"XFAIL t", "+", "+", "+"},
		{"SKIPPED t", "-", "+", "+"},
		{"FAILED t", "-", "-", "-"},
		{"ERROR t", "-", "-", "+"},
		{"ERROR: t", ".", ".", "+"},
		{"PASSED other", "-", "-", "+"},
	} {
		results, err := testlog.Parse("parse_log_pytest", tt.line)
		if err != nil {
			t.Fatal(err)
		}
		s := swebench.Spec{FailToPass: []string{"t"}, PassToPass: []string{"t"}}
		tests, err := swebench.Compare(&s, results)
		if err != nil {
			t.Fatal(err)
		}
		s.EvalType = swebench.FailOnly
		alone, err := swebench.Compare(&s, results)
		if err != nil {
			t.Fatal(err)
		}
		if got := sign(tests.FailToPass) + sign(tests.PassToPass) + sign(alone.FailToPass) + sign(alone.PassToPass); got != tt.f2p+tt.p2p+tt.alone+tt.alone {
			t.Errorf("%s: %s", tt.line, got)
		}
	}
}

func sign(s swebench.Split) string {
	switch {
	case len(s.Success) > 0:
		return "+"
	case len(s.Failure) > 0:
		return "-"
	}
	return "."
}

// TestCutIDs holds when an id that the data has cut off within a parameter stands for
// the tests that begin so.
func TestCutIDs(t *testing.T) {
	for _, tt := range []struct {
		name, log, id string
		f2p, p2p      string
	}{
		{"one", "PASSED t[a]", "t[", "+", "+"},
		{"all pass", "PASSED t[a]\nXFAIL t[b]", "t[", "+", "+"},
		{"they disagree", "PASSED t[a]\nFAILED t[b]", "t[", "-", "-"},
		{"none pass, the first is skipped", "SKIPPED t[a]\nFAILED t[b]", "t[", "-", "+"},
		{"none pass, the first has failed", "FAILED t[a]\nSKIPPED t[b]", "t[", "-", "-"},
		{"an id that is whole", "PASSED t[a]x", "t[a]", "-", "-"},
		{"exactly", "FAILED t[\nPASSED t[a]", "t[", "-", "-"},
		{"no parameter", "PASSED tx", "t", "-", "-"},
	} {
		results, err := testlog.Parse("parse_log_pytest", tt.log)
		if err != nil {
			t.Fatal(err)
		}
		tests, err := swebench.Compare(&swebench.Spec{FailToPass: []string{tt.id}, PassToPass: []string{tt.id}}, results)
		if err != nil {
			t.Fatal(err)
		}
		if got := sign(tests.FailToPass) + sign(tests.PassToPass); got != tt.f2p+tt.p2p {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestResolution(t *testing.T) {
	split := func(good, bad int) swebench.Split {
		return swebench.Split{Success: slices.Repeat([]string{"g"}, good), Failure: slices.Repeat([]string{"b"}, bad)}
	}
	for _, tt := range []struct {
		f2p, p2p swebench.Split
		want     string
	}{
		{split(2, 0), split(3, 0), "RESOLVED_FULL"},
		{split(0, 0), split(0, 0), "RESOLVED_FULL"},
		{split(1, 1), split(3, 0), "RESOLVED_PARTIAL"},
		{split(1, 1), split(0, 0), "RESOLVED_PARTIAL"},
		{split(0, 2), split(3, 0), "RESOLVED_NO"},
		{split(2, 0), split(2, 1), "RESOLVED_NO"},
		{split(1, 1), split(2, 1), "RESOLVED_NO"},
	} {
		if got := (&swebench.Tests{FailToPass: tt.f2p, PassToPass: tt.p2p}).Resolution().String(); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// TestEvidence holds what shows that a suite ran which names failures alone.
func TestEvidence(t *testing.T) {
	s := swebench.Spec{ID: "o__r-1", LogParser: "parse_log_tap", EvalType: swebench.FailOnly, FailToPass: []string{"t"}}
	for line, ran := range map[string]bool{
		"Executed 3 of 4 SUCCESS": true, "Executed 0 of 0": false, "TOTAL: 10 SUCCESS": true, "TOTAL: 0 FAILED": false,
		"10 passing": true, "0 passing": false, "Tests:  3 total": true, "Tests:  0 total": false,
		"Test Suites: 1 failed, 2 total": true, "Test Suites: 0 total": false, "Test Suites: 1 failed, 0 total": false,
		"# tests 12": true, "# tests 0": false, " # tests 12": false, "12 specs, 0 failures": true, "0 specs, 0 failures": false,
		"1 spec, 0 failures": true, "<case': ok": true, "<case': okay": false, "nothing": false,
	} {
		run, err := swebench.Read(&s, within(line))
		if err != nil || (run.Outcome == swebench.Graded) != ran || (run.Resolution == swebench.Full) != ran {
			t.Errorf("%q: %+v, error %v", line, run, err)
		}
	}
}

func TestEvalTypeOf(t *testing.T) {
	if swebench.EvalTypeOf("eslint/eslint") != swebench.FailOnly || swebench.EvalTypeOf("django/django") != swebench.PassAndFail {
		t.Error("the lists are mixed up")
	}
}

func TestEvalScript(t *testing.T) {
	in := "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\ngit checkout x\n"
	want := "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest\nSWEBENCH_TEST_EXIT_CODE=$?\n: '>>>>> End Test Output'\n" +
		"echo \">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE\"\ngit checkout x\n"
	if got := swebench.EvalScript(in); got != want {
		t.Errorf("got %q", got)
	}
}

func TestReadFirst(t *testing.T) {
	const head = "x\n>>>>> Applied Patch (pred)\n"
	for name, want := range map[string]swebench.Outcome{
		head + "PASSED t.py::a\nPASSED t.py::b\n>>>>> All Tests Passed\n":                       swebench.Graded,
		head + "PASSED t.py::a\nPASSED t.py::b\n":                                               swebench.CutShort,
		"PASSED t.py::a\nPASSED t.py::b\n>>>>> All Tests Passed\n":                              swebench.NotStarted,
		head + "Traceback\n>>>>> Some Tests Failed\n":                                           swebench.Silent,
		"PASSED t.py::a\n" + head + "PASSED t.py::a\nPASSED t.py::b\n>>>>> Tests Timed Out\n":   swebench.TimedOut,
		">>>>> Patch Apply Failed\n":                                                            swebench.NotApplied,
		head + ">>>>> Reset Failed":                                                             swebench.NotReset,
		head + "PASSED " + strings.Repeat("x", 10_000) + "\n>>>>> Some Tests Failed (exit 1)\n": swebench.Flooded,
	} {
		run, err := swebench.ReadFirst(&spec, name)
		if err != nil || run.Outcome != want || (run.Resolution == swebench.Full) != (want == swebench.Graded) {
			t.Errorf("%.80q: %+v, error %v", name, run, err)
		}
	}
}

// FuzzRead wants a verdict of every log, and no score without one that was graded.
func FuzzRead(f *testing.F) {
	f.Add(within("PASSED t.py::a\nPASSED t.py::b", ">>>>> Test Exit Code: 1"), true)
	f.Add(">>>>> Applied Patch (pred)\nPASSED t.py::a\n>>>>> All Tests Passed", false)
	f.Add("Timeout error: 3 seconds exceeded.\nTest Suites: 1 failed, 2 total\nKilled", true)
	f.Fuzz(func(t *testing.T, log string, alone bool) {
		s := spec
		if alone {
			s.EvalType = swebench.FailOnly
		}
		for _, read := range []func(*swebench.Spec, string) (*swebench.Run, error){swebench.Read, swebench.ReadFirst} {
			run, err := read(&s, log)
			if err != nil {
				t.Fatal(err)
			}
			score, err := run.Score()
			if score != 0 && (err != nil || run.Outcome != swebench.Graded) {
				t.Errorf("score %g, error %v, %s", score, err, run.Outcome)
			}
			if n := len(run.Tests.FailToPass.Success) + len(run.Tests.FailToPass.Failure); n > 1 || run.Outcome != swebench.Graded && n > 0 {
				t.Errorf("%d tests of 1", n)
			}
			swebench.NewReport(&s, run).JSON()
		}
	})
}
