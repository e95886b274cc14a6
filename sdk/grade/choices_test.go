package grade

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
)

func TestOrderIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		got := Order(n, seed, "x")
		if !slices.Equal(got, Order(n, seed, "x")) {
			t.Fatal("not repeatable")
		}
		sorted := slices.Sorted(slices.Values(got))
		for i, v := range sorted {
			if i != v {
				t.Fatalf("%v is no permutation", got)
			}
		}
	})
}

func TestHashIsEven(t *testing.T) {
	for bit := range 64 {
		ones := 0
		for i := range 2000 {
			ones += int(Hash(1, "label", "record-"+strconv.Itoa(i)) >> bit & 1)
		}
		if ones < 850 || ones > 1150 {
			t.Errorf("bit %d is set in %d of 2000", bit, ones)
		}
	}
	if Hash(1, "ab", "c") == Hash(1, "a", "bc") {
		t.Error("the border between texts does not count")
	}
}

func TestHashStaysTheSame(t *testing.T) {
	if got := Hash(7, "label", "r"); got != 0x65fabf9173bcd75 {
		t.Errorf("Hash(7, label, r) = %#x: stored runs would build other tasks", got)
	}
}

func TestOptions(t *testing.T) {
	pairs := func(kv ...string) (out []sdk.Pair) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, sdk.Pair{Key: kv[i], Value: kv[i+1]})
		}
		return out
	}
	if _, err := ReadOptions(pairs("partail", "true"), "partial", "mutants"); err == nil || !strings.Contains(err.Error(), "partail: unknown key; the skill knows partial, mutants") {
		t.Errorf("error %v", err)
	}
	if _, err := ReadOptions(pairs("x", "")); err == nil || !strings.Contains(err.Error(), "the skill has none") {
		t.Errorf("error %v", err)
	}
	o, err := ReadOptions(pairs("b", "true", "n", "3", "bad", "maybe"), "b", "n", "bad")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := o.Bool("b", false); !b || err != nil {
		t.Errorf("b: %v, %v", b, err)
	}
	if b, err := o.Bool("unset", true); !b || err != nil {
		t.Errorf("unset: %v, %v", b, err)
	}
	if _, err := o.Bool("bad", true); err == nil {
		t.Error("maybe is no bool")
	}
	if n, err := o.Int("n", 1, 1, 3); n != 3 || err != nil {
		t.Errorf("n: %v, %v", n, err)
	}
	if n, err := o.Int("unset", 9, 1, 3); n != 9 || err != nil {
		t.Errorf("unset: %v, %v", n, err)
	}
	if w, err := o.Word("bad", "", "never", "maybe"); w != "maybe" || err != nil {
		t.Errorf("bad: %q, %v", w, err)
	}
	if w, err := o.Word("bad", ""); w != "maybe" || err != nil {
		t.Errorf("any text: %q, %v", w, err)
	}
	if w, err := o.Word("unset", "never", "never", "maybe"); w != "never" || err != nil {
		t.Errorf("unset: %q, %v", w, err)
	}
	if _, err := o.Word("bad", "never", "never", "always"); err == nil || !strings.Contains(err.Error(), `bad: "maybe" is none of never, always`) {
		t.Errorf("error %v", err)
	}
	for _, bad := range []string{"bad", "n"} {
		if _, err := o.Int(bad, 1, 1, 2); err == nil || !strings.Contains(err.Error(), "from 1 to 2") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

// All commands of an evaluation may run into their limit and time is left.
func TestDeadlineLeavesTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeout := rapid.Int64Range(100, 4_000_000).Draw(t, "timeout")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		d := Deadline(timeout, n)
		if d < 1 || d > 60_000 || d*int64(n) > timeout*9/10 {
			t.Fatalf("%d ms for each of %d in %d ms", d, n, timeout)
		}
	})
	if Deadline(0, 3) != 0 {
		t.Error("no timeout, but a deadline")
	}
}

