package registry

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// Script is the file that a Python plugin starts with.
const Script = "skill.py"

// script is a plugin that runs as it is: an interpreter with a file of the folder.
// The interpreter is that of a .venv in the folder, else python3 in PATH.
func (f *folder) script() (*Module, error) {
	l := languages[Python]
	all, err := files(f.dir, l.derived)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(f file) bool { return f.name == Script }) {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001",
			Summary: "folder " + quote(f.ref) + " is no Python plugin: it has no " + Script,
			Hint:    "name the file with the skill " + Script}
	}
	python := filepath.Join(f.dir, ".venv", "bin", "python3")
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath(l.tools[0]); err != nil {
			return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P011",
				Summary: "plugin " + quote(f.ref) + " is written in Python, and there is no python3 to run it",
				Hint:    l.install, Detail: []string{err.Error()}}
		}
	}
	if python, err = filepath.Abs(python); err != nil {
		return nil, err
	}
	entry := filepath.Join(f.dir, Script)
	return &Module{
		Manifest:  *f.manifest,
		Transport: Process,
		// -B: the folder stays as its author left it.
		Command: []string{python, "-B", entry},
		Digest:  digestOf(all),
		Path:    entry,
	}, nil
}
