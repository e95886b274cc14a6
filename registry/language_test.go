package registry

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
)

// samples are the least plugin of each language that a fixed command builds, and an
// edit that does not compile.
var samples = map[string]struct {
	files     map[string]string
	file      string
	from, to  string
	complaint string
}{
	C: {
		files: map[string]string{"skill.c": "#include \"part.h\"\n__attribute__((export_name(\"skill_v1_call\"))) int call(int m, int n) { return m + n + PART; }\n",
			"part.h": "#define PART 1\n", ".part.c": "#error hidden\n"},
		file: "skill.c", from: "m + n", to: "m + k", complaint: "skill.c:2:83",
	},
	Rust: {
		files: map[string]string{"src/lib.rs": "#[no_mangle]\npub extern \"C\" fn skill_v1_call(m: i32, n: i32) -> i32 { m + n }\n",
			"Cargo.toml": "[package]\nname = \"tiny-skill\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\"]\n"},
		file: "src/lib.rs", from: "m + n", to: "m + k", complaint: "src/lib.rs:2:62",
	},
}

func foreign(t *testing.T, language string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny")
	write(t, filepath.Join(dir, ManifestFile), manifest+"language = \""+language+"\"\n")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// absent says why a language cannot be built here.
func absent(err error) bool {
	var d *diag.Diagnostic
	return errors.As(err, &d) && d.Code == "P011"
}

func TestForeignLanguages(t *testing.T) {
	for language, s := range samples {
		t.Run(language, func(t *testing.T) {
			l := new(log)
			dir, o := foreign(t, language, s.files), Options{Cache: t.TempDir(), Log: slog.New(l)}
			before, err := files(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Resolve(t.Context(), dir, o)
			if absent(err) {
				t.Skipf("not tested, because this machine cannot build it:\n%v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, found, err := Section(m.Wasm, ManifestSection); err != nil || !found || !strings.Contains(string(text), language) {
				t.Errorf("carries %q, %v", text, err)
			}
			if after, err := files(dir, nil); err != nil || digestOf(after) != digestOf(before) {
				t.Errorf("the build changed the folder: %v", err)
			}
			if again := resolve(t, dir, o); again.Digest != m.Digest || l.built != 1 {
				t.Errorf("%d builds", l.built)
			}
			elsewhere := foreign(t, language, s.files)
			if other := resolve(t, elsewhere, Options{Cache: t.TempDir()}); other.Digest != m.Digest {
				t.Error("the same sources elsewhere give another module")
			}
			write(t, filepath.Join(dir, s.file), strings.Replace(s.files[s.file], s.from, s.to, 1))
			_, err = Resolve(t.Context(), dir, o)
			wants(t, err, "P010", "does not compile: ", "--> "+filepath.Join(dir, s.complaint))
			_, err = Resolve(t.Context(), dir, Options{Transport: Process})
			wants(t, err, "P014", "its sources are "+language)
		})
	}
}

func TestForeignToolChainIsMissing(t *testing.T) {
	for language, word := range map[string]string{C: "apt install clang lld", Rust: "rustup target add wasm32-unknown-unknown", AssemblyScript: "npm install"} {
		t.Run(language, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			_, err := Resolve(t.Context(), foreign(t, language, nil), Options{Cache: t.TempDir()})
			wants(t, err, "P011", word, "or name a built .wasm file")
		})
	}
}

func TestNothingToCompile(t *testing.T) {
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skipf("not tested: %v", err)
	}
	_, err := Resolve(t.Context(), foreign(t, C, nil), Options{Cache: t.TempDir()})
	wants(t, err, "P010", "does not compile", "no .c file in the folder")
}

// A file's name is no option of the compiler, and no list of options.
func TestNamesAreNoOptions(t *testing.T) {
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skipf("not tested: %v", err)
	}
	for _, name := range []string{"-fplugin=x.c", "@skill.c", "a b.c"} {
		dir := foreign(t, C, samples[C].files)
		write(t, filepath.Join(dir, name), "")
		_, err := Resolve(t.Context(), dir, Options{Cache: t.TempDir()})
		wants(t, err, "P010", "does not compile", `a source is called "`+name+`"`)
	}
}

// The compiler is one of the folder's own packages.
func TestPackagesAreNotInstalled(t *testing.T) {
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skipf("not tested: %v", err)
	}
	dir := foreign(t, AssemblyScript, map[string]string{"package.json": "{}"})
	_, err := Resolve(t.Context(), dir, Options{Cache: t.TempDir()})
	wants(t, err, "P011", "run `npm install` in the folder", `looked for "`+filepath.Join(dir, "node_modules")+`": no such file or directory`)
}

func TestLinkOutOfTheFolder(t *testing.T) {
	dir := foreign(t, Python, map[string]string{Script: ""})
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "parts")); err != nil {
		t.Fatal(err)
	}
	_, err := Resolve(t.Context(), dir, Options{})
	wants(t, err, "parts is neither a file nor a folder")
}
