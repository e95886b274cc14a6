package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/host/wasm"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/python/venv"
	"github.com/valence-rl/valence/sdk/sdktest"
	"github.com/valence-rl/valence/sdk/wire"
)

// languages are the examples that do what the one in Go does. provide gives a
// folder that can be built here, or says by skipping what to install.
var languages = []struct {
	name    string
	provide func(*testing.T) string
}{
	{"count-python", python},
	{"count-rust", rust},
	{"count-c", func(*testing.T) string { return "count-c" }},
	{"count-assemblyscript", assemblyScript},
}

// python puts an environment with the SDK first in PATH.
func python(t *testing.T) string {
	bin, err := venv.Bin(t.Context(), "../../sdk/python")
	if errors.Is(err, venv.ErrNoPython) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	first(t, bin)
	return "count-python"
}

// rust prefers the distribution's cargo where the first in PATH has no WASM target.
func rust(t *testing.T) string {
	if _, err := registry.Resolve(t.Context(), "count-rust", registry.Options{}); missing(err) {
		first(t, "/usr/bin")
	}
	return "count-rust"
}

// assemblyScript copies the example and gives the copy the compiler, which npm
// fetches once into the user's cache folder.
func assemblyScript(t *testing.T) string {
	lock, err := os.ReadFile("count-assemblyscript/package.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	home := filepath.Join(cache, "valence", "npm", fmt.Sprintf("%.16s", registry.Digest(lock)[len("sha256:"):]))
	if _, err := os.Stat(home); err != nil {
		tmp, err := os.MkdirTemp(t.TempDir(), "npm")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tmp, "package.json"), lock, 0o644); err != nil {
			t.Fatal(err)
		}
		npm := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund")
		npm.Dir = tmp
		if out, err := npm.CombinedOutput(); err != nil {
			t.Skipf("no compiler for AssemblyScript: install Node.js with npm, which must reach its registry: %v\n%s", err, out)
		}
		if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, home); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "count-assemblyscript")
	if err := os.CopyFS(dir, os.DirFS("count-assemblyscript")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func first(t *testing.T, bin string) {
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// missing tells whether there is no tool chain to build a folder.
func missing(err error) bool {
	var d *diag.Diagnostic
	return errors.As(err, &d) && d.Code == "P011"
}

func load(t *testing.T, ref string) *host.Plugin {
	t.Helper()
	m, err := registry.Resolve(t.Context(), ref, registry.Options{})
	if missing(err) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	p, err := host.Load(t.Context(), m, host.Options{Grants: m.Manifest.Capabilities})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// TestSameSkill holds the tasks and verdicts of each language to those of the
// example in Go, byte for byte but for the skill's name.
func TestSameSkill(t *testing.T) {
	reference := load(t, "count")
	var here []string
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			p := load(t, l.provide(t))
			for _, r := range records() {
				for _, form := range []string{"full", "brief"} {
					q := &sdk.BuildRequest{Record: r, Template: form, Config: []sdk.Pair{{Key: "k", Value: "v"}}, Seed: 1 << 63}
					want, err := reference.Build(t.Context(), nil, q)
					if err != nil {
						t.Fatal(err)
					}
					got, err := p.Build(t.Context(), nil, q)
					if err != nil {
						t.Fatal(err)
					}
					for i := range got.Tasks {
						rename(t, &got.Tasks[i], l.name)
					}
					if !bytes.Equal(wire.Marshal(got), wire.Marshal(want)) {
						t.Fatalf("record %q: other tasks than those of Go:\n%s", r.ID, cmp.Diff(want, got))
					}
					compareVerdicts(t, reference, p, want.Tasks[0])
				}
			}
			refusesToJudge(t, p)
			examine(t, p, sdktest.Options{})
			if !t.Failed() {
				here = append(here, l.name)
			}
		})
	}
	t.Logf("%d of %d languages were here and agree with Go: %s", len(here), len(languages), strings.Join(here, ", "))
}

// rename gives a task to the example in Go.
func rename(t *testing.T, task *sdk.Task, from string) {
	if task.Skill != from || !strings.HasPrefix(task.Key, from+"/") {
		t.Errorf("task %q of skill %q, want those of %s", task.Key, task.Skill, from)
	}
	task.Skill, task.Key = "count", "count"+strings.TrimPrefix(task.Key, from)
}

func compareVerdicts(t *testing.T, reference, p *host.Plugin, task sdk.Task) {
	for _, out := range outputs(task) {
		var judged, logged sdktest.Host
		q := &sdk.EvaluateRequest{Task: task, Output: out, Seed: 3, Timeout: 60_000}
		want, err := reference.Evaluate(t.Context(), &judged, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Evaluate(t.Context(), &logged, q)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wire.Marshal(got), wire.Marshal(want)) {
			t.Errorf("%s: %d changed files, message %q: another verdict than that of Go:\n%s", task.Key, len(out.Changes), out.Message, cmp.Diff(want, got))
		}
		if lines, want := logged.Lines(), fmt.Sprintf("debug: changed files: %d", len(out.Changes)); !slices.Equal(lines, []string{want}) {
			t.Errorf("%s: logged %q, want %q", task.Key, lines, want)
		}
	}
}

// subject is a loaded plugin as the conformance suite sees it.
type subject struct{ *host.Plugin }

