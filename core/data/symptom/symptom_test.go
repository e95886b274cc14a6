package symptom

import (
	"strings"
	"testing"
)

const unittestLog = `test_a (tests.test_a.T.test_a) ... FAIL
test_b (tests.test_a.T.test_b) ... ERROR

======================================================================
ERROR: test_b (tests.test_a.T.test_b)
With a docstring.
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/workspace/tests/test_a.py", line 11, in test_b
    f(
  File "/workspace/a.py", line 2, in f
    return x[1]
           ~^^^
IndexError: list index out of range

======================================================================
FAIL: test_a (tests.test_a.T.test_a)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/workspace/tests/test_a.py", line 7, in test_a
    self.assertEqual(f([1]), 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 2 tests in 0.001s

FAILED (failures=1, errors=1)
`

const testFile = `import unittest


class T(unittest.TestCase):
    def test_a(self):
        """It is wrong because of the bug."""
        self.assertEqual(f([1]), 2)

    def test_b(self):
        y = []
        f(
            y,
        )
        self.never()
`

func TestUnittest(t *testing.T) {
	got := Read("unittest", unittestLog, []string{"tests.test_a.T.test_a", "tests.test_a.T.test_b"}, map[string]string{"tests/test_a.py": testFile})
	want := []Symptom{
		{"tests.test_a.T.test_b", "y = []\nf(\n    y,\n)", "IndexError: list index out of range"},
		{"tests.test_a.T.test_a", "self.assertEqual(f([1]), 2)", "AssertionError: 1 != 2"},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%q", got)
	}
	if got := Read("unittest", unittestLog, []string{"tests.test_a.T.other"}, nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestPytest(t *testing.T) {
	log := "==== FAILURES ====\n_____ T.test_a _____\ntests/test_a.py:7: in test_a\n    self.assertEqual(f([1]), 2)\na.py:2: in f\n    return 1\nE   assert 1 == 2\nE    +  where 1 = f([1])\n==== short test summary info ====\nFAILED tests/test_a.py::T::test_a - assert 1 == 2\n"
	got := Read("pytest", log, []string{"tests/test_a.py::T::test_a"}, map[string]string{"tests/test_a.py": testFile})
	if len(got) != 1 || got[0].Code != "self.assertEqual(f([1]), 2)" || got[0].Says != "assert 1 == 2\n +  where 1 = f([1])" {
		t.Errorf("%q", got)
	}
}

func TestGo(t *testing.T) {
	log := `{"Action":"output","Package":"m/a","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/a","Test":"TestA","Output":"    a_test.go:4: got 1, want 2\n"}
{"Action":"output","Package":"m/a","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestA"}
`
	got := Read("gotest_json", log, []string{"m/a.TestA"}, map[string]string{"a/a_test.go": "package a\n\nfunc TestA(t *testing.T) {\n\tt.Errorf(\"got %d\", F())\n}\n"})
	if len(got) != 1 || got[0].Code != `t.Errorf("got %d", F())` || got[0].Says != "got 1, want 2" {
		t.Errorf("%q", got)
	}
}

// Tests that ask for what is not there tell it by what the compiler says.
func TestGoThatDoesNotCompile(t *testing.T) {
	log := `{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"# m/a [m/a.test]\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"a/a_test.go:4:21: undefined: F\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"a/a_test.go:9:2: undefined: F\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"a/a.go:1:2: x declared and not used\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-fail"}
{"Action":"fail","Package":"m/a","FailedBuild":"m/a [m/a.test]"}
`
	tests := map[string]string{"a/a_test.go": "package a\n\nfunc TestA(t *testing.T) {\n\tt.Errorf(\"got %d\", F())\n}\n"}
	got := Read("gotest_json", log, []string{"m/a.TestA", "m/a.TestB"}, tests)
	if len(got) != 1 || got[0] != (Symptom{"m/a.TestA", `t.Errorf("got %d", F())`, notBuilt + "undefined: F"}) {
		t.Errorf("%q", got)
	}
	if text := Issue(got, "go", 1, 1); !strings.Contains(text, "undefined: F") || strings.Contains(strings.ToLower(text), "result") {
		t.Error(text)
	}
	if got := Read("gotest_json", log, nil, tests); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestIssue(t *testing.T) {
	s := []Symptom{{Test: "t.a", Says: "only words"}, {Test: "t.b", Code: "f()", Says: "ValueError: no"}}
	seen := map[string]bool{}
	for seed := range uint64(30) {
		text := Issue(s, "python", 2, seed)
		if !strings.Contains(text, "```python\nf()\n```") || !strings.Contains(text, "ValueError: no") || !strings.Contains(text, "2 more checks") {
			t.Fatal(text)
		}
		if text != Issue(s, "python", 2, seed) {
			t.Error("the same seed gives other words")
		}
		seen[text] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d wordings in 30", len(seen))
	}
	if got := Issue(nil, "python", 0, 1); got != "" {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("unittest", unittestLog, testFile)
	f.Add("pytest", "___ a ___\na.py:1: in a\nE  x\n", "def a():\n f(\n")
	f.Add("gotest_json", `{"Action":"output","Package":"m","Test":"TestA","Output":"    a_test.go:9: x\n"}`, "func (")
	f.Fuzz(func(t *testing.T, format, log, test string) {
		Read(format, log, []string{"m.TestA", "tests.test_a.T.test_a", "a.py::a"}, map[string]string{"tests/test_a.py": test, "a_test.go": test, "a.py": test})
	})
}
