package runner

import (
	_ "embed"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/testlog"
)

//go:embed table.toml
var builtIn string

// Table is the runners, those that are asked first in front.
type Table []*Runner

// Builtin gives the runners that need no telling: pytest, unittest and go test.
func Builtin() Table {
	t, err := read("built-in runners", builtIn)
	if err != nil {
		panic(err) // a test reads it
	}
	return t
}

// Read gives the built-in table with the runners of a TOML file in front. Errors are
// diag.Errors of KindConfig.
func Read(name string) (Table, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, diag.Wrap(diag.KindConfig, "read runners", name, err)
	}
	t, err := read(name, string(data))
	if err != nil {
		return nil, err
	}
	return append(t, Builtin()...), nil
}

func read(name, text string) (Table, error) {
	var file struct {
		Runner []*Runner `toml:"runner"`
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		return nil, diag.Wrap(diag.KindConfig, "read runners", name, err)
	}
	if keys := meta.Undecoded(); len(keys) > 0 {
		return nil, diag.Errorf(diag.KindConfig, "read runners", name, "%s: unknown key; a runner has name, language, sources, tests, root, contents, unit, command, parser, unit_test, env, functions, needs and hint", keys[0])
	}
	for _, r := range file.Runner {
		if err := r.settle(); err != nil {
			return nil, diag.Errorf(diag.KindConfig, "read runners", name, "runner %q: %w", r.Name, err)
		}
	}
	return file.Runner, nil
}

// settle checks an entry and fills in what follows from it.
func (r *Runner) settle() error {
	for _, needed := range [][2]string{{"name", r.Name}, {"language", r.Language}, {"command", r.Command}, {"parser", r.Parser}, {"functions", r.Functions}} {
		if needed[1] == "" {
			return fmt.Errorf("%s is missing", needed[0])
		}
	}
	if r.Unit == "" {
		r.Unit = File
	}
	switch {
	case r.Unit != File && r.Unit != Folder:
		return fmt.Errorf("unit %q is neither %q nor %q", r.Unit, File, Folder)
	case len(r.Sources) == 0 || len(r.Tests) == 0:
		return fmt.Errorf("sources and tests name no file")
	}
	if _, err := testlog.Parse(r.Parser, ""); err != nil {
		return fmt.Errorf("parser: %w", err)
	}
	for _, e := range r.Sources {
		if !strings.HasPrefix(e, ".") {
			return fmt.Errorf("sources: %q does not begin with a dot", e)
		}
	}
	for _, g := range r.Tests {
		if _, err := path.Match(g, ""); err != nil {
			return fmt.Errorf("tests: %q: %w", g, err)
		}
	}
	var err error
	if r.Contents != "" {
		if r.contents, err = regexp.Compile(r.Contents); err != nil {
			return fmt.Errorf("contents: %w", err)
		}
	}
	if r.Functions != "python" && r.Functions != "go" {
		if r.functions, err = regexp.Compile(r.Functions); err != nil {
			return fmt.Errorf("functions: %w", err)
		}
		if r.functions.NumSubexp() < 1 {
			return fmt.Errorf("functions: the expression has no group for the name")
		}
	}
	return nil
}

// Find gives the runner named, or, without a name, the first that fits the tree and
// has a test file in it. Errors are diag.Errors of KindData that say what was looked
// for; of KindConfig for a name that is not in the table.
func (t Table) Find(name string, files []sdk.File) (*Runner, error) {
	var names, globs []string
	for _, r := range t {
		names = append(names, r.Name)
		if name != "" && name != r.Name {
			continue
		}
		if name == r.Name && len(r.Groups(files)) > 0 || name == "" && r.Fits(files) {
			return r, nil
		}
		for _, g := range r.Tests {
			if !slices.Contains(globs, g) {
				globs = append(globs, g)
			}
		}
	}
	if name != "" && !slices.Contains(names, name) {
		return nil, diag.Errorf(diag.KindConfig, "find runner", name, "no such runner; there are %s", strings.Join(names, ", "))
	}
	return nil, diag.Errorf(diag.KindData, "find runner", name, "the tree has no tests that a known runner runs: no file named %s", strings.Join(globs, ", "))
}

// Fits says whether a tree has tests of the runner.
func (r *Runner) Fits(files []sdk.File) bool {
	root := r.Root == "" || slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == r.Root })
	return root && len(r.Groups(files)) > 0
}
