package registry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/diag"
)

const (
	manifest = "name = \"tiny\"\nversion = \"0.1.0\"\nabi = 1\nroles = [\"build\"]\n"
	source1  = "package main\n\nfunc main() {}\n\n//go:wasmexport skill_v1_call\nfunc call(a, b int32) int32 { return a + shift }\n"
	shift    = "package main\n\nconst shift = 1\n"
	ownGoMod = "module example.org/tiny\n\ngo 1.26\n"
)

// plugin writes a folder that is a module of its own, so that tests depend on no
// other package and build fast.
func plugin(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{ManifestFile: manifest, "main.go": source1, "shift.go": shift, "go.mod": ownGoMod}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func resolve(t testing.TB, ref string, o Options) *Module {
	t.Helper()
	m, err := Resolve(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wants(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in:\n%v", w, err)
		}
	}
	if k := diag.KindOf(err); k != diag.KindPlugin {
		t.Errorf("kind %s", k)
	}
}

// log counts what is built and keeps what is warned of.
type log struct {
	slog.Handler
	built  int
	warned []string
}

func (l *log) Enabled(context.Context, slog.Level) bool { return true }

func (l *log) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "building plugin" {
		l.built++
	}
	if r.Level == slog.LevelWarn {
		l.warned = append(l.warned, r.Message)
	}
	return nil
}

func TestFolderIsBuiltAndCached(t *testing.T) {
	l := new(log)
	dir, o := plugin(t, nil), Options{Cache: filepath.Join(t.TempDir(), "cache"), Log: slog.New(l)}
	m := resolve(t, dir, o)
	if m.Manifest.Name != "tiny" || m.Ref != dir || m.Transport != WASM || m.Digest != Digest(m.Wasm) {
		t.Errorf("%+v %s %s %s", m.Manifest, m.Ref, m.Digest, m.Path)
	}
	if text, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(text, m.Wasm) {
		t.Errorf("%s: %v", m.Path, err)
	}
	if text, found, err := Section(m.Wasm, ManifestSection); err != nil || !found || string(text) != manifest {
		t.Errorf("carries %q, %v", text, err)
	}
	same := func(why string, builds int) *Module {
		t.Helper()
		again := resolve(t, dir, o)
		if l.built != builds {
			t.Errorf("%s: %d builds, want %d", why, l.built, builds)
		}
		return again
	}
	same("nothing has changed", 1)
	write(t, filepath.Join(dir, "main_test.go"), "package main")
	write(t, filepath.Join(dir, "README.md"), "read")
	same("neither tests nor other files are part of the module", 1)

	write(t, filepath.Join(dir, "shift.go"), strings.Replace(shift, "1", "2", 1))
	changed := same("a source is", 2)
	if changed.Digest == m.Digest || changed.Path == m.Path {
		t.Error("a changed source gives the old module")
	}
	write(t, filepath.Join(dir, ManifestFile), strings.Replace(manifest, "0.1.0", "0.2.0", 1))
	if v := same("so is the manifest", 3); v.Manifest.Version != "0.2.0" || v.Digest == changed.Digest {
		t.Error("a changed manifest gives the old module")
	}
	write(t, filepath.Join(dir, ManifestFile), manifest)
	write(t, filepath.Join(dir, "shift.go"), shift)
	if back := same("what was, is found again", 3); back.Digest != m.Digest {
		t.Error("the old module is lost")
	}
	if other := resolve(t, plugin(t, nil), Options{Cache: t.TempDir()}); other.Digest != m.Digest {
		t.Error("the same sources elsewhere give another module")
	}
}

func TestFolderAsAProcess(t *testing.T) {
	l := new(log)
	o := Options{Cache: t.TempDir(), Transport: Process, Log: slog.New(l)}
	sources := map[string]string{"main.go": "package main\n\nfunc main() { print(shift) }\n"}
	dir := plugin(t, sources)
	m := resolve(t, dir, o)
	if m.Transport != Process || m.Wasm != nil || len(m.Command) != 1 || !filepath.IsAbs(m.Command[0]) || m.Path != m.Command[0] {
		t.Fatalf("%+v", m)
	}
	if out, err := exec.Command(m.Command[0]).CombinedOutput(); err != nil || string(out) != "1" {
		t.Errorf("%q, %v", out, err)
	}
	if again := resolve(t, dir, o); again.Digest != m.Digest || l.built != 1 {
		t.Errorf("%s, then %s; %d builds", m.Digest, again.Digest, l.built)
	}
	if other := resolve(t, plugin(t, sources), Options{Cache: t.TempDir(), Transport: Process}); other.Digest != m.Digest {
		t.Error("the same sources elsewhere give another program")
	}
	write(t, filepath.Join(dir, ManifestFile), strings.Replace(manifest, "0.1.0", "0.2.0", 1))
	if v := resolve(t, dir, o); v.Digest == m.Digest {
		t.Error("the digest does not cover the manifest")
	}
	// The author's wish holds where the run has none.
	write(t, filepath.Join(dir, ManifestFile), manifest+"transport = \"process\"\n")
	o.Transport = ""
	if v := resolve(t, dir, o); v.Transport != Process {
		t.Errorf("transport %s", v.Transport)
	}
	o.Transport = WASM
	if v := resolve(t, dir, o); v.Transport != WASM || v.Wasm == nil {
		t.Errorf("transport %s", v.Transport)
	}
}

