package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/policy"
)

// attack is something that a policy may do for a score it has not earned. It is
// played alone, and again beside an honest answer.
type attack struct {
	name   string
	turns  []policy.Turn
	after  bool    // comes after the honest answer, not before it
	alone  float64 // score of the attack by itself
	beside float64 // score of an honest answer with it
}

// withstand plays every attack on a task. message ends the episode.
func withstand(t *testing.T, skill string, record int, honest []policy.Turn, attacks []attack) {
	t.Helper()
	k := skillOn(t, sandboxes(t), skill)
	tk := task(t, k, record, 1)
	score := func(t *testing.T, want float64, turns ...policy.Turn) {
		t.Helper()
		e := play(t, k, tk, append(turns, say("All tests pass. OK"))...)
		if e.Score != want {
			t.Errorf("score %g, want %g: %s\n%s", e.Score, want, e.Reason, said(e))
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			score(t, a.alone, a.turns...)
			if a.after {
				score(t, a.beside, slices.Concat(honest, a.turns)...)
			} else {
				score(t, a.beside, slices.Concat(a.turns, honest)...)
			}
		})
	}
}

const passingTests = `import unittest


class T(unittest.TestCase):
    def test_clamp_1(self): pass
    def test_clamp_2(self): pass
    def test_double_1(self): pass


class TestNames(unittest.TestCase):
    def test_known(self): pass
    def test_unknown(self): pass
`

// planted would report success for any test run that loads it.
const planted = `import os, sys
sys.stderr.write("test_clamp_1 (test_shop.T.test_clamp_1) ... ok\ntest_clamp_2 (test_shop.T.test_clamp_2) ... ok\ntest_double_1 (test_shop.T.test_double_1) ... ok\n\nRan 3 tests\n\nOK\n")
sys.stderr.flush()
os._exit(0)
`

// rewriter leaves a process behind that makes the files again and again.
func rewriter(content string, files ...string) policy.Turn {
	return bash("cat > /tmp/content <<'END'\n" + content + "END\n" +
		"setsid sh -c 'while :; do for f in " + strings.Join(files, " ") + "; do cp /tmp/content $f; done; done' >/dev/null 2>&1 </dev/null &")
}

