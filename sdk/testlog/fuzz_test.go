package testlog_test

import (
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/testlog"
)

func FuzzCargo(f *testing.F)      { fuzz(f, "cargo") }
func FuzzCTRF(f *testing.F)       { fuzz(f, "ctrf") }
func FuzzGoTest(f *testing.F)     { fuzz(f, "gotest") }
func FuzzGoTestJSON(f *testing.F) { fuzz(f, "gotest_json") }
func FuzzJest(f *testing.F)       { fuzz(f, "jest") }
func FuzzJUnit(f *testing.F)      { fuzz(f, "junit") }
func FuzzMocha(f *testing.F)      { fuzz(f, "mocha") }
func FuzzPytest(f *testing.F)     { fuzz(f, "pytest") }
func FuzzUnittest(f *testing.F)   { fuzz(f, "unittest") }
func FuzzVitest(f *testing.F)     { fuzz(f, "vitest") }

// fuzz reads any log in one of the runners' own formats. Whatever a log holds, what
// its first lines say is still there when the others are read, and no better.
func fuzz(f *testing.F, format string) {
	for _, c := range cases {
		if c.format == format {
			f.Add(c.log, len(c.log)/2)
		}
	}
	f.Fuzz(func(t *testing.T, log string, cut int) {
		whole := check(t, format, log)
		cut = max(0, min(cut, len(log)))
		if cut = strings.LastIndexByte(log[:cut], '\n'); cut < 0 {
			return
		}
		part := check(t, format, log[:cut])
		for id, s := range part.All() {
			if whole.Status(id) < s {
				t.Errorf("%q is %s, and in the first %d bytes %s", id, whole.Status(id), cut, s)
			}
		}
	})
}

func FuzzHarnessPytest(f *testing.F) {
	fuzzHarness(f, "pytest", "pytest_options", "pytest_v2", "matplotlib", "seaborn")
}
func FuzzHarnessDjango(f *testing.F) { fuzzHarness(f, "django") }
func FuzzHarnessSympy(f *testing.F)  { fuzzHarness(f, "sympy") }
func FuzzHarnessJavaScript(f *testing.F) {
	fuzzHarness(f, "parse_log_jest", "jest_json", "parse_log_vitest", "karma", "tap")
}
func FuzzHarnessCompiled(f *testing.F) {
	fuzzHarness(f, "parse_log_cargo", "parse_log_gotest", "googletest", "doctest", "redis", "jq", "micropython_test", "maven", "ant", "gradle_custom")
}
func FuzzHarnessScripted(f *testing.F) {
	fuzzHarness(f, "phpunit", "minitest", "cucumber", "ruby_unit", "rspec_transformed_json")
}

func fuzzHarness(f *testing.F, formats ...string) {
	for _, c := range cases {
		f.Add(c.log)
	}
	f.Add("test_a (m.T) ... Testing against Django installed in x\n silenced).\nok\nx ... Internal Server Error: /a/\nok")
	f.Add("____ a.py:b ____\ntest_c ok\n[err]: a in b\n[       OK ] A.b (3 ms)\n  ✔ a\nS (T)\nf.feature ....F\nT#a. 0.01 s = .\ntest: a: .: (0.1)")
	f.Fuzz(func(t *testing.T, log string) {
		for _, format := range formats {
			check(t, format, log)
		}
	})
}

// check reads a log and wants ids and statuses that can be.
func check(t *testing.T, format, log string) *testlog.Results {
	t.Helper()
	r, err := testlog.Parse(format, log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for id, s := range r.All() {
		n++
		if s == testlog.Missing || s > testlog.Errored || s == testlog.Unclear && !testlog.Official(format) || r.Status(id) != s {
			t.Errorf("%s: %q is %s", format, id, s)
		}
		if len(id) > 8<<10 {
			t.Errorf("%s: an id of %d bytes", format, len(id))
		}
	}
	if n != r.Len() {
		t.Errorf("%s: %d tests listed of %d", format, n, r.Len())
	}
	return r
}
