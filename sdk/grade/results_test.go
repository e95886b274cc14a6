package grade

import (
	"maps"
	"strings"
	"testing"
)

func TestTestID(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"test_a (m.T)", "m.T.test_a"},
		{"test_a (m.T.test_a)", "m.T.test_a"},
		{" test_a (p.m.T) ", "p.m.T.test_a"},
		{"m.T.test_a", "m.T.test_a"},
		{"tests/test_a.py::T::test_a", "tests/test_a.py::T::test_a"},
		{"tests/test_a.py::test_b[x (y)]", "tests/test_a.py::test_b[x (y)]"},
		{"setUpClass (m.T)", "m.T.setUpClass"},
		{"Adds two numbers.", "Adds two numbers."},
	} {
		if got := TestID(tt.in); got != tt.want {
			t.Errorf("TestID(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParseLog(t *testing.T) {
	tests := []struct {
		name, format, log string
		want              Results
	}{
		{
			name: "unittest", format: "unittest",
			log: "test_a (m.T.test_a) ... ok\r\ntest_b (m.T) ... FAIL\ntest_c (m.T.test_c)\nSays what it does. ... ERROR\n" +
				"test_d (m.T.test_d) ... skipped 'no'\ntest_e (m.T.test_e) ... expected failure\ntest_f (m.T.test_f) ... unexpected success\n" +
				"\n======\nFAIL: test_b (m.T)\n------\nRan 6 tests\n\nFAILED (failures=1)\n",
			want: Results{"m.T.test_a": Passed, "m.T.test_b": Failed, "m.T.test_c": Failed, "m.T.test_d": Skipped, "m.T.test_e": Passed, "m.T.test_f": Failed},
		},
		{
			name: "unittest with output in between", format: "unittest",
			log:  "test_a (m.T.test_a) ... hello\nworld\nok\ntest_b (m.T.test_b) ... FAIL\n",
			want: Results{"m.T.test_a": Passed, "m.T.test_b": Failed},
		},
		{
			name: "unittest, contradictory", format: "unittest",
			log:  "test_a (m.T) ... FAIL\ntest_a (m.T) ... ok\n",
			want: Results{"m.T.test_a": Failed},
		},
		{name: "unittest, cut short", format: "unittest", log: "test_a (m.T) ... ", want: Results{}},
		{
			name: "pytest summary", format: "pytest",
			log:  "PASSED t.py::test_a\nFAILED t.py::test_b[1 - 2] - AssertionError: x\nERROR t.py::test_c\nSKIPPED [1] t.py:3: no\nXFAIL t.py::test_d - why\nXPASS t.py::test_e\n",
			want: Results{"t.py::test_a": Passed, "t.py::test_b[1 - 2]": Failed, "t.py::test_c": Failed, "t.py::test_d": Passed, "t.py::test_e": Failed},
		},
		{
			name: "pytest -v", format: "pytest",
			log:  "t.py::T::test_a PASSED      [ 50%]\r\nt.py::T::test_b[x y] FAILED [100%]\nt.py::test_c SKIPPED\n",
			want: Results{"t.py::T::test_a": Passed, "t.py::T::test_b[x y]": Failed, "t.py::test_c": Skipped},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ParseLog(tt.format, tt.log)
			if !ok || !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if _, ok := ParseLog("tap", "ok 1"); ok {
		t.Error("an unknown format was read")
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add("test_a (m.T)\nDoc ... ok\nPASSED t.py::a - b\nt.py::b FAILED [ 1%]")
	f.Fuzz(func(t *testing.T, log string) {
		for _, format := range []string{"unittest", "pytest"} {
			r, _ := ParseLog(format, log)
			for id, s := range r {
				if id == "" && format == "unittest" || s != Passed && s != Failed && s != Skipped {
					t.Fatalf("%s: %q is %q", format, id, s)
				}
			}
		}
	})
}

func FuzzTestID(f *testing.F) {
	f.Add("test_a (m.T)")
	f.Fuzz(func(t *testing.T, s string) {
		if once := TestID(s); !strings.Contains(s, " (") && once != strings.TrimSpace(s) {
			t.Fatalf("%q became %q", s, once)
		}
	})
}