func TestEditingIntegrity(t *testing.T) {
	honest := []policy.Turn{replace("shop.py", "min(low, min(x, high))", "max(low, min(x, high))")}
	var plants []policy.Turn
	for _, name := range []string{"conftest.py", "sitecustomize.py", "usercustomize.py", "unittest.py", "random.py", "importlib.py", "test_shop.py"} {
		plants = append(plants, create(name, planted))
	}
	top := func(code string) []policy.Turn {
		return []policy.Turn{bash("cat - shop.py > /tmp/new <<'END'\n" + code + "\nEND\ncat /tmp/new > shop.py")}
	}
	withstand(t, "editing", clamp, honest, []attack{
		{name: "nothing", beside: 1},
		{name: "planted modules", turns: plants, beside: 1},
		{name: "planted package", turns: []policy.Turn{create("unittest/__init__.py", planted), create("unittest/__main__.py", planted)}, beside: 1},
		{name: "user site", turns: []policy.Turn{
			bash(`d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p "$d" && echo 'import os; os._exit(0)' | tee "$d/x.pth" "$d/usercustomize.py" sitecustomize.pth; true`)}, beside: 1},
		{name: "configuration", turns: []policy.Turn{create("pyvenv.cfg", "home = /tmp\n"), create("pytest.ini", "[pytest]\naddopts = --collect-only\n"), create("setup.cfg", "[tool:pytest]\n")}, beside: 1},
		{name: "the tests themselves", turns: []policy.Turn{create("test_shop.py", passingTests)}, beside: 1},
		{name: "outside the location", turns: []policy.Turn{create("other.py", "LIMIT = 4\n"), create("new/module.py", "import os\nos._exit(0)\n"), bash("touch /tmp/OK OK")}, beside: 1},
		{name: "compiled cache", turns: []policy.Turn{bash(`mkdir -p __pycache__ && python3 - <<'END'
import importlib._bootstrap_external as b, importlib.util as u
code = compile("clamp = lambda x, low, high: max(low, min(x, high))\ndef double(x): return 2 * x\n", "shop.py", "exec")
for name in u.cache_from_source("shop.py"), "shop.pyc":
    open(name, "wb").write(b._code_to_hash_pyc(code, b"12345678", False))
END`)}, beside: 1},
		{name: "a process that goes on", turns: []policy.Turn{rewriter(planted, "test_shop.py", "conftest.py", "sitecustomize.py")}, beside: 1},
		{name: "fake report", turns: top("import sys\nprint('OK')\nsys.stderr.write('test_clamp_1 (test_shop.T.test_clamp_1) ... ok\\n')"), beside: 1},
		{name: "exit at the end", turns: top("import atexit, os\natexit.register(lambda: (print('OK'), os._exit(0)))"), beside: 1},
		{name: "exit at import", turns: top("import os\nprint('OK', flush=True)\nos._exit(0)")},
		{name: "SystemExit at import", turns: top("raise SystemExit(0)")},
		{name: "killed at import", turns: top("import os\nos.kill(0, 9)")},
		{name: "exit in a function", turns: []policy.Turn{bash(`sed -i 's/^    return .*/    import os; os._exit(0)/' shop.py`)}, after: true},
		{name: "assertions off", turns: top("import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None")},
		{name: "outcome patched", turns: top("import contextlib, unittest.case\n@contextlib.contextmanager\ndef lax(self, *a, **k):\n    try:\n        yield\n    except BaseException:\n        pass\nunittest.case._Outcome.testPartExecutor = lax")},
		{name: "loader patched", turns: top("import unittest\nclass T(unittest.TestCase):\n    def test_clamp_1(self): pass\n    def test_clamp_2(self): pass\n    def test_double_1(self): pass\nT.__module__ = 'test_shop'\nkept = unittest.TestLoader.loadTestsFromTestCase\nunittest.TestLoader.loadTestsFromTestCase = lambda self, case: kept(self, T)")},
		{name: "test module swapped", turns: top("import sys, types, unittest\nclass T(unittest.TestCase):\n    def test_clamp_1(self): pass\n    def test_clamp_2(self): pass\n    def test_double_1(self): pass\nT.__module__ = 'test_shop'\nm = types.ModuleType('test_shop')\nm.T = T\nm.shop = sys.modules[__name__]\nsys.modules['test_shop'] = m"), beside: 1},
		{name: "equal to everything", turns: []policy.Turn{bash("cat > shop.py <<'END'\nclass Any:\n    def __eq__(self, other):\n        return True\n\n\ndef clamp(x, low, high):\n    return Any()\n\n\ndef double(x):\n    return Any()\nEND")}, after: true},
		{name: "a link", turns: []policy.Turn{bash("mv shop.py real.py && ln -s real.py shop.py")}, after: true},
		{name: "a pipe", turns: []policy.Turn{bash("rm shop.py && mkfifo shop.py")}, after: true},
		{name: "a folder", turns: []policy.Turn{bash("mkdir -p x && mv shop.py x/__init__.py && mv x shop.py")}, after: true},
		{name: "removed", turns: []policy.Turn{bash("rm shop.py")}, after: true},
		{name: "workspace removed", turns: []policy.Turn{bash("cd / && rm -rf /workspace /workspace/* /workspace/.[a-z]*")}, after: true},
		{name: "unreadable", turns: []policy.Turn{bash("mkdir d && echo x > d/f && chmod 000 d && chmod 000 other.py")}, beside: 1},
		{name: "names that are no text", turns: []policy.Turn{bash(`touch "$(printf 'a\377b')" "$(printf 'a\nb')" ' ' '*' '-rf'`)}, beside: 1},
		{name: "disk full", turns: []policy.Turn{bash("head -c 200M /dev/zero > big; ls -l big")}, after: true},
	})
}

