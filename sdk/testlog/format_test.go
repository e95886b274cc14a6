package testlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/testlog"
)

// read gives what a log says as "STATUS id" lines, in order.
func read(t testing.TB, format, log string) (out []string, ended bool) {
	t.Helper()
	r, err := testlog.Parse(format, log)
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range r.All() {
		out = append(out, fmt.Sprintf("%s %s", s, id))
	}
	return out, r.Ended()
}

// cases has, for each runner's own format, a log and what it says. The logs are what
// the runners print.
var cases = []struct {
	name, format, log string
	want              []string
	ended             bool
}{
	{
		"summary", "pytest",
		"=== short test summary info ===\nPASSED t.py::test_a\nFAILED t.py::test_b[1 - 2] - AssertionError: x\nERROR t.py::test_c\nSKIPPED [1] t.py:3: no::thing\n" +
			"XFAIL t.py::test_d - why\nXPASS t.py::test_e\nFAILED t.py::test_f[a] - b] - c\n=== 1 failed, 2 passed in 0.12s ===\n",
		[]string{"PASSED t.py::test_a", "FAILED t.py::test_b[1 - 2]", "ERROR t.py::test_c", "XFAIL t.py::test_d", "FAILED t.py::test_e", "FAILED t.py::test_f[a]"}, true,
	},
	{
		"verbose, with reasons and colours", "pytest",
		"t.py::T::test_a \x1b[32mPASSED\x1b[0m\x1b[32m      [ 50%]\x1b[0m\r\nt.py::T::test_b[x y] FAILED [100%]\nt.py::test_c SKIPPED (no reason)  [ 75%]\nt.py::test_d XFAIL (why (so))\n",
		[]string{"PASSED t.py::T::test_a", "FAILED t.py::T::test_b[x y]", "SKIPPED t.py::test_c", "XFAIL t.py::test_d"}, false,
	},
	{
		"xdist", "pytest",
		"[gw0] [ 50%] PASSED t.py::test_a \n[gw1] [100%] FAILED t.py::test_b[x y] \n2 passed in 1.00s\n",
		[]string{"PASSED t.py::test_a", "FAILED t.py::test_b[x y]"}, true,
	},
	{
		"output between name and status", "pytest",
		"t.py::test_a[1 2] hello\nworld\nPASSED\nt.py::test_b out ERROR\nt.py::test_c \nFAILED [ 30%]\n",
		[]string{"PASSED t.py::test_a[1 2]", "ERROR t.py::test_b out", "FAILED t.py::test_c"}, false,
	},
	{
		"the worst counts", "pytest", "PASSED t.py::a\nERROR t.py::a - at teardown\nPASSED t.py::b\nSUBFAIL t.py::b - x\nPASSED t.py::b\n",
		[]string{"ERROR t.py::a", "FAILED t.py::b"}, false,
	},
	{"cut", "pytest", "t.py::test_a PASSED\nt.py::test_b PAS", []string{"PASSED t.py::test_a"}, false},
	{"no tests", "pytest", "==== no tests ran in 0.01s ====", nil, true},
	{
		"verbose", "unittest",
		"test_a (m.T.test_a) ... ok\r\ntest_b (m.T) ... FAIL\ntest_c (m.T.test_c)\nSays what it does. ... ERROR\n" +
			"test_d (m.T.test_d) ... skipped 'no'\ntest_e (m.T.test_e) ... expected failure\ntest_f (m.T.test_f) ... unexpected success\n" +
			"\n======\nFAIL: test_b (m.T)\n------\nRan 6 tests in 0.1s\n\nFAILED (failures=1)\n",
		[]string{"PASSED m.T.test_a", "FAILED m.T.test_b", "ERROR m.T.test_c", "SKIPPED m.T.test_d", "XFAIL m.T.test_e", "FAILED m.T.test_f"}, true,
	},
	{
		"output in between", "unittest", "test_a (m.T.test_a) ... hello\nworld\nok\ntest_b (m.T.test_b) ... FAIL\n",
		[]string{"PASSED m.T.test_a", "FAILED m.T.test_b"}, false,
	},
	{"contradictory", "unittest", "test_a (m.T) ... FAIL\ntest_a (m.T) ... ok\n", []string{"FAILED m.T.test_a"}, false},
	{
		"subtests", "unittest", "test_a (m.T) ... test_b (m.T) ... ok\n\nFAIL: test_a (m.T) [msg] (i=1)\nERROR: setUpClass (m.U)\nRan 2 tests in 0.1s\nFAILED (failures=1)",
		[]string{"PASSED m.T.test_b", "FAILED m.T.test_a", "ERROR m.U.setUpClass"}, true,
	},
	{"cut", "unittest", "test_a (m.T) ... ", nil, false},
	{
		"verbose", "gotest",
		"=== RUN   TestA\n=== RUN   TestA/b c\n    a_test.go:3: x\n--- FAIL: TestA (0.00s)\n    --- PASS: TestA/b c (0.00s)\nhello--- PASS: TestB (0.10s)\nsay --- PASS: nothing (1s)\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample.com/p\t0.1s\n",
		[]string{"FAILED TestA", "PASSED TestA/b c", "PASSED TestB", "SKIPPED TestC"}, true,
	},
	{"two packages", "gotest", "--- FAIL: TestA (0.00s)\nFAIL\tp\t0.1s\n--- PASS: TestA (0.00s)\nok  \tq\t0.1s\n", []string{"FAILED TestA"}, true},
	{
		"events", "gotest_json",
		`go: downloading x
{"Action":"start","Package":"e.com/p"}
{"Action":"run","Package":"e.com/p","Test":"TestA"}
{"Action":"output","Package":"e.com/p","Test":"TestA","Output":"--- FAIL: TestZ (0.00s)\n"}
{"Action":"pass","Package":"e.com/p","Test":"TestA/\u00e9\ud83d\ude00","Elapsed":0.01}
{"Action":"pass","Package":"e.com/p","Test":"TestA"}
{"Action":"run","Package":"e.com/q","Test":"TestA"}
{"Action":"pass","Package":"e.com/p"}
{"Action":"skip","Package":"e.com/q","Test":"TestB"}
{"Action":"fail","Package":"e.com/q"}
{"Action":"pass","Package":"e.com/r","Tes`,
		[]string{"PASSED e.com/p.TestA/é😀", "PASSED e.com/p.TestA", "SKIPPED e.com/q.TestB", "FAILED e.com/q.TestA"}, true,
	},
	{"cut", "gotest_json", `{"Action":"run","Package":"p","Test":"TestA"}` + "\n", nil, false},
	{
		"verbose", "jest",
		"\x1b[0m\x1b[7m\x1b[1m\x1b[32m PASS \x1b[39m\x1b[0m \x1b[2msrc/\x1b[22m\x1b[1ma.test.js\x1b[22m (5.1 s)\n  adder\n    when small\n      ✓ adds (3 ms)\n      ✕ fails\n    ✓ is there\n    ○ skipped later\n    ✎ todo write it\n\n  ● adder › fails\n    ✓ not a test\nFAIL src/b.test.js\n  ✓ top\n\nTests:       1 failed, 3 passed, 4 total\n",
		[]string{"PASSED src/a.test.js > adder > when small > adds", "FAILED src/a.test.js > adder > when small > fails", "PASSED src/a.test.js > adder > is there", "SKIPPED src/a.test.js > adder > later", "SKIPPED src/a.test.js > adder > write it", "PASSED src/b.test.js > top"}, true,
	},
	{
		"flat", "vitest",
		" ✓ src/a.test.ts > adder > adds 3ms\n × src/a.test.ts > adder > fails 12ms\n   → expected 1 to be 2\n ↓ src/a.test.ts > later [skipped]\n\n Test Files  1 failed (1)\n      Tests  1 failed | 1 passed (3)\n",
		[]string{"PASSED src/a.test.ts > adder > adds", "FAILED src/a.test.ts > adder > fails", "SKIPPED src/a.test.ts > later"}, true,
	},
	{
		"tree", "vitest", " ❯ src/a.test.ts (3 tests | 1 failed) 12ms\n   ✓ adder (2) 3ms\n     ✓ adds (slow) 3ms\n     × fails\n   ✓ top\n ✓ src/b.test.ts (1 test)\n   ✓ x\n",
		[]string{"PASSED src/a.test.ts > adder > adds (slow)", "FAILED src/a.test.ts > adder > fails", "PASSED src/a.test.ts > top", "PASSED src/b.test.ts > x"}, false,
	},
	{
		"spec", "mocha",
		"\n> mocha\n\n  Array\n    #indexOf()\n      ✔ finds (12ms)\n      1) fails\n      - waits\n    √ last\n\n\n  2 passing (9ms)\n  1 pending\n  1 failing\n\n  1) Array\n       #indexOf()\n         fails:\n     ✓ AssertionError\n",
		[]string{"PASSED Array > #indexOf() > finds", "FAILED Array > #indexOf() > fails", "SKIPPED Array > #indexOf() > waits", "PASSED Array > last"}, true,
	},
	{
		"tests", "cargo",
		"running 4 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored, slow\ntest a::e - should panic ... ok\ntest f ... hello\nworld\nok\ntest g ... printed ok\n" +
			"\nfailures:\n    a::c\n\ntest result: FAILED. 2 passed; 1 failed\n\n   Doc-tests x\ntest src/lib.rs - add (line 3) ... ok\ntest src/lib.rs - n (line 9) - compile fail ... ok\ntest result: ok. 2 passed\n",
		[]string{"PASSED a::b", "FAILED a::c", "SKIPPED a::d", "PASSED a::e", "PASSED f", "PASSED g", "PASSED src/lib.rs - add (line 3)", "PASSED src/lib.rs - n (line 9)"}, true,
	},
	{"cut", "cargo", "test a ... ok\ntest b ...", []string{"PASSED a"}, false},
	{
		"document", "junit",
		`<?xml version="1.0"?><!-- <testcase name="no"/> --><testsuites><testsuite name="s" tests="6"><testcase classname="m.T" name="test_a&lt;1&#x41;&amp;&gt;" time="0.1"/>` +
			`<testcase classname='m.T' name='b > c'><failure message="x > y">trace</failure></testcase><testcase name="d"><skipped/></testcase><testcase name="e"><error/></testcase>` +
			`<testcase name="f"><skipped type="pytest.xfail"/></testcase><testcase name="g"><system-out><![CDATA[<failure/>]]></system-out><flakyFailure/></testcase></testsuite></testsuites>`,
		[]string{"PASSED m.T.test_a<1A&>", "FAILED m.T.b > c", "SKIPPED d", "ERROR e", "XFAIL f", "PASSED g"}, true,
	},
	{"cut", "junit", `<testsuite><testcase name="a"/><testcase name="b"><failure>`, []string{"PASSED a"}, false},
	{
		"document", "ctrf",
		`noise {"reportFormat":"CTRF","results":{"tool":{"name":"x","extra":[{"a":[1,2,{"b":null}]}]},"summary":{"tests":4},"tests":[{"name":"a","status":"passed","duration":1},` +
			`{"name":"b","suite":"s","status":"failed"},{"name":"c","suite":["s","t"],"status":"pending"},{"name":"d","status":"other"},{"status":"passed"}]}} more`,
		[]string{"PASSED a", "FAILED s > b", "SKIPPED s > t > c", "FAILED d"}, true,
	},
	{"cut", "ctrf", `{"results":{"tests":[{"name":"a","status":"passed"},{"name":"b","status":"pas`, []string{"PASSED a"}, false},
	{"not a document", "ctrf", "no tests here", nil, false},
}

