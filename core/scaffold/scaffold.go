// Package scaffold makes the folder of a new skill: a small one that builds, runs and
// passes the conformance suite, for its author to change. It is the example of its
// language under another name, so that there is one source of both.
package scaffold

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	sources "github.com/valence-rl/valence/core/checkout"
	"github.com/valence-rl/valence/core/diag"
	examples "github.com/valence-rl/valence/examples/plugins"
	"github.com/valence-rl/valence/registry"
)

// Options say what to make.
type Options struct {
	Name     string // of the skill; the rule is the manifest's
	Language string // go, python, rust, c or assemblyscript; default go
	Dir      string // the folder to make; default: the name, in the working folder
	// SDK is the folder of a checkout of Valence, for a Go skill in a module of its
	// own and for the installation of the Python SDK; "" looks for the one that this
	// program was built from.
	SDK string
}

// Skill is a folder that was made.
type Skill struct {
	Name     string   `json:"name"`
	Language string   `json:"language"`
	Dir      string   `json:"dir"`
	Files    []string `json:"files"`            // relative to Dir, sorted
	Module   string   `json:"module,omitempty"` // of Go: the go.mod that Dir is under, if it has none of its own
	SDK      string   `json:"sdk,omitempty"`    // what Go or Python take the SDK from: a folder, or a version
}

//go:embed templates/README.md
var readme string

//go:embed templates/test_skill.py
var pythonTest string

// example says where the sources of a language's skill come from.
type example struct {
	name  string // of the example, which stands for the new skill's
	files map[string]string
}

var languages = map[string]example{
	registry.Go:             {"count", nil},
	registry.Python:         {"count-python", map[string]string{"test_skill.py": pythonTest, ".gitignore": ".venv/\n__pycache__/\n"}},
	registry.Rust:           {"count-rust", map[string]string{".gitignore": "target/\n"}},
	registry.C:              {"count-c", nil},
	registry.AssemblyScript: {"count-assemblyscript", map[string]string{".gitignore": "build/\nnode_modules/\n"}},
}

// New makes the folder. It appears whole or not at all; one that is there already
// must be empty. Errors are of kind config: diagnostics where the name, the language
// or the folder is wrong.
func New(ctx context.Context, o Options) (*Skill, error) {
	if o.Language == "" {
		o.Language = registry.Go
	}
	if err := allowed(o); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		o.Dir = o.Name
	}
	if err := free(o.Dir); err != nil {
		return nil, err
	}
	s := &Skill{Name: o.Name, Language: o.Language, Dir: o.Dir}
	tree, err := render(languages[o.Language], o.Name)
	if err != nil {
		return nil, diag.Wrap(diag.KindUnknown, "make skill", o.Name, err)
	}
	switch o.Language {
	case registry.Go:
		if s.Module, err = moduleAbove(o.Dir); err != nil {
			return nil, diag.Wrap(diag.KindConfig, "make skill", o.Name, err)
		}
		if s.Module == "" {
			if s.SDK, err = ownModule(ctx, o, tree); err != nil {
				return nil, err
			}
		}
	case registry.Python:
		if s.SDK, err = checkout(o.SDK); err != nil {
			return nil, err
		}
		s.SDK = sources.Python(s.SDK)
	}
	if tree["README.md"], err = s.readme(); err != nil {
		return nil, diag.Wrap(diag.KindUnknown, "make skill", o.Name, err)
	}
	for name := range tree {
		s.Files = append(s.Files, name)
	}
	slices.Sort(s.Files)
	return s, diag.Wrap(diag.KindConfig, "make skill", o.Dir, write(o.Dir, tree))
}

// allowed asks the manifest's own rules about name and language.
func allowed(o Options) error {
	text := fmt.Sprintf("name = %q\nlanguage = %q\nversion = \"0.1.0\"\nabi = 1\nroles = [\"build\"]\n", o.Name, o.Language)
	_, err := registry.ParseManifest(registry.ManifestFile, []byte(text))
	var l diag.List
	if !errors.As(err, &l) {
		return err
	}
	for _, d := range l {
		d.Kind, d.Code, d.Source = diag.KindConfig, "C043", diag.Source{}
	}
	return l
}

// free refuses a place where something is.
func free(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err == nil:
		err = fmt.Errorf("%d files are in it", len(entries))
	}
	return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C044",
		Summary: fmt.Sprintf("%q is there already, and nothing is overwritten: %v", dir, err),
		Hint:    "choose another name, or another folder with --dir"}
}

// render gives the example's files under another name.
func render(e example, name string) (map[string][]byte, error) {
	tree := map[string][]byte{}
	for file, text := range e.files {
		tree[file] = []byte(text)
	}
	old := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(e.name) + `($|[^\w-])`)
	err := fs.WalkDir(examples.Sources, e.name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := examples.Sources.ReadFile(p)
		if err != nil {
			return err
		}
		if path.Base(p) == registry.ManifestFile {
			text = ownManifest(text)
		}
		tree[strings.TrimPrefix(p, e.name+"/")] = old.ReplaceAll(text, []byte("${1}"+name+"${2}"))
		return nil
	})
	return tree, err
}

// ownManifest leaves out what is true of the example alone.
func ownManifest(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("source")) {
			out = append(out, line...)
		}
	}
	return out
}

func (s *Skill) readme() ([]byte, error) {
	t, err := template.New("README.md").Parse(readme)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, s)
	return b.Bytes(), err
}

// write makes the folder in one move. One that is there, and empty, is filled file
// by file with the manifest last, without which it is no plugin.
func write(dir string, tree map[string][]byte) error {
	_, err := os.Stat(dir)
	there := err == nil
	beside := dir
	if !there {
		beside = filepath.Dir(filepath.Clean(dir))
		if err := os.MkdirAll(beside, 0o755); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(beside, ".new-skill-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for name, text := range tree {
		file := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	if !there {
		return os.Rename(tmp, dir)
	}
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	names := []string{registry.ManifestFile}
	for _, e := range entries {
		if e.Name() != registry.ManifestFile {
			names = append(names, e.Name())
		}
	}
	for _, name := range slices.Backward(names) {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