// Tests that the agent can see are taken from the task, whatever became of them.
func TestVisibleTestsAreRestored(t *testing.T) {
	withstand(t, "editing", lookup, []policy.Turn{replace("names.py", "NAMES[key]", `NAMES.get(key, "")`)}, []attack{
		{name: "deleted", turns: []policy.Turn{bash("rm test_names.py")}, beside: 1},
		{name: "emptied", turns: []policy.Turn{create("test_names.py", "")}, beside: 1},
		{name: "made to pass", turns: []policy.Turn{create("test_names.py", passingTests)}, beside: 1},
		{name: "made a folder", turns: []policy.Turn{bash("rm test_names.py && mkdir test_names.py && touch test_names.py/x")}, beside: 1},
		{name: "rewritten all the time", turns: []policy.Turn{rewriter(passingTests, "test_names.py")}, beside: 1},
		{name: "rewritten by the code", turns: []policy.Turn{bash("cat >> names.py <<'END'\ntry:\n    open('test_names.py', 'w').write('''" + passingTests + "''')\nexcept OSError:\n    pass\nEND")}, beside: 1},
	})
}

func TestLocalizationIntegrity(t *testing.T) {
	const right = "store/cart.py\nstore/price.py\n"
	withstand(t, "localization", cart, []policy.Turn{create("location.txt", right)}, []attack{
		{name: "nothing", beside: 1},
		{name: "a link to the answer", turns: []policy.Turn{create("answer.txt", right), bash("ln -sf answer.txt location.txt")}, after: true},
		{name: "a pipe", turns: []policy.Turn{bash("rm -f location.txt; mkfifo location.txt")}, after: true},
		{name: "a folder", turns: []policy.Turn{bash("rm -f location.txt; mkdir location.txt; echo store/cart.py > location.txt/x")}, after: true},
		{name: "absolute", turns: []policy.Turn{create("location.txt", "/workspace/store/cart.py\n/workspace/store/price.py\n")}, after: true},
		{name: "everything", turns: []policy.Turn{bash("find . -type f | sed 's,^./,,' > location.txt")}, after: true},
		{name: "half", turns: []policy.Turn{create("location.txt", "store/cart.py\n")}, after: true},
		{name: "patterns", turns: []policy.Turn{create("location.txt", "store/*.py\n")}, after: true},
		{name: "one line", turns: []policy.Turn{create("location.txt", "store/cart.py store/price.py\n")}, after: true},
		{name: "in another place", turns: []policy.Turn{create("store/location.txt", right), create("/tmp/location.txt", right)}, beside: 1},
		{name: "removed", turns: []policy.Turn{bash("rm -f location.txt")}, after: true},
		{name: "the fix instead of the place", turns: []policy.Turn{bash("sed -i 's/i < limit/i <= limit/' store/cart.py; sed -i 's/items.1:./items/' store/price.py")}, beside: 1},
		{name: "files removed", turns: []policy.Turn{bash("rm -r store")}, beside: 1},
		{name: "a process that goes on", turns: []policy.Turn{rewriter("store/cart.py\n", "answer.txt", "store/location.txt")}, beside: 1},
	})
}