func TestScript(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ManifestFile), manifest+"language = \"python\"\n")
	_, err := Resolve(t.Context(), dir, Options{})
	wants(t, err, "P001", "it has no skill.py")
	write(t, filepath.Join(dir, Script), "print(1)\n")
	write(t, filepath.Join(dir, "parts", "a.py"), "")
	write(t, filepath.Join(dir, ".venv", "bin", "python3"), "")
	m := resolve(t, dir, Options{})
	want := []string{filepath.Join(dir, ".venv", "bin", "python3"), "-B", filepath.Join(dir, Script)}
	if m.Transport != Process || !slices.Equal(m.Command, want) || m.Wasm != nil {
		t.Errorf("%+v", m)
	}
	write(t, filepath.Join(dir, "__pycache__", "skill.cpython-311.pyc"), "compiled")
	write(t, filepath.Join(dir, "parts", "a.pyc"), "compiled")
	if again := resolve(t, dir, Options{}); again.Digest != m.Digest {
		t.Error("what Python caches changes the digest")
	}
	write(t, filepath.Join(dir, "parts", "a.py"), "pass")
	if again := resolve(t, dir, Options{}); again.Digest == m.Digest {
		t.Error("a changed file leaves the digest")
	}
	_, err = Resolve(t.Context(), dir, Options{Transport: WASM})
	wants(t, err, "P014", "cannot run as wasm: its sources are python", `transport = "process"`)
	if err := os.RemoveAll(filepath.Join(dir, ".venv")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = Resolve(t.Context(), dir, Options{})
	wants(t, err, "P011", "no python3 to run it", "install Python 3.9")
}

