package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

func files(pairs ...string) (out []sdk.File) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, sdk.File{Path: pairs[i], Data: []byte(pairs[i+1])})
	}
	return out
}

func TestFind(t *testing.T) {
	unit := files("a.py", "", "tests/test_a.py", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n")
	for want, tree := range map[string][]sdk.File{
		"unittest": unit,
		"pytest":   files("tests/test_a.py", "def test_a():\n    assert f()\n"),
		"go":       files("go.mod", "module m\n", "a/a_test.go", "package a\n"),
	} {
		r, err := Builtin().Find("", tree)
		if err != nil || r.Name != want {
			t.Errorf("want %s: %v, %v", want, r, err)
		}
	}
	if r, err := Builtin().Find("unittest", unit); err != nil || r.Name != "unittest" {
		t.Error(r, err)
	}
	if _, err := Builtin().Find("", files("a.py", "", "x_test.go", "package x\n")); diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), "*_test.go") {
		t.Error(err)
	}
	if _, err := Builtin().Find("nose", unit); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "pytest, unittest, go") {
		t.Error(err)
	}
}

func TestLines(t *testing.T) {
	python, golang := Builtin()[1], Builtin()[2]
	if got := python.Line("tests/test_a.py", "test_b.py"); got != "python3 -m unittest -v tests.test_a test_b" {
		t.Error(got)
	}
	if got := golang.Line("a_test.go", "b c/x_test.go", "b c/y_test.go"); got != "go test -count=1 -vet=off -json . './b c'" {
		t.Error(got)
	}
	if got := Builtin()[0].UnitTestLine("it's/test_a.py"); !strings.HasSuffix(got, ` 'it'\''s/test_a.py'`) {
		t.Error(got)
	}
}

func TestGroups(t *testing.T) {
	got := Builtin()[2].Groups(files("a/x_test.go", "", "a/y_test.go", "", "b/x_test.go", "", "vendor/c/x_test.go", "", "a/a.go", ""))
	if len(got) != 2 || got[0].Name != "a" || !slices.Equal(got[0].Files, []string{"a/x_test.go", "a/y_test.go"}) || got[1].Name != "b" {
		t.Errorf("%+v", got)
	}
	r := Builtin()[1]
	for p, want := range map[string]bool{"a.py": true, "test_a.py": false, "tests/helper.py": false, ".deps/a.py": false, "conftest.py": false, "a.txt": false} {
		if r.IsSource(p) != want {
			t.Errorf("%s is a source: %t", p, !want)
		}
	}
}

const shell = `
[[runner]]
name = "sh"
language = "shell"
sources = [".sh"]
tests = ["*.test.sh"]
command = "sh run.sh {files}"
parser = "pytest"
unit_test = "sh {files}"
functions = '^(\w+)\(\) \{'
`

func TestRead(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "runners.toml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	table, err := Read(write(shell))
	if err != nil {
		t.Fatal(err)
	}
	if len(table) != 4 || table[0].Name != "sh" || table[0].Unit != File || table[0].Function().FindStringSubmatch("f() {")[1] != "f" {
		t.Errorf("%+v", table[0])
	}
	for text, says := range map[string]string{
		strings.Replace(shell, "unit_test", "unitest", 1):                 "unitest: unknown key",
		strings.Replace(shell, `name = "sh"`, "", 1):                      "name is missing",
		strings.Replace(shell, `"pytest"`, `"pytst"`, 1):                  `did you mean "pytest"`,
		strings.Replace(shell, `'^(\w+)\(\) \{'`, `'^\w+'`, 1):            "no group",
		strings.Replace(shell, `[".sh"]`, `["sh"]`, 1):                    "does not begin with a dot",
		strings.Replace(shell, "language", "unit = \"all\"\nlanguage", 1): `unit "all"`,
		"runner = 1": "runner",
	} {
		if _, err := Read(write(text)); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