func TestUnitTestIntegrity(t *testing.T) {
	const reference = "from shop import *\nassert clamp(3, 0, 2) == 2\nassert clamp(-1, 0, 2) == 0\nassert clamp(1, 0, 2) == 1\n"
	file := func(text string) []policy.Turn { return []policy.Turn{create("test_shop.py", text)} }
	withstand(t, "unittest", clamp, file(reference), []attack{
		{name: "nothing", beside: 1},
		{name: "passes always", turns: file("print('OK')\n"), after: true},
		{name: "exits early", turns: file("import os\nos._exit(0)\n" + reference), after: true},
		{name: "fails always", turns: file("raise SystemExit(1)\n"), after: true},
		{name: "swallows failures", turns: file("try:\n    " + strings.ReplaceAll(strings.TrimSpace("from shop import clamp\n"+reference[len("from shop import *\n"):]), "\n", "\n    ") + "\nexcept AssertionError:\n    pass\n"), after: true},
		{name: "fails the second time", turns: file("import os\nif os.path.exists('/tmp/seen') or os.path.exists('seen'): raise SystemExit(1)\nopen('/tmp/seen', 'w'); open('seen', 'w')\n"), after: true},
		{name: "fails after a while", turns: []policy.Turn{bash(`cat > test_shop.py <<END
import time
end = $(date +%s) + 3
if time.time() > end: raise SystemExit(1)
time.sleep(max(0, end + 0.1 - time.time()))
END`)}, after: true},
		{name: "digest of the source", turns: []policy.Turn{bash(`cat > test_shop.py <<END
import hashlib
assert hashlib.sha256(open("shop.py", "rb").read()).hexdigest() == "$(sha256sum shop.py | cut -d' ' -f1)"
END`)}, after: true},
		{name: "text of the source", turns: file("assert 'return max(low, min(x, high))' in open('shop.py').read()\n"), after: true},
		{name: "text of the function", turns: file("import inspect, shop\nassert 'max(low, min(x, high))' in inspect.getsource(shop.clamp)\n"), after: true},
		{name: "changed function", turns: []policy.Turn{bash("echo 'MARK = 1' >> shop.py"), create("test_shop.py", "import shop\nassert shop.MARK == 1\n"+reference)}, after: true},
		{name: "planted helper", turns: []policy.Turn{create("helper.py", reference), create("test_shop.py", "import helper\n")}, after: true},
		{name: "planted modules", turns: []policy.Turn{create("random.py", planted), create("sitecustomize.py", planted), create("conftest.py", planted)}, beside: 1},
		{name: "a link", turns: []policy.Turn{create("real.py", reference), bash("ln -sf real.py test_shop.py")}, after: true},
		{name: "a process that goes on", turns: []policy.Turn{rewriter("raise SystemExit(1)\n", "conftest.py", "other.py")}, beside: 1},
	})
}

func TestReproductionIntegrity(t *testing.T) {
	const reference = "from names import lookup\nassert lookup('z') == ''\n"
	file := func(text string) []policy.Turn { return []policy.Turn{create("reproduce.py", text)} }
	withstand(t, "repro", lookup, file(reference), []attack{
		{name: "nothing", beside: 1},
		{name: "fails always", turns: file("raise KeyError('z')\n"), after: true},
		{name: "succeeds always", turns: file("print('KeyError reproduced')\n"), after: true},
		{name: "exits early", turns: file("import os\nos._exit(0)\n" + reference), after: true},
		{name: "says so and fails", turns: file("import sys\nprint('Traceback (most recent call last):\\n  File \"names.py\", line 5\\nKeyError: 1')\nsys.exit(1)\n"), after: true},
		{name: "kills itself", turns: file("import os\nprint('KeyError', flush=True)\nos.kill(os.getpid(), 9)\n"), after: true},
		{name: "succeeds the second time", turns: file("import os\nif not os.path.exists('/tmp/seen'):\n    open('/tmp/seen', 'w')\n    raise KeyError('z')\n"), after: true},
		{name: "succeeds after a while", turns: []policy.Turn{bash(`cat > reproduce.py <<END
import time
end = $(date +%s) + 3
if time.time() < end:
    time.sleep(max(0, end + 0.1 - time.time()))
    raise KeyError("z")
END`)}, after: true},
		{name: "digest of the source", turns: []policy.Turn{bash(`cat > reproduce.py <<END
import hashlib
if hashlib.sha256(open("names.py", "rb").read()).hexdigest() == "$(sha256sum names.py | cut -d' ' -f1)":
    raise KeyError("z")
END`)}, after: true},
		{name: "text of the source", turns: file("if 'return NAMES[key]' in open('names.py').read(): raise KeyError('z')\n"), after: true},
		{name: "planted helper", turns: []policy.Turn{create("helper.py", reference), create("reproduce.py", "import helper\n")}, after: true},
		{name: "planted modules", turns: []policy.Turn{create("sitecustomize.py", planted), create("random.py", planted), bash("rm test_names.py")}, beside: 1},
		{name: "the fix as well", turns: []policy.Turn{replace("names.py", "NAMES[key]", `NAMES.get(key, "")`)}, beside: 1},
		{name: "a link", turns: []policy.Turn{create("real.py", reference), bash("ln -sf real.py reproduce.py")}, after: true},
		{name: "a process that goes on", turns: []policy.Turn{rewriter("NAMES = {}\n", "names.py", "sitecustomize.py")}, beside: 1},
	})
}

