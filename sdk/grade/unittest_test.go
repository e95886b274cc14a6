package grade_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
	"github.com/valence-rl/valence/sdk/testlog"
)

func record(files ...string) *sdk.Record {
	r := &sdk.Record{LogParser: "unittest", TestCommand: "python3 -m unittest -v", TestFiles: []string{"test_m.py"}}
	for i := 0; i < len(files); i += 2 {
		r.Workspace.Files = append(r.Workspace.Files, sdk.File{Path: files[i], Data: []byte(files[i+1])})
	}
	return r
}

func honest(t *testing.T, r *sdk.Record, millis int64) (results map[string]testlog.Status, tail string, refusal error) {
	t.Helper()
	run := grade.NewUnittestRun(r, "python3", 5, "key", millis)
	h := &sdktest.Host{}
	a, err := h.Run(t.Context(), &sdk.RunRequest{Workspace: r.Workspace, Commands: []sdk.Command{run.Command}})
	if err != nil {
		t.Fatal(err)
	}
	results, refusal = run.Read(&a.Logs[0])
	return results, run.Tail(&a.Logs[0]), refusal
}

// nonceOf reads the nonce off the command that [honest] runs.
func nonceOf(r *sdk.Record) string {
	_, after, _ := strings.Cut(grade.NewUnittestRun(r, "python3", 5, "key", 0).Command.Shell, "<<'END'\n")
	nonce, _, _ := strings.Cut(after, "\n")
	return nonce
}

const head = "import os, sys, unittest\nclass T(unittest.TestCase):\n"

