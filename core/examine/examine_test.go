package examine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scaffold"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

const (
	count  = "../../examples/plugins/count"
	repro  = "../../plugins/repro"
	rules  = "../../plugins/judges/rules"
	editor = "../../plugins/editing"
)

func driver(t *testing.T) sandbox.Driver {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// What an agent can read is found wherever it lies.
func TestVisible(t *testing.T) {
	for _, dir := range []string{"", "/testbed"} {
		files, err := visible(driver(t))(t.Context(), &sdk.Workspace{
			Dir: dir, Env: []string{"HINT=in the environment"},
			Files:   []sdk.File{{Path: "a.txt", Data: []byte("one\n")}, {Path: "with blank\nand line end/b", Data: []byte{0, 0xff}}},
			Patches: []string{"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+by a patch\n"},
		})
		if err != nil {
			t.Fatal(err)
		}
		holds := func(path, text string) bool {
			return slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == path && bytes.Contains(f.Data, []byte(text)) })
		}
		for path, text := range map[string]string{
			"(environment)": "HINT=in the environment", "a.txt": "by a patch\n", "with blank\nand line end/b": "\x00\xff", "/etc/passwd": "root:",
		} {
			if !holds(path, text) {
				t.Errorf("%q with %q is not among what can be read in %q", path, text, dir)
			}
		}
		if slices.ContainsFunc(files, func(f sdk.File) bool {
			return strings.HasPrefix(f.Path, "/usr/") || strings.HasPrefix(f.Path, "/proc/")
		}) {
			t.Error("the tool chain is searched, too")
		}
	}
}

func TestModuleWithoutSources(t *testing.T) {
	m, err := registry.Resolve(t.Context(), count, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "count.wasm")
	if err := os.WriteFile(file, m.Wasm, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Plugin(t.Context(), file, Options{NoDriver: errors.New("none here"), Tasks: 1, Repeats: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]sdktest.Finding{
		"builds":        {Status: sdktest.Skipped, Why: "there are no sources to build it from"},
		"native = wasm": {Status: sdktest.Skipped, Why: "there are no sources to build the other transport from"},
		"sandbox":       {Status: sdktest.Skipped, Why: "there is no sandbox to look into"},
	}
	for _, c := range r.Checks {
		w, special := want[c.Check]
		if !special {
			w.Status = sdktest.OK
		}
		if c.Status != w.Status || c.Why != w.Why {
			t.Errorf("%+v", c)
		}
	}
	if r.Name != "count" || r.Transport != registry.WASM || r.Digest != m.Digest || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
}

// An author who wants a process may need what WASM has not got.
func TestProcessOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-skill")
	if _, err := scaffold.New(t.Context(), scaffold.Options{Name: "my-skill", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"native.go": "//go:build !wasip1\n\npackage main\n\nconst native = true\n",
		"use.go":    "package main\n\nvar _ = native\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	agree := func(o Options) sdktest.Finding {
		o.NoDriver, o.Tasks, o.Repeats = errors.New("none here"), 1, 2
		r, err := Plugin(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Checks[len(r.Checks)-1]
	}
	if f := agree(Options{Registry: registry.Options{Transport: registry.Process}}); f.Status != sdktest.Failed || !strings.Contains(f.String(), "it cannot be built for wasm: ") {
		t.Errorf("%+v", f)
	}
	m, err := os.OpenFile(filepath.Join(dir, registry.ManifestFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.WriteString("transport = \"process\"\n")
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	if f := agree(Options{}); f.Status != sdktest.Skipped || !strings.HasPrefix(f.Why, "its manifest wants a process, and it cannot be built for wasm: ") {
		t.Errorf("%+v", f)
	}
}

func TestWhatIsMissingIsAnError(t *testing.T) {
	unable := diag.Errorf(diag.KindSandbox, "open sandboxes", "", "no namespaces")
	for name, tt := range map[string]struct {
		ref  string
		o    Options
		kind diag.Kind
		says string
	}{
		"no sandbox":    {editor, Options{NoDriver: unable}, diag.KindSandbox, "no namespaces"},
		"no judge":      {repro, Options{NoDriver: unable, Driver: noDriver{}}, diag.KindConfig, "asks a judge, and none is named"},
		"no such judge": {repro, Options{Driver: noDriver{}, Judge: "nowhere"}, diag.KindPlugin, `no plugin at "nowhere"`},
		"not a judge":   {repro, Options{Driver: noDriver{}, Judge: count}, diag.KindPlugin, `plugin "count" cannot serve as a judge`},
		"a setting":     {count, Options{Settings: map[string]string{"n": "1"}}, diag.KindConfig, `unknown setting "n"`},
		"no plugin":     {".", Options{}, diag.KindPlugin, "it has no plugin.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Plugin(t.Context(), tt.ref, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.says) || diag.KindOf(err) != tt.kind {
				t.Errorf("kind %s: %v", diag.KindOf(err), err)
			}
		})
	}
}

// noDriver is a Driver that is never asked.
type noDriver struct{ sandbox.Driver }

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Plugin(ctx, count, Options{Heard: func(check string) {
		if check == "malformed" {
			cancel()
		}
	}})
	if diag.KindOf(err) != diag.KindInterrupted {
		t.Errorf("kind %s: %v", diag.KindOf(err), err)
	}
}

// A judge's failure is no opinion, and a judge has no judge.
func TestServices(t *testing.T) {
	o := Options{Judge: rules, Log: slog.New(slog.DiscardHandler)}
	m := &registry.Module{Manifest: registry.Manifest{Name: "asks", Capabilities: []string{"judge"}}}
	h, err := o.services(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	a, err := h.Ask(t.Context(), &sdk.JudgeRequest{Issue: "f() gives 1, not 2", Before: sdk.Log{ExitCode: 1}})
	if err != nil || !a.Verdict {
		t.Errorf("%+v, error %v", a, err)
	}
	if _, err := h.Model(t.Context(), nil); !errors.Is(err, sdktest.ErrNotOffered) {
		t.Error(err)
	}
	if _, err := h.Run(t.Context(), nil); diag.KindOf(err) != diag.KindSandbox {
		t.Error(err)
	}
	if _, err := (&services{}).Ask(t.Context(), nil); diag.KindOf(err) != diag.KindConfig {
		t.Error(err)
	}
}