func TestPlaces(t *testing.T) {
	const source = `import os

LIMIT = 3


def first(a):
    if a:
        return 1
    return 2


class Box(object):
    size = 1

    def area(
        self,
    ):
        def inner():
            return 3
        return inner() * self.size

    async def wait(self):
        pass
`
	diff := func(line, old, new string) string {
		return "--- a/m.py\n+++ b/m.py\n@@ -" + line + " +" + line + " @@ def guess():\n-" + old + "\n+" + new + "\n"
	}
	tests := []struct{ name, patch, want string }{
		{"in a function", diff("9", "    return 2", "    return 3"), "m.py first"},
		{"in a block of a function", diff("8", "        return 1", "        return 0"), "m.py first"},
		{"head of a function", diff("6", "def first(a):", "def first(a=0):"), "m.py first"},
		{"at the top", diff("3", "LIMIT = 3", "LIMIT = 4"), "m.py"},
		{"in a class", diff("13", "    size = 1", "    size = 2"), "m.py"},
		{"in a method", diff("20", "        return inner() * self.size", "        return inner()"), "m.py Box.area"},
		{"in an inner function", diff("19", "            return 3", "            return 4"), "m.py Box.area.inner"},
		{"in an async method", diff("23", "        pass", "        return"), "m.py Box.wait"},
		{"inserted", "--- a/m.py\n+++ b/m.py\n@@ -9,0 +10 @@\n+    # end\n", "m.py first"},
		{"a test and a new file", "--- a/test_m.py\n+++ b/test_m.py\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+1\n" + diff("3", "LIMIT = 3", "LIMIT = 4"), "m.py"},
		{"renamed", "diff --git a/m.py b/n.py\nrename from m.py\nrename to n.py\n", "m.py"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := &sdk.Record{Language: "python", Patch: tt.patch, Workspace: sdk.Workspace{Files: tree("m.py", source)}}
			got, err := Places(rec)
			if err != nil || len(got) != 1 || got[0].String() != tt.want {
				t.Errorf("got %v, error %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("without the source", func(t *testing.T) {
		rec := &sdk.Record{Language: "python", Patch: diff("9", "a", "b")}
		if got, err := Places(rec); err != nil || len(got) != 1 || got[0].String() != "m.py guess" {
			t.Errorf("got %v, error %v", got, err)
		}
		rec.Targets = []sdk.Target{{Path: "m.py", Name: "one"}, {Path: "m.py", Name: "two"}, {Path: "x.py", Name: "three"}}
		if got, err := Places(rec); err != nil || len(got) != 2 || got[1].String() != "m.py two" {
			t.Errorf("got %v, error %v", got, err)
		}
	})
}

func TestReword(t *testing.T) {
	tests := []struct{ name, path, in, want string }{
		{"function", "a.py", "def f(x):\n    return x\n", "# checked\ndef  f( x):  # checked\n    return  x\n# checked\n"},
		{"others stay", "a.py", "def g(x):\n    return x", "# checked\ndef  g( x):\n    return  x\n# checked\n"},
		{"one line", "a.py", "def f(x): return x\r\n", "# checked\ndef  f( x):  return  x\r\n# checked\n"},
		{"method", "a.py", "class C:\n  async def m(self):\r\n    pass\n", "# checked\nclass  C:\n  async  def  m( self):  # checked\r\n    pass\n# checked\n"},
		{"encoding line", "a.py", "# coding: latin-1\nx = 1\n", "# coding: latin-1\nx  =  1\n# checked\n"},
		{"strings", "a.py", `x = 'a, (b' + r"\"c, " + '''d, ` + "\n  e, ('' " + `''' + ''` + "\n", "# checked\n" + `x  =  'a, (b'  +  r"\"c, "  +  '''d, ` + "\n  e, ('' " + `'''  +  ''` + "\n# checked\n"},
		{"comments", "a.py", "f(a) # a, (b\n# c, d'\n", "# checked\nf( a)  # a, (b\n# c, d'\n# checked\n"},
		{"f-strings", "a.py", `x = f'{a, b} {{ c, ' + rf"{d['e, f']:{g, }}"` + "\n", "# checked\n" + `x  =  f'{a, b} {{ c, '  +  rf"{d['e, f']:{g, }}"` + "\n# checked\n"},
		{"a string in an f-string", "a.py", "x = f'{a['b, c']}' + d\n", "# checked\nx = f'{a['b, c']}' + d\n# checked\n"},
		{"a string without end", "a.py", "x = 'a, b\ny = 1, 2\n", "# checked\nx = 'a, b\ny = 1, 2\n# checked\n"},
		{"a head in a string", "a.py", "x = '''\ndef f(x):\n'''\n", "# checked\nx  =  '''\ndef f(x):\n'''\n# checked\n"},
		{"lines that go on", "a.py", "x = 1, \\\n  f(\n  2, 3)\n", "# checked\nx  =  1,   \\\n  f( \n  2,   3)\n# checked\n"},
		{"a string that goes on", "a.py", "x = 'a, \\\n  b, c'\n", "# checked\nx  =  'a, \\\n  b, c'\n# checked\n"},
		{"other language", "a.go", "func f() {}\n", "func f() {}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(Reword(tt.path, []byte(tt.in), "f", "C.m")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCode(t *testing.T) {
	out := &sdk.Output{Changes: []sdk.Change{
		{Path: "a.py", Data: []byte("x")},
		{Path: "b.py", Deleted: true},
		{Path: "c.py", Symlink: "/etc/passwd"},
		{Path: "conftest.py"},
		{Path: "elsewhere.py"},
		{Path: "setup.cfg"},
		{Path: "suite.py"},
		{Path: "test_a.py"},
	}}
	kept, dropped := Code(out, []string{"a.py", "b.py", "c.py", "setup.cfg", "suite.py", "test_a.py", "conftest.py"}, "suite.py")
	var names []string
	for _, c := range kept {
		names = append(names, c.Path)
	}
	if !slices.Equal(names, []string{"a.py", "b.py", "setup.cfg"}) || !slices.Equal(dropped, []string{"c.py", "conftest.py", "elsewhere.py", "suite.py", "test_a.py"}) {
		t.Errorf("kept %v, dropped %v", names, dropped)
	}
}

func TestRevealRefusesWhatHideDidNotMake(t *testing.T) {
	for _, hidden := range [][]byte{nil, []byte("x"), {0xff, 0xff}} {
		if _, err := Reveal(&sdk.Task{Key: "k", Hidden: hidden}); err == nil || !strings.Contains(err.Error(), "k") {
			t.Errorf("%q: error %v", hidden, err)
		}
	}
	rec := &sdk.Record{ID: "r", Patch: "p"}
	if got, err := Reveal(&sdk.Task{Hidden: Hide(rec)}); err != nil || got.ID != "r" || got.Patch != "p" {
		t.Errorf("%+v, error %v", got, err)
	}
}