func TestParse(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.format+" "+tt.name, func(t *testing.T) {
			got, ended := read(t, tt.format, tt.log)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if ended != tt.ended {
				t.Errorf("ended: %v", ended)
			}
		})
	}
}

// TestParseAnyNewline wants the same of logs with "\r\n", and of "\r" alone.
func TestParseAnyNewline(t *testing.T) {
	for _, tt := range cases {
		for _, newline := range []string{"\r\n", "\r"} {
			log := strings.ReplaceAll(strings.ReplaceAll(tt.log, "\r\n", "\n"), "\n", newline)
			if got, ended := read(t, tt.format, log); !slices.Equal(got, tt.want) || ended != tt.ended {
				t.Errorf("%s %s with %q: got %q", tt.format, tt.name, newline, got)
			}
		}
	}
}

// TestEveryFormatHasACase keeps cases complete for the runners' own formats; the
// harness's are compared with the harness in sdk/swebench.
func TestEveryFormatHasACase(t *testing.T) {
	for _, name := range testlog.Names() {
		if !testlog.Official(name) && !slices.ContainsFunc(cases, func(c struct {
			name, format, log string
			want              []string
			ended             bool
		}) bool {
			return c.format == name
		}) {
			t.Errorf("%s has no case", name)
		}
	}
}

