package swebench_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/swebench"
	"github.com/valence-rl/valence/sdk/testlog"
)

// samples has lines that each of the harness's formats reads, or nearly reads.
var samples = map[string][]string{
	"":                    {"", " ", "name", "ok", "PASSED", "FAILED", "test_a (m.T) ...", "1 passing", "Killed", "[", "]"},
	"pytest":              {"PASSED t.py::a[x y]", "FAILED t.py::a[1] - x - y", "SKIPPED [12] t.py:3: no", "XFAIL t.py::b", "ERROR: usage", "PASSED t.py::c[/a/b/c]", "FAILED t.py::d[//a/b]", "PASSED t.py::e[MouseButton.LEFT]", "t.py::f PASSED", "\x1b[32mPASSED\x1b[0m t.py::g[\x1b[1m1]", "t.py::h FAILED [ 10%]", "PASSED [100%]", "t.py::k[a]b] PASSED", "PASSED t.py::l[/a]/b]x", "FAILED - x", "ERRORS t", " PASSED t", "a PASSED b", "XFAILED t.py::m", "\tFAILED t.py::n"},
	"django":              {"test_a (m.T) ... ok", "Does it. ... ok", "test_b (m.T) ... FAIL", "test_c (m.T) ... skipped 'no'", "FAIL: test_d (m.T)", "ERROR: test_e (m.T)", "test_f (m.T) ... ERROR", "test_g (m.T) ...  OK", "test_h (m.T) ... Testing against Django installed in x", "y (0 silenced).", " silenced).", "ok", "okay", "test_i (m.T) ... Internal Server Error: /a/", "test_j ... System check identified no issues (0 silenced)", "x ... y ... ok", "--version is equivalent to version", "Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok", "... Testing against Django installed in z (1 silenced).", "test_k (m.T) ...", "Testing against Django installed in w silenced)."},
	"sympy":               {"test_a ok", "test_b F", "test_c E", "____ sympy/x.py:test_d ____", "a b.py:12 c", "a b.py: c", " x.py:y ", "x.py:y z", "test_e[ok] f   [OK]"},
	"seaborn":             {"t.py::a PASSED [ 1%]", "PASSED t.py::b", "FAILED t.py::c - x", "t.py::d PASSED", "x y PASSED z", "FAILED"},
	"gotest":              {"--- PASS: TestA (0.00s)", "    --- FAIL: TestA/b (c) (0.00s)", "--- SKIP: TestC (0.1s)", "--- PASS: Test D", "--- PASS:  (x)", "--- PASS: a ()", "=== RUN TestE", "x --- PASS: TestF (0.00s)"},
	"cargo":               {"test a::b ... ok", "test a::c ... FAILED", "test d ... ignored", "test e - should panic ... ok", "  test  f  ...  ok ", "test g ... ok 1", "testing h ... ok"},
	"jest":                {"  ✓ adds (3 ms)", "✕ fails", "○ skipped it", "✓ a (1.5 s)", "✓  b (3 s) ", "✓ (3 ms)", "✓ c (ms)", "✓d", "✓ e(3 ms)", "✓ f (12ms)", "[PASSED] g", "[FAILED] h i", "[PASSED]j"},
	"vitest":              {" ✓ a > b 3ms", "× c > d 12 ms", "↓ e [skipped]", "✓ f", "✓ g 3", "✓ h 12s", "✓ 3ms", "✓ i3ms", "✓ j 3 m", "↓ [skipped]", "✓ k 4 5ms"},
	"karma":               {"Starting browser Chrome", "  suite", "    inner", "      ✔ a", "    ✖ b", "      ✔c", " x", "SUMMARY:", "        deep", "✔ top"},
	"tap":                 {"ok 1 a", "not ok 2 b", "ok 3", "ok x y", "  ok 4 c # SKIP", "ok 5 ", "# tests 5"},
	"phpunit":             {"Suite (A\\B)", " ✔ a", " ✘ b [1.2 ms]", "↩ c", "✔", "X ()", "(a) (b)", "_x y (z) (w)", "  ✔   d  "},
	"ruby":                {"test: a: .: (0.1)", "b: F", "c: E: x", "d: Ok", "e::  O", "test: .", "test: F", "x - passed", "y - failed - passed", "z - pending", " - passed", "T#a. 0.01 s = .", "T#b = 0.1 s = F x", "T#c. = E", "a. b. =.", "f.feature ....F", "g ..", "h .", "i .. j .F.", "x: ..:"},
	"maven":               {"+ mvn -Dtest=A#b test", "[INFO] BUILD SUCCESS", "BUILD FAILURE", "-Dtest= -Dtest=", "-Dtest=x -Dtest=y z", "BUILD SUCCESS ."},
	"ant":                 {"[junit] [PASS] a", "  [junit]  [FAIL]  b c", "[junit] [ERR] d", "[junit][PASS] e", "[junit] [PASS]"},
	"gradle_custom":       {"a.B > c PASSED", "a.B > d", "FAILED", "> e PASSED", "x  FAILED", "f PASSED", "> g > h", "a.B > i j", "aPASSED", ">PASSED"},
	"redis":               {"[ok]: a (3 ms)", "[err]: b in tests/x.tcl", "[skip]: c", "[ignore]: d (x)", "[err]: e in  f in g", "[ok]:h", "[err]: in x", "[ok]:  (3 ms)"},
	"jq":                  {"PASS: a", " FAIL: b c", "PASS:d", "PASS: "},
	"micropython_test":    {"pass a.py", "FAIL  b.py", "skip c", "passd", "pass"},
	"googletest":          {"[       OK ] A.b (3 ms)", "x [ FAILED ] A.c (1 ms) y", "[OK] A.d (e) (f)", "[  FAILED  ] A.g", "[OK][OK] A (b)", "[OK]  (b)", "[ OK ] A(b) (c)"},
	"doctest":             {`<doctest binary="b"><TestCase name="t1"><SubCase name="a"><Expression success="true"/></SubCase><SubCase name="b &amp; c"><SubCase name="d"><Expression success="false"></Expression></SubCase></SubCase></TestCase><TestCase name="t2"/></doctest>`},
	"rspec":               {"a b - passed", "c - failed", "d - failed x", "e - passedx"},
	"summary of any kind": {"Executed 3 of 4", "Tests:  0 total", "Test Suites: 1 failed, 0 total", "Tests: 3", "2 specs, 0 failures", "case': ok", "# tests 0", "TOTAL: 10 SUCCESS", ">>>>> Test Exit Code: 1", "ModuleNotFoundError", "Failed to launch", "Timeout error: 1800 seconds exceeded."},
}