func TestUnittestRun(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  map[string]testlog.Status
		err   string
	}{
		{
			name: "every ending",
			files: []string{"test_m.py", head + `
    def test_a(self): pass
    def test_b(self): self.fail("no")
    def test_c(self): raise SystemExit(0)
    @unittest.skip("x")
    def test_d(self): pass
    @unittest.expectedFailure
    def test_e(self): self.fail()
    @unittest.expectedFailure
    def test_f(self): pass
    def test_g(self):
        with self.subTest(1): self.fail()
        with self.subTest(2): pass
    def test_h(self):
        with self.subTest(1): pass
    def test_i(self): self.skipTest("y")
`},
			want: map[string]testlog.Status{
				"test_m.T.test_a": testlog.Passed, "test_m.T.test_b": testlog.Failed, "test_m.T.test_c": testlog.Failed, "test_m.T.test_d": testlog.Skipped,
				"test_m.T.test_e": testlog.Passed, "test_m.T.test_f": testlog.Failed, "test_m.T.test_g": testlog.Failed, "test_m.T.test_h": testlog.Passed, "test_m.T.test_i": testlog.Skipped,
			},
		},
		{
			name:  "setUpClass fails",
			files: []string{"test_m.py", head + "    @classmethod\n    def setUpClass(cls): raise ValueError\n    def test_a(self): pass\n"},
			want:  map[string]testlog.Status{"setUpClass (test_m.T)": testlog.Failed},
		},
		{
			name:  "teardown fails",
			files: []string{"test_m.py", head + "    def tearDown(self): raise ValueError\n    def test_a(self): pass\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Failed},
		},
		{name: "import fails", files: []string{"test_m.py", "import nothing_of_the_kind\n"}, want: map[string]testlog.Status{"test_m": testlog.Failed}},
		{name: "syntax error", files: []string{"test_m.py", "def\n"}, want: map[string]testlog.Status{"test_m": testlog.Failed}},
		{name: "exit at import", files: []string{"test_m.py", "raise SystemExit(0)\n"}, want: map[string]testlog.Status{"test_m": testlog.Failed}},
		{name: "no file", files: []string{"m.py", ""}, want: map[string]testlog.Status{"test_m": testlog.Failed}},
		{
			name:  "much output and a closed stdout",
			files: []string{"test_m.py", head + "    def test_a(self):\n        print('x' * 3000000)\n        sys.stderr.write('ok\\n')\n        os.close(1)\n        os.close(2)\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Passed},
		},
		{
			name:  "a name with a line break",
			files: []string{"test_m.py", head + "    pass\nsetattr(T, 'test_a\\nb', lambda self: None)\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a b": testlog.Passed},
		},
		{
			name:  "the standard library comes first",
			files: []string{"test_m.py", "import random\n" + head + "    def test_a(self): random.Random\n", "random.py", "raise ValueError", "unittest.py", "raise ValueError", "sitecustomize.py", "raise ValueError"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Passed},
		},
		{
			name:  "stdin is empty",
			files: []string{"test_m.py", head + "    def test_a(self): self.assertEqual(os.read(0, 10), b'')\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Passed},
		},
		{
			name:  "the nonce is in no environment and no command line",
			files: []string{"test_m.py", head + "    def test_a(self):\n        for pid in os.getpid(), os.getppid():\n            for f in 'environ', 'cmdline':\n                self.assertNotIn(b'NONCE', open('/proc/%d/%s' % (pid, f), 'rb').read())\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Passed},
		},
		{name: "early exit with status 0", files: []string{"test_m.py", "import os\nprint('test_a (test_m.T) ... ok\\n\\nOK')\nos._exit(0)\n"}, err: "ended early, with exit status 0"},
		{name: "early exit in a test", files: []string{"test_m.py", head + "    def test_a(self): pass\n    def test_b(self): os._exit(0)\n"}, err: "ended early, with exit status 0"},
		{name: "killed", files: []string{"test_m.py", "import os\nos.kill(os.getpid(), 9)\n"}, err: "ended early, with exit status 137"},
		{name: "KeyboardInterrupt", files: []string{"test_m.py", head + "    def test_a(self): raise KeyboardInterrupt\n"}, err: "ended early"},
		{name: "no end", files: []string{"test_m.py", "while True: pass\n"}, err: "did not end within the time limit"},
		{
			name: "what tests may do",
			files: []string{"base.py", "import unittest\nclass Base(unittest.TestCase):\n    maxDiff = None\n    def assertOne(self, x): self.assertEqual(x, 1)\n", "test_m.py", head[:len(head)-len("class T(unittest.TestCase):\n")] + `
import unittest.mock, unittest.util
from base import Base
unittest.TestCase.maxDiff = None
unittest.util._MAX_LENGTH = 1000
class Odd:
    def __eq__(self, other): return isinstance(other, int) and other % 2 == 1
class T(Base):
    __hash__ = None
    client = None
    @classmethod
    def setUpClass(cls):
        cls.client = len
        cls.assertTwo = lambda self, x: self.assertEqual(x, 2)
    def setUp(self):
        self.longMessage = False
    def test_a(self): self.assertOne(1)
    def test_b(self): self.assertTwo(2)
    def test_c(self): self.assertEqual({"a": [3, None]}, {"a": [Odd(), unittest.mock.ANY]})
    @unittest.mock.patch("os.getcwd", return_value="x")
    def test_d(self, _): self.assertEqual(os.getcwd(), "x")
    def test_e(self):
        with self.assertRaises(ValueError): raise ValueError
class A(unittest.IsolatedAsyncioTestCase):
    async def test_f(self): self.assertEqual(1.0, 1)
`},
			want: map[string]testlog.Status{
				"test_m.T.test_a": testlog.Passed, "test_m.T.test_b": testlog.Passed, "test_m.T.test_c": testlog.Passed,
				"test_m.T.test_d": testlog.Passed, "test_m.T.test_e": testlog.Passed, "test_m.A.test_f": testlog.Passed,
			},
		},
		{
			name:  "a result that equals everything",
			files: []string{"m.py", "class Any:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n", "test_m.py", "import m\n" + head + "    def test_a(self): self.assertEqual(m.Any(), 2)\n    def test_b(self): self.assertEqual('x', m.Any())\n    def test_c(self): self.assertEqual([(1, m.Any())], [(1, None)])\n    def test_d(self): self.assertEqual({1: m.Any()}, {1: [2]})\n"},
			want:  map[string]testlog.Status{"test_m.T.test_a": testlog.Failed, "test_m.T.test_b": testlog.Failed, "test_m.T.test_c": testlog.Failed, "test_m.T.test_d": testlog.Failed},
		},
		{
			name: "the tests replaced by the code",
			files: []string{"m.py", "import sys, types, unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\nT.__module__ = 'test_m'\nx = types.ModuleType('test_m')\nx.T = T\nx.m = sys.modules[__name__]\nsys.modules['test_m'] = x\nopen('test_m.py', 'w').write('import unittest\\nfrom m import T')\n",
				"test_m.py", "import m\n" + head + "    def test_a(self): self.fail()\n"},
			want: map[string]testlog.Status{"test_m.T.test_a": testlog.Failed},
		},
		{
			name:  "assertions replaced in the test's class",
			files: []string{"m.py", "import unittest\ndef f():\n    for c in unittest.TestCase.__subclasses__(): c.assertEqual = lambda *a: None\n", "test_m.py", "import m\n" + head + "    def test_a(self):\n        m.f()\n        self.assertEqual(1, 2)\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "another test replaced",
			files: []string{"m.py", "import unittest\ndef f():\n    for c in unittest.TestCase.__subclasses__(): c.test_b = lambda self: None\n", "test_m.py", "import m\n" + head + "    def test_a(self): m.f()\n    def test_b(self): self.fail()\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "code of an assertion replaced",
			files: []string{"m.py", "import unittest\nunittest.TestCase.assertTrue.__code__ = (lambda self, expr, msg=None: None).__code__\n", "test_m.py", "import m\n" + head + "    def test_a(self): self.assertTrue(False)\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "failures swallowed",
			files: []string{"m.py", "import contextlib\ncontextlib._GeneratorContextManager.__exit__ = lambda *a: True\n", "test_m.py", "import m\n" + head + "    def test_a(self): self.fail()\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "assertions replaced",
			files: []string{"m.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n", "test_m.py", "import m\n" + head + "    def test_a(self): self.assertEqual(1, 2)\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "module replaced",
			files: []string{"m.py", "import sys, unittest, types\nclass C(unittest.TestCase):\n    def assertEqual(self, *a): pass\nsys.modules['unittest'] = types.SimpleNamespace(TestCase=C)\n", "test_m.py", "import m\n" + head + "    def test_a(self): self.assertEqual(1, 2)\n"},
			err:   "changed unittest itself",
		},
		{
			name:  "one test twice",
			files: []string{"test_m.py", head + "    def test_a(self): pass\ndef load_tests(loader, tests, pattern): return unittest.TestSuite([tests, T('test_a')])\n"},
			err:   "names test_m.T.test_a twice",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			millis := int64(60_000)
			if tt.name == "no end" {
				millis = 300
			}
			r := record(tt.files...)
			for i := range r.Workspace.Files {
				f := &r.Workspace.Files[i]
				f.Data = []byte(strings.ReplaceAll(string(f.Data), "NONCE", nonceOf(r)[:12]+"'+b'"+nonceOf(r)[12:]))
			}
			results, tail, err := honest(t, r, millis)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, error %v; want %q", results, err, tt.err)
				}
				return
			}
			if err != nil || !maps.Equal(results, tt.want) {
				t.Fatalf("got %v, error %v, tail %q; want %v", results, err, tail, tt.want)
			}
		})
	}
}

func TestUnittestRunShowsTheTail(t *testing.T) {
	_, tail, err := honest(t, record("test_m.py", head+"    def test_a(self):\n        print('seen')\n        self.assertEqual(1, 2)\n"), 0)
	if err != nil || !strings.Contains(tail, "seen") || !strings.Contains(tail, "AssertionError: 1 != 2") {
		t.Errorf("error %v, tail %q", err, tail)
	}
}

// A report is believed only if every line and the end are there, and nothing twice.
func TestReadRefusesForgery(t *testing.T) {
	r := record()
	run := grade.NewUnittestRun(r, "python3", 5, "key", 0)
	nonce := nonceOf(r)
	other := grade.NewUnittestRun(r, "python3", 6, "key", 0)
	for name, tt := range map[string]struct{ log, err string }{
		"empty":         {"", "ended early"},
		"no nonce":      {"passed test_m.T.a\nend 1\n", "ended early"},
		"other nonce":   {"0" + nonce + " passed a\n0" + nonce + " end 1\n", "ended early"},
		"no end":        {nonce + " passed a\n", "ended early"},
		"wrong count":   {nonce + " passed a\n" + nonce + " end 2\n", "has 1 lines and claims 2"},
		"twice":         {nonce + " passed a\n" + nonce + " failed a\n" + nonce + " end 1\n", "names a twice"},
		"after the end": {nonce + " end 0\n" + nonce + " passed a\n", "goes on after its end"},
		"within a line": {"x" + nonce + " passed a\nx" + nonce + " end 1\n", "ended early"},
	} {
		if got, err := run.Read(&sdk.Log{Output: tt.log}); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, error %v; want %q", name, got, err, tt.err)
		}
		if _, err := other.Read(&sdk.Log{Output: tt.log}); err == nil {
			t.Errorf("%s: another seed's run believes it", name)
		}
	}
	if got, err := run.Read(&sdk.Log{Output: "noise\n" + nonce + " passed a\n" + nonce + " end 1\nmore noise"}); err != nil || got["a"] != testlog.Passed {
		t.Errorf("%v, error %v", got, err)
	}
	if again := grade.NewUnittestRun(r, "python3", 5, "key", 0); again.Command.Shell != run.Command.Shell {
		t.Error("the same seed and key give another command, so that runs cannot be remembered")
	}
}

func TestInterpreter(t *testing.T) {
	for _, tt := range []struct {
		command, parser, file string
		want                  string
	}{
		{"python3 -m unittest -v test_m", "unittest", "test_m.py", "python3"},
		{"/opt/py/bin/python3.9 -m unittest", "unittest", "test_m.py", "/opt/py/bin/python3.9"},
		{"python3 -m pytest", "pytest", "test_m.py", ""},
		{"python3 -m pytest -v", "unittest", "test_m.py", ""},
		{"cd a && python3 -m unittest", "unittest", "test_m.py", ""},
		{"python3 -m unittest; echo", "unittest", "test_m.py", ""},
		{"./run -m unittest", "unittest", "test_m.py", ""},
		{"python3 -m unittest", "unittest", "test/test_m.py", ""},
		{"python3 -m unittest", "unittest", "tests.txt", ""},
	} {
		r := &sdk.Record{TestCommand: tt.command, LogParser: tt.parser, TestFiles: []string{tt.file}}
		if got, ok := grade.Interpreter(r); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%q, %s: %q, %v", tt.command, tt.file, got, ok)
		}
	}
}

func TestModulesAreNamedAsTheIDsSay(t *testing.T) {
	for id, want := range map[string]string{
		"tests.test_m.T.test_a":   "\n\ttests.test_m\n",
		"test_a (tests.test_m.T)": "\n\ttests.test_m\n",
		"test_m.T.test_a":         "\ntests\ttest_m\n",
		"other.T.test_a":          "\n\ttests.test_m\n",
	} {
		r := &sdk.Record{TestFiles: []string{"tests/test_m.py"}, FailToPass: []string{id}}
		if run := grade.NewUnittestRun(r, "python3", 0, "", 0); !strings.Contains(run.Command.Shell, want) {
			t.Errorf("%s: no %q in %q", id, want, run.Command.Shell[len(run.Command.Shell)-80:])
		}
	}
}

func TestProgramFitsIntoQuotes(t *testing.T) {
	run := grade.NewUnittestRun(record(), "python3", 5, "key", 0)
	if n := strings.Count(run.Command.Shell, "'"); n != 4 { // the program and the mark of its input
		t.Errorf("%d single quotes, want 4", n)
	}
}

func TestRunTests(t *testing.T) {
	rec := sdktest.Records()[0]
	fixed, err := grade.ApplyDiff(rec.Workspace.Files, rec.Patch)
	if err != nil {
		t.Fatal(err)
	}
	gold := []sdk.Change{{Path: "shop.py", Data: fixed[0].Data}}
	for name, command := range map[string]string{"honest": rec.TestCommand, "as it is": "cd . && " + rec.TestCommand} {
		t.Run(name, func(t *testing.T) {
			r := rec
			r.TestCommand = command
			rep, err := grade.RunTests(t.Context(), &sdktest.Host{}, &r, gold, 1, "k", 0)
			if err != nil || !rep.Solved || rep.FailToPass != 1 || rep.PassToPass != 1 || rep.FirstNotPassed != "" {
				t.Errorf("gold: %+v, error %v", rep, err)
			}
			rep, err = grade.RunTests(t.Context(), &sdktest.Host{}, &r, nil, 1, "k", 0)
			if err != nil || rep.Solved || rep.FailToPass != 0 || rep.PassToPass != 1 || rep.FirstNotPassed != "test_shop.T.test_clamp_1" {
				t.Errorf("unchanged: %+v, error %v", rep, err)
			}
		})
	}
	t.Run("unknown format", func(t *testing.T) {
		r := rec
		r.LogParser = "nose"
		if _, err := grade.RunTests(t.Context(), &sdktest.Host{}, &r, gold, 1, "k", 0); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a tool is missing", func(t *testing.T) {
		r := rec
		r.TestCommand = "no-such-python3 -m unittest"
		if _, err := grade.RunTests(t.Context(), &sdktest.Host{}, &r, gold, 1, "k", 0); err == nil || !strings.Contains(err.Error(), "exit status 127 without any change") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the agent pretends that a tool is missing", func(t *testing.T) {
		h := &sdktest.Host{}
		rep, err := grade.RunTests(t.Context(), h, &rec, []sdk.Change{{Path: "shop.py", Data: []byte("import os\nos._exit(127)\n")}}, 1, "k", 0)
		if err != nil || rep.Solved || h.Runs() != 2 {
			t.Errorf("%+v, error %v, %d runs", rep, err, h.Runs())
		}
	})
}
