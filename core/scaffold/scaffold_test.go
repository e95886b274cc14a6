package scaffold

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sources "github.com/valence-rl/valence/core/checkout"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryLanguage(t *testing.T) {
	for language, skill := range map[string]string{
		registry.Go: "main.go", registry.Python: "skill.py", registry.Rust: "src/lib.rs", registry.C: "skill.c", registry.AssemblyScript: "assembly/skill.ts",
	} {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "made", "here")
			s, err := New(t.Context(), Options{Name: "my-2nd-skill", Language: language, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(read(t, dir, skill), "my-2nd-skill") {
				t.Errorf("%s does not name the skill", skill)
			}
			m, err := registry.ReadManifest(dir, dir)
			if err != nil {
				t.Fatal(err)
			}
			if m.Name != "my-2nd-skill" || m.Language != language || m.Source != "" {
				t.Errorf("%+v", m)
			}
			old := regexp.MustCompile(`\bcount-` + language + `\b`)
			var found []string
			err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, _ := filepath.Rel(dir, p)
				found = append(found, filepath.ToSlash(rel))
				if old.MatchString(read(t, p)) {
					t.Errorf("%s still has the example's name", rel)
				}
				return nil
			})
			slices.Sort(found)
			if err != nil || !slices.Equal(found, s.Files) {
				t.Errorf("made %v, told %v, error %v", found, s.Files, err)
			}
			readme := read(t, dir, "README.md")
			for _, want := range []string{"# my-2nd-skill\n", "`" + skill + "`", "[skills.my-2nd-skill]"} {
				if !strings.Contains(readme, want) {
					t.Errorf("README.md has no %q", want)
				}
			}
			if strings.Contains(readme, "{{") || strings.Contains(readme, "\n\n\n") {
				t.Errorf("README.md is ill-formed:\n%s", readme)
			}
		})
	}
}

// An author's part of a skill stays small enough to be read at once.
func TestSkillsAreShort(t *testing.T) {
	for language, skill := range map[string]string{registry.Go: "main.go", registry.Python: "skill.py"} {
		tree, err := render(languages[language], "my-skill")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(tree[skill]), "\n"); n >= 70 {
			t.Errorf("%s has %d lines", skill, n)
		}
	}
}

func TestRefused(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(full, "notes.txt")
	for name, tt := range map[string]struct {
		o    Options
		says []string
	}{
		"name":          {Options{Name: "My Skill"}, []string{`C043`, `name "My Skill" is not a plugin's name`, "lower-case letters"}},
		"no name":       {Options{}, []string{`C043`, `name "" is not a plugin's name`}},
		"quotes":        {Options{Name: "a\"\nname = \"b"}, []string{`C043`}},
		"language":      {Options{Name: "x", Language: "pyton"}, []string{`C043`, `unknown language "pyton"`, `did you mean "python"?`}},
		"both":          {Options{Name: "X", Language: "ruby"}, []string{`name "X"`, `unknown language "ruby"`, "assemblyscript, c, go, python, rust"}},
		"folder":        {Options{Name: "x", Dir: full}, []string{`C044`, "nothing is overwritten", "--dir"}},
		"file":          {Options{Name: "x", Dir: file}, []string{`C044`, "not a directory"}},
		"sdk":           {Options{Name: "x", SDK: full}, []string{`C045`, "is no checkout"}},
		"sdk of Python": {Options{Name: "x", Language: "python", SDK: full}, []string{`C045`, "is no checkout"}},
	} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			if tt.o.Dir == "" {
				tt.o.Dir = filepath.Join(place, "x")
			}
			_, err := New(t.Context(), tt.o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("no %q in: %v", s, err)
				}
			}
			if k := diag.KindOf(err); k != diag.KindConfig {
				t.Errorf("kind %s", k)
			}
			if left, _ := os.ReadDir(place); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAnEmptyFolderWillDo(t *testing.T) {
	dir := t.TempDir()
	if _, err := New(t.Context(), Options{Name: "x", Language: registry.C, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	read(t, dir, "skill.c")
	read(t, dir, registry.ManifestFile)
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-skill-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestModule(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	s, err := New(t.Context(), Options{Name: "x", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s.Module != "" || s.SDK == "" || !strings.HasSuffix(read(t, dir, "go.mod"), "replace "+sources.Module+" => "+quoted(s.SDK)+"\n") {
		t.Errorf("%+v", s)
	}
	if read(t, dir, "go.sum") == "" {
		t.Error("go.sum is empty")
	}
	inner := filepath.Join(dir, "skills", "y")
	s, err = New(t.Context(), Options{Name: "y", Dir: inner})
	if err != nil {
		t.Fatal(err)
	}
	if s.Module != filepath.Join(dir, "go.mod") || slices.Contains(s.Files, "go.mod") {
		t.Errorf("%+v", s)
	}
	// All that the two import is required, with its sum, and nothing has to be fetched.
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReleased(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "(devel)": false, "": false, "v0.0.0-20261121153409-f969450abcde": false, "v1.2.3+dirty": false,
	} {
		if got := released(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

func TestWriteLeavesNothingHalf(t *testing.T) {
	place := t.TempDir()
	dir := filepath.Join(place, "x")
	// A folder where a file should be: writing fails in the middle.
	err := write(dir, map[string][]byte{"a": nil, "a/b": nil})
	if err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(place); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