func TestChangedBuildIsMadeAgain(t *testing.T) {
	for _, transport := range []string{WASM, Process} {
		l := new(log)
		dir, o := plugin(t, nil), Options{Cache: t.TempDir(), Transport: transport, Log: slog.New(l)}
		m := resolve(t, dir, o)
		flip(t, m.Path)
		if again := resolve(t, dir, o); again.Digest != m.Digest || l.built != 2 || len(l.warned) != 1 {
			t.Errorf("%s: %s, want %s; %d builds, %q", transport, again.Digest, m.Digest, l.built, l.warned)
		}
	}
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedFilesCount(t *testing.T) {
	dir := plugin(t, map[string]string{
		"shift.go":         "package main\n\nimport _ \"embed\"\n\n//go:embed prompts/a.txt\nvar a string\n\nvar shift = int32(len(a))\n",
		"prompts/a.txt":    "a",
		"other/package.go": "package other\n",
	})
	o := Options{Cache: t.TempDir()}
	first := resolve(t, dir, o)
	write(t, filepath.Join(dir, "prompts/a.txt"), "b")
	if resolve(t, dir, o).Digest == first.Digest {
		t.Error("a changed embedded file gives the old module")
	}
}

func TestManyResolveAtOnce(t *testing.T) {
	dir, o := plugin(t, nil), Options{Cache: t.TempDir()}
	digests := make([]string, 8)
	var all sync.WaitGroup
	for i := range digests {
		all.Go(func() {
			m, err := Resolve(t.Context(), dir, o)
			if err != nil {
				t.Error(err)
				return
			}
			digests[i] = m.Digest
		})
	}
	all.Wait()
	for _, d := range digests {
		if d != digests[0] {
			t.Errorf("%s and %s", d, digests[0])
		}
	}
	if left, _ := filepath.Glob(filepath.Join(o.Cache, "tmp", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFile(t *testing.T) {
	built := resolve(t, plugin(t, nil), Options{Cache: t.TempDir()})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tiny.wasm"), string(built.Wasm))
	m := resolve(t, "tiny.wasm", Options{Dir: dir})
	if m.Digest != built.Digest || m.Manifest.Name != "tiny" || m.Ref != "tiny.wasm" || m.Transport != WASM {
		t.Errorf("%+v", m)
	}
	_, err := Resolve(t.Context(), "tiny.wasm", Options{Dir: dir, Transport: Process})
	wants(t, err, "P014", `plugin "tiny.wasm" cannot run as a process: it is a module`)
	bare := "\x00asm\x01\x00\x00\x00"
	write(t, filepath.Join(dir, "bare.wasm"), bare)
	_, err = Resolve(t.Context(), "bare.wasm", Options{Dir: dir})
	wants(t, err, "P001", "carries no manifest", "plugin.toml")
	write(t, filepath.Join(dir, ManifestFile), strings.Replace(manifest, "tiny", "bare", 1))
	if m := resolve(t, "bare.wasm", Options{Dir: dir}); m.Manifest.Name != "bare" {
		t.Errorf("%+v", m)
	}
	if m := resolve(t, "tiny.wasm", Options{Dir: dir}); m.Manifest.Name != "tiny" {
		t.Error("a manifest beside the module outdoes the one inside")
	}
	write(t, filepath.Join(dir, "text.wasm"), "text")
	_, err = Resolve(t.Context(), "text.wasm", Options{Dir: dir})
	wants(t, err, "P013", `"text.wasm" is not a WASM module`)
}

func TestResolveRefuses(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		name, ref string
		words     []string
	}{
		{"nothing there", "plugins/none", []string{"P001", `no plugin at "plugins/none"`}},
		{"a folder without manifest", empty, []string{"P001", "it has no plugin.toml"}},
		{"name and version", "localization@0.3.1", []string{"P012", `plugin "localization@0.3.1" is looked up in a registry, and the run names none`, "[registry] repository"}},
		{"OCI reference without scheme", "ghcr.io/acme/review@" + Digest(nil), []string{"P001", `did you mean "oci://ghcr.io/acme/review@sha256:`}},
		{"half a version", "localization@1", []string{"P001", "a version like 0.1.0"}},
		{"no tag", "oci://ghcr.io/acme/review", []string{"P001", "is no reference to a registry", "like oci://host/repository:tag"}},
		{"no host", "oci://acme/review:1", []string{"P001", "is no reference to a registry"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Resolve(t.Context(), c.ref, Options{})
			wants(t, err, c.words...)
		})
	}
}

func TestCompileErrorPointsAtTheAuthorsLine(t *testing.T) {
	dir := plugin(t, map[string]string{"shift.go": "package main\n\nconst shift = undefinedName\n\nvar x int = \"\"\n"})
	_, err := Resolve(t.Context(), "p", Options{Dir: filepath.Dir(dir), Cache: t.TempDir()})
	wants(t, err, "no plugin")
	ref := filepath.Base(dir)
	_, err = Resolve(t.Context(), ref, Options{Dir: filepath.Dir(dir), Cache: t.TempDir()})
	file := filepath.Join(ref, "shift.go")
	wants(t, err, "error[P010]: plugin", "does not compile: undefined: undefinedName",
		"--> "+file+":3:15\n 3 | const shift = undefinedName\n   |               ^", file+":5:")
}

func TestBadImportIsExplained(t *testing.T) {
	for name, text := range map[string]string{
		"syntax":  "package main\n\nfunc {\n",
		"import":  "package main\n\nimport \"example.org/nowhere\"\n\nvar shift = nowhere.X\n",
		"package": "package other\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := plugin(t, map[string]string{"shift.go": text})
			_, err := Resolve(t.Context(), dir, Options{Cache: t.TempDir()})
			wants(t, err, "P010", "does not compile", "shift.go")
		})
	}
}

func TestNoToolChain(t *testing.T) {
	_, err := Resolve(t.Context(), plugin(t, nil), Options{Cache: t.TempDir(), Go: "no-such-go"})
	wants(t, err, "P011", "no Go tool chain", `looked for "no-such-go"`, "name a built .wasm file")
}

func TestResolveIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, plugin(t, nil), Options{Cache: t.TempDir()}); !errors.Is(err, ctx.Err()) || diag.KindOf(err) != diag.KindInterrupted {
		t.Error(err)
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path); !errors.Is(err, ctx.Err()) {
		t.Errorf("a held lock: %v", err)
	}
	unlock()
	unlock, err = lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