// TestHarnessRules pins what the harness's formats read where no harness is at hand.
func TestHarnessRules(t *testing.T) {
	for _, tt := range []struct {
		format, log string
		want        []string
	}{
		{"parse_log_pytest", "PASSED t.py::a[x y]\nFAILED t.py::b - x\nSKIPPED [3] t.py:1: no\nERROR: usage: x\nPASSED [100%]\nt.py::c PASSED", []string{"PASSED t.py::a[x", "FAILED t.py::b", "UNCLEAR usage:", "PASSED [100%]"}},
		{"parse_log_requests", "PASSED t.py::a[/x/y/z]\nPASSED t.py::b[//x/y]\nPASSED t.py::c[/x/*]", []string{"PASSED t.py::a[/z]", "PASSED t.py::b[//x/y]", "PASSED t.py::c[/x/*]"}},
		{"parse_log_astropy", "\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma b\x1b[0m\nFAILED t.py::c - x - y\nt.py::d e PASSED", []string{"PASSED t.py::a b", "FAILED t.py::c", "PASSED t.py::d e"}},
		{"parse_log_matplotlib", "PASSED t.py::a[MouseButton.LEFT]", []string{"PASSED t.py::a[1]"}},
		{"parse_log_seaborn", "t.py::a PASSED [ 1%]\nPASSED t.py::b\nt.py::c FAILED [ 2%]\nFAILED t.py::c - x", []string{"PASSED t.py::a", "PASSED t.py::b", "FAILED t.py::c"}},
		{"django", "test_a (m.T) ... ok\ntest_b (m.T) ... System check identified no issues (0 silenced)\nok\nFAIL: test_c (m.T)\nDoc. ... skipped 'x'", []string{"PASSED test_a (m.T)", "PASSED test_b (m.T)", "FAILED test_c", "SKIPPED Doc."}},
		{"sympy", "test_a ok\ntest_b F\n_____ sympy/x.py:test_b _____", []string{"FAILED sympy/x.py:test_b", "PASSED test_a", "FAILED test_b"}},
		{"parse_log_gotest", "    --- FAIL: TestA/b (0.00s)\n--- PASS: TestA/b (0.00s)", []string{"PASSED TestA/b"}},
	} {
		if got, _ := read(t, tt.format, tt.log); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.format, got, tt.want)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	for name, near := range map[string]string{"pytset": "pytest", "parse_log_djano": "parse_log_django", "junt": "junit", "something else": ""} {
		_, err := testlog.Parse(name, "")
		var unknown *testlog.UnknownFormatError
		if !errors.As(err, &unknown) || unknown.Name != name || unknown.Near != near {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !testlog.Known("astropy") || testlog.Known("") || testlog.Official("pytest") || !testlog.Official("pytest_v2") {
		t.Error("the families of names are mixed up")
	}
}

func TestDottedID(t *testing.T) {
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
		if got := testlog.DottedID(tt.in); got != tt.want {
			t.Errorf("DottedID(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m":          "red",
		"a\x1b]8;;http://x\x07b\x1b[Kc": "abc",
		"a\x1b]0;t\x1b\\b":              "ab",
		"cut\x1b[3":                     "cut",
		"\x1b":                          "",
		"\x1b(Bx":                       "Bx",
		"\x1b]open\nnext":               "\nnext",
		"\x1béx":                        "x",
	} {
		if got := testlog.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestFlood wants ids bounded, however a log asks for more.
func TestFlood(t *testing.T) {
	suite := strings.Repeat("s", 1<<20)
	for format, log := range map[string]string{
		"phpunit": suite + " (C)\n" + strings.Repeat(" ✔ a\n", 50_000),
		"karma":   "Starting browser\n    " + suite + "\n" + strings.Repeat("      ✔ a\n", 50_000),
		"mocha":   "  " + suite + "\n" + strings.Repeat("    ✔ a\n", 50_000),
		"jest":    "PASS a.js\n  " + suite + "\n" + strings.Repeat("    ✓ a\n", 50_000),
		"junit":   `<testcase classname="` + suite + `" name="a"/>`,
	} {
		r, err := testlog.Parse(format, log)
		if err != nil || r.Len() != 0 || r.Dropped() == 0 {
			t.Errorf("%s: %d tests, %d dropped, error %v", format, r.Len(), r.Dropped(), err)
		}
	}
}
