package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/python/venv"
)

// A new skill in Python passes both its own tests and the suite, wherever there is
// a Python for it.
func TestNewPythonSkill(t *testing.T) {
	bin, err := venv.Bin(t.Context(), filepath.Join(repository(t), "sdk", "python"))
	if errors.Is(err, venv.ErrNoPython) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := filepath.Join(t.TempDir(), "my-skill")
	valence := func(code int, args ...string) string {
		t.Helper()
		var out, complaint bytes.Buffer
		if got := execute(args, strings.NewReader(""), &out, &complaint); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, out.Bytes(), complaint.Bytes())
		}
		return out.String()
	}
	valence(0, "plugin", "new", "my-skill", "--lang", "python", "--dir", dir)
	valence(0, "plugin", "build", dir)
	said := valence(0, "plugin", "test", dir)
	for _, want := range []string{
		"plugin my-skill 0.1.0 (process, abi v1, ", "ok    gold           3/3 reference answers score 1\n",
		"skip  native = wasm  a plugin in python is run in one way only: process\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	own := exec.CommandContext(t.Context(), "python3", "-B", "-m", "unittest")
	own.Dir = dir
	if out, err := own.CombinedOutput(); err != nil {
		t.Errorf("its own tests: %v\n%s", err, out)
	}

	file := filepath.Join(dir, "skill.py")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := regexp.MustCompile(`(?m)^(\s+)for change in`).ReplaceAll(text, []byte("${1}request.output.changes[0]\n${1}for change in"))
	if err := os.WriteFile(file, broken, 0o644); err != nil {
		t.Fatal(err)
	}
	said = valence(1, "plugin", "test", dir, "-n", "1", "--repeats", "2")
	if want := regexp.MustCompile(`(?m)^FAIL  empty answer   task my-skill/hand-clamp: an empty answer: .*IndexError: list index out of range`); !want.MatchString(said) {
		t.Errorf("no %q in\n%s", want, said)
	}
}