// alike names formats that read the lines of a sample and do not have its name.
var alike = map[string][]string{
	"pytest": {"astropy", "astroid", "flask", "marshmallow", "matplotlib", "pvlib", "pydicom", "pylint", "pyvista", "requests", "scikit", "sphinx", "sqlfluff", "xarray"},
	"ruby":   {"rspec_transformed_json", "jekyll"},
	"jest":   {"immutable_js"},
}

// sampleLines makes up a log: lines of the format's own runner and some of others,
// whole, joined, cut and indented.
func sampleLines(rng *rand.Rand, parser string) []string {
	var own, others []string
	for key, list := range samples {
		similar := key == "" || strings.Contains(parser, key) || slices.Contains(alike[key], strings.TrimPrefix(parser, "parse_log_"))
		if similar {
			own = append(own, list...)
		} else if key != "doctest" {
			others = append(others, list...)
		}
	}
	slices.Sort(own)
	slices.Sort(others)
	var out []string
	for range rng.IntN(12) {
		line := own[rng.IntN(len(own))]
		switch rng.IntN(10) {
		case 0:
			line = others[rng.IntN(len(others))]
		case 1, 2: // two lines in one
			line += []string{"", " ", "\t", " - ", "\u00a0", "\x1c", " ... ", "("}[rng.IntN(8)] + own[rng.IntN(len(own))]
		case 3: // cut
			if r := []rune(line); len(r) > 0 && parser != "parse_log_doctest" {
				line = string(r[:rng.IntN(len(r))])
			}
		case 4:
			line = []string{" ", "\t", "  ", "\u3000"}[rng.IntN(4)] + line + []string{"", " ", "\t"}[rng.IntN(3)]
		}
		out = append(out, line)
	}
	return out
}

// TestParsersAreTheHarnesss compares every format of the harness's on made-up logs:
// the statuses, and the reports that follow from them.
func TestParsersAreTheHarnesss(t *testing.T) {
	ask := harness(t)
	patch := "diff"
	compared, refused, tests := 0, 0, 0
	for _, parser := range append(testlog.Names(), "parse_log_jekyll", "parse_log_immutable_js") {
		if !strings.HasPrefix(parser, "parse_log_") || parser == "parse_log_minitest" || parser == "parse_log_cucumber" {
			continue // the last two go by the names of their instances
		}
		rng := rand.New(rand.NewPCG(7, uint64(len(parser))))
		for range 150 {
			log := strings.Join(sampleLines(rng, parser), []string{"\n", "\r\n", "\n\n"}[rng.IntN(3)])
			if rng.IntN(10) > 0 {
				log = "+ : '>>>>> Start Test Output'\n" + log + "\n+ : '>>>>> End Test Output'\n"
			}
			if rng.IntN(3) == 0 {
				log += []string{">>>>> Test Exit Code: 1", ">>>>> Test Exit Code: 0", ">>>>> Test Exit Code: x\n>>>>> Test Exit Code: -2"}[rng.IntN(3)]
			}
			q := question{ID: "o__r-9141", LogParser: parser, EvalType: swebench.PassAndFail, Log: log, Patch: &patch}
			switch {
			case parser == "parse_log_jekyll" && rng.IntN(2) == 0:
				q.ID = "o__r-8761"
			case parser == "parse_log_immutable_js":
				q.ID = []string{"o__r-2005", "o__r-2006"}[rng.IntN(2)]
			}
			if rng.IntN(4) == 0 {
				q.EvalType = swebench.FailOnly
			}
			a := ask(&q)
			if a.Error != "" {
				refused++ // it fails on its own document or a line without a name
				continue
			}
			// Ask again with expected tests of every kind.
			for i, s := range a.Statuses {
				id := []rune(s[0])
				if rng.IntN(2) == 0 && len(id) > 0 {
					id = id[:1+rng.IntN(len(id))]
				}
				if i%2 == 0 {
					q.FailToPass = append(q.FailToPass, string(id))
				} else {
					q.PassToPass = append(q.PassToPass, string(id))
				}
			}
			q.PassToPass = append(q.PassToPass, "t.py::a[", "absent \"é\U0001f600\x7f")
			a = ask(&q)
			compare(t, &q, a)
			compared, tests = compared+1, tests+len(a.Statuses)
			if t.Failed() {
				t.Fatalf("the log is %q", log)
			}
		}
	}
	t.Logf("%d logs with %d tests compared; on %d others the harness itself fails", compared, tests, refused)
}