func (s subject) Describe(context.Context) (name string, roles []string, err error) {
	m := s.Manifest()
	return m.Name, m.Roles, nil
}

func examine(t *testing.T, p *host.Plugin, o sdktest.Options) {
	passed := 0
	o.Declared = p.Manifest().Capabilities
	for _, f := range sdktest.Examine(t.Context(), subject{p}, o) {
		switch f.Status {
		case sdktest.Failed:
			t.Errorf("%s: %s", f.Check, f)
		case sdktest.OK:
			passed++
		}
	}
	if passed < 10 {
		t.Errorf("%d checks of the conformance suite passed, the others were not made", passed)
	}
}

// refusesToJudge asks for a role that the examples have not.
func refusesToJudge(t *testing.T, p *host.Plugin) {
	_, err := p.Judge(t.Context(), nil, &sdk.JudgeRequest{Issue: "i"})
	name := p.Manifest().Name
	if err == nil || diag.KindOf(err) != diag.KindPlugin || !strings.Contains(err.Error(), "judge: "+name) {
		t.Errorf("judge: error %v", err)
	}
	if _, err := p.Build(t.Context(), nil, &sdk.BuildRequest{Record: sdk.Record{ID: "after an error"}}); err != nil {
		t.Error(err)
	}
}

// TestBrokenMessages gives the readers written by hand what no host sends: none may
// leave its message, which would end in a trap.
func TestBrokenMessages(t *testing.T) {
	requests := map[uint32][]byte{
		wire.MethodBuild: wire.Marshal(&sdk.BuildRequest{Record: records()[0], Template: "full"}),
		wire.MethodEvaluate: wire.Marshal(&sdk.EvaluateRequest{
			Task:   sdk.Task{Key: "k", Hidden: []byte("answer=1")},
			Output: sdk.Output{Changes: []sdk.Change{{Path: "answer.txt", Data: []byte("1")}}},
		}),
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			m, err := registry.Resolve(t.Context(), l.provide(t), registry.Options{})
			if missing(err) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if m.Transport != registry.WASM {
				return // its own tests read garbage
			}
			guest, err := wasm.Open(t.Context(), m.Wasm, wasm.Config{Memory: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer guest.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			for n := range 2000 {
				method := []uint32{wire.MethodBuild, wire.MethodEvaluate}[n%2]
				b := bytes.Clone(requests[method])
				for range 1 + rng.IntN(4) {
					b[rng.IntN(len(b))] = byte(rng.Uint32())
				}
				b = b[:len(b)-rng.IntN(2)*rng.IntN(len(b))]
				_, err := guest.Call(t.Context(), method, b, func(context.Context, uint32, []byte) ([]byte, error) { return nil, nil })
				if err != nil {
					t.Fatalf("method %d: %v\nrequest %x", method, err, b)
				}
			}
		})
	}
}

// records are ordinary ones and some that take a reader to its limits.
func records() []sdk.Record {
	many := sdk.Record{ID: "many"}
	for i := range 300 {
		many.Workspace.Files = append(many.Workspace.Files, sdk.File{Path: fmt.Sprintf("f%d.py", i), Data: []byte("def f():\n    pass\n")})
	}
	large := sdk.File{Path: "large.py", Data: bytes.Repeat([]byte("def f(): pass\n"), 200_000), Exec: true}
	files := func(data ...string) (fs []sdk.File) {
		for i, d := range data {
			fs = append(fs, sdk.File{Path: fmt.Sprint("f", i), Data: []byte(d)})
		}
		return fs
	}
	return append(sdktest.Records(),
		sdk.Record{ID: "nothing"},
		sdk.Record{ID: "é/😀 #1", Workspace: sdk.Workspace{Image: "i", Dir: "/d", Env: []string{"A=1", ""}, Patches: []string{"p"}}},
		sdk.Record{ID: "forms", Workspace: sdk.Workspace{Files: files("def ", "def", " def x", "xdef y\ndef z", "\r\ndef a\r\ndef b", "\n\n\ndef \ndef \n", "\xff\x00def \ndef \xfe", "")}},
		many,
		sdk.Record{ID: "large", Workspace: sdk.Workspace{Files: []sdk.File{large}}},
	)
}

// outputs are right, wrong and malformed answers.
func outputs(task sdk.Task) []sdk.Output {
	right := task.Reference.Changes[0].Data
	change := func(data ...string) (out sdk.Output) {
		for _, d := range data {
			out.Changes = append(out.Changes, sdk.Change{Path: "answer.txt", Data: []byte(d)})
		}
		return out
	}
	return []sdk.Output{
		{Changes: task.Reference.Changes, End: "submitted"},
		{},
		{Message: string(right), Outside: []string{"x"}, End: "max_steps"},
		change("0"), change("-1"), change(""), change(" "), change("\t\v\f\r\n "),
		change(" \n" + string(right) + "\t\r\n"),
		change("0" + string(right)), change(string(right) + "x"), change("\x00"), change("\xff\xfe"),
		change(strings.Repeat("9", 100_000)),
		change("wrong", "worse", string(right)),
		change(string(right), "wrong"),
		{Changes: []sdk.Change{{Path: "answer.txt", Deleted: true}, {Path: "answer.txt", Symlink: "/etc/passwd"}}},
	}
}