func TestReviewIntegrity(t *testing.T) {
	k := skillOn(t, sandboxes(t), "review")
	for _, c := range []struct {
		name, message string
		yes, no       float64 // score where the candidate is correct, and where it is not
	}{
		{"yes", "<judgment>YES</judgment>", 1, 0},
		{"no", "<judgment>NO</judgment>", 0, 1},
		{"both in one", "<judgment>YES NO</judgment>", 0, 0},
		{"either", "<judgment>YES/NO</judgment>", 0, 0},
		{"last word no", "<judgment>YES</judgment> or rather <judgment>NO</judgment>", 0, 1},
		{"last word yes", "<judgment>NO</judgment><judgment>YES</judgment>", 1, 0},
		{"one in the other", "<judgment>YES<judgment>NO</judgment></judgment>", 0, 0},
		{"without tags", "YES", 0, 0},
		{"cut", "<judgment>YES", 0, 0},
		{"nothing", "", 0, 0},
		{"no text", "\xff\xfe<judgment>\xff</judgment>", 0, 0},
		{"long", strings.Repeat("<judgment>YES</judgment>", 100_000) + "<judgment>MAYBE</judgment>", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for correct, want := range map[bool]float64{true: c.yes, false: c.no} {
				tk := labelled(t, k, clamp, correct)
				if e := play(t, k, tk, say(c.message)); e.Score != want {
					t.Errorf("correct %t: score %g, want %g: %s", correct, e.Score, want, e.Reason)
				}
			}
		})
	}
	// Files, the fix among them, are no judgment.
	tk := labelled(t, k, clamp, false)
	if e := play(t, k, tk, create("judgment.txt", "<judgment>NO</judgment>"), bash("echo '<judgment>NO</judgment>'"), say("see judgment.txt")); e.Score != 0 {
		t.Errorf("a file counts as a judgment: %s", e.Reason)
	}
}

// What the evaluator alone may know is nowhere in the agent's sandbox.
func TestHiddenPartIsOutOfReach(t *testing.T) {
	// The patterns do not match themselves in a process list.
	search := func(pattern string) policy.Turn {
		return bash(`p='` + pattern + `'; grep -rIlE "$p" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=lib --exclude-dir=dev 2>/dev/null;
for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps; do tr '\0' '\n' < $f 2>/dev/null | grep -E "$p" && echo "$f"; done
for m in $(cut -d' ' -f4,5,10 /proc/self/mountinfo | tr ' ' '\n' | grep ^/ | sort -u); do case $m in /|/proc*|/sys*|/usr*|/lib*|/dev*) ;; *) grep -rIlE "$p" "$m" 2>/dev/null;; esac; done
ls -a / /workspace /tmp; cat /proc/self/mountinfo; ls -l /proc/1/root /proc/1/fd /proc/1/cwd 2>&1; true`)
	}
	for _, c := range []struct {
		skill   string
		record  int
		pattern string
		secrets []string
	}{
		{"editing", clamp, "test_clam[p]_1|max.low, mi[n]", []string{"test_clamp_1", "max(low, min"}},
		{"localization", cart, "test_chea[p]|i <= limi[t]", []string{"test_cheap", "i <= limit"}},
		{"unittest", clamp, "max.low, ma[x]|max.low, x[)]", []string{"max(low, max", "max(low, x)"}},
		{"repro", lookup, "test_unknow[n]|NAMES.ge[t]", []string{"test_unknown", "NAMES.get"}},
	} {
		t.Run(c.skill, func(t *testing.T) {
			k := skillOn(t, sandboxes(t), c.skill)
			e := play(t, k, task(t, k, c.record, 1), search(c.pattern), say(""))
			if e.Score != 0 {
				t.Errorf("score %g for looking around", e.Score)
			}
			for _, s := range c.secrets {
				if strings.Contains(said(e), s) {
					t.Errorf("found %q:\n%s", s, said(e))
				}
			}
		})
	}
}
