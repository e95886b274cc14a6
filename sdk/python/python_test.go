// Package python tests the Python SDK from without: what it writes against package
// wire, its own tests, its types, and that it installs.
package python

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk/process"
	"github.com/valence-rl/valence/sdk/python/venv"
	"github.com/valence-rl/valence/sdk/wire"
)

// python gives a command that runs Python with the SDK; nothing is written beside
// the sources.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := venv.Bin(t.Context(), ".")
	if errors.Is(err, venv.ErrNoPython) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "python3"), append([]string{"-B"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := python(t, args...).CombinedOutput(); err != nil {
		t.Errorf("python3 %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestOwnTests(t *testing.T) { run(t, "-m", "unittest", "discover", "-s", "tests") }

func TestTypes(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	run(t, "-m", "mypy", "--no-error-summary", "--cache-dir", filepath.Join(cache, "valence", "mypy"), "valence", "../../examples/plugins/count-python/skill.py")
	run(t, "-m", "mypy", "--no-error-summary", "--cache-dir", filepath.Join(cache, "valence", "mypy"), "../../examples/plugins/docstrings-python/skill.py")
}

// TestInstalls does what an author does, into a folder of its own.
func TestInstalls(t *testing.T) {
	target := t.TempDir()
	run(t, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--target", target, ".")
	if t.Failed() || t.Skipped() {
		return
	}
	for _, f := range []string{"valence/py.typed", "valence/process.py"} {
		if _, err := os.Stat(filepath.Join(target, f)); err != nil {
			t.Error(err)
		}
	}
	cmd := python(t, "-c", "import valence; print(valence.__file__)")
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Env, "PYTHONPATH="+target)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), target) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestConstants holds the numbers and names of Python's side to those of Go's.
func TestConstants(t *testing.T) {
	out, err := python(t, "-c", `
from valence import call, process, wire
print(wire.ABI, wire.MAX_MESSAGE, process.VERSION, *process.COOKIE, process.MAX_ERROR, *call.METHODS)
print(*[n for n in vars(call._Services) if not n.startswith("_")])`).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	fmt.Fprint(&want, wire.ABI, wire.MaxMessage, process.Version, " ", process.CookieKey, " ", process.CookieValue, " ", process.MaxError)
	for _, m := range process.SkillMethods() {
		want.WriteString(" " + m.Name)
	}
	for i, m := range process.HostMethods() {
		want.WriteString([]string{"\n", " "}[min(i, 1)] + strings.ToLower(m.Name))
	}
	if got := strings.TrimSpace(string(out)); got != want.String() {
		t.Errorf("%s\nwant\n%s", got, want.String())
	}
}

// message draws arbitrary messages of one type, each by its number.
func message[T any, P interface {
	*T
	wire.Message
}]() (string, func(n int) []byte) {
	any := rapid.Make[T]()
	return reflect.TypeFor[T]().Name(), func(n int) []byte {
		m := any.Example(n)
		return wire.Marshal(P(&m))
	}
}

// TestSpeaksAsGo has Python read what Go has written, and write it again.
func TestSpeaksAsGo(t *testing.T) {
	draw := map[string]func(int) []byte{}
	add := func(name string, f func(int) []byte) { draw[name] = f }
	add(message[wire.File]())
	add(message[wire.Change]())
	add(message[wire.Workspace]())
	add(message[wire.Record]())
	add(message[wire.Target]())
	add(message[wire.Mutant]())
	add(message[wire.Candidate]())
	add(message[wire.Pair]())
	add(message[wire.Task]())
	add(message[wire.Reference]())
	add(message[wire.Output]())
	add(message[wire.Verdict]())
	add(message[wire.Component]())
	add(message[wire.DescribeRequest]())
	add(message[wire.Description]())
	add(message[wire.BuildRequest]())
	add(message[wire.BuildResponse]())
	add(message[wire.EvaluateRequest]())
	add(message[wire.JudgeRequest]())
	add(message[wire.JudgeResponse]())
	add(message[wire.Log]())
	add(message[wire.RunRequest]())
	add(message[wire.Command]())
	add(message[wire.RunResponse]())
	add(message[wire.ModelRequest]())
	add(message[wire.ModelMessage]())
	add(message[wire.ModelResponse]())
	add(message[wire.LogLine]())
	add(message[wire.Empty]())

	golden, err := filepath.Glob("../wire/testdata/*.hex")
	if err != nil || len(golden) != len(draw) {
		t.Fatalf("%d messages here, %d released (%v)", len(draw), len(golden), err)
	}
	var frames bytes.Buffer
	var written []string
	for _, g := range golden {
		name := strings.TrimSuffix(filepath.Base(g), ".hex")
		if draw[name] == nil {
			t.Fatalf("%s is not drawn", name)
		}
		for n := range 40 {
			b := draw[name](n)
			frame := fmt.Sprintf("%s %d\n%s", name, len(b), b)
			frames.WriteString(frame)
			written = append(written, frame)
		}
	}
	cmd := python(t, "tests/echo.py")
	cmd.Stdin = bytes.NewReader(frames.Bytes())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	if bytes.Equal(out, frames.Bytes()) {
		return
	}
	at := 0
	i := slices.IndexFunc(written, func(f string) bool {
		ok := bytes.HasPrefix(out[at:], []byte(f))
		at += len(f)
		return !ok
	})
	t.Errorf("message %d comes back otherwise:\n%.300q", i, written[i])
}
