package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/checkout"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// TestPythonThatDoesNotStart needs Python without the SDK, which -S makes of any.
func TestPythonThatDoesNotStart(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 in PATH: install Python 3.9 or newer")
	}
	for _, c := range []struct{ name, script, code, words string }{
		{"no SDK", "import valence", "P011", `plugin "p" needs the Python SDK, which ` + python + " has not got"},
		{"half an SDK", "raise ModuleNotFoundError(\"No module named 'grpc'\")", "P011", "in the plugin's folder: python3 -m venv .venv && .venv/bin/pip install " + checkout.Python(checkout.Find())},
		{"no other module", "import no_such_module", "P011", `needs the module "no_such_module"`},
		{"syntax", "def (", "P013", "  | SyntaxError: invalid syntax"},
		{"bug", "print('hello', flush=True)\n1 / 0", "P013", `plugin "p" does not start: `},
		{"venv", "import grpc", "P011", "in the plugin's folder: .venv/bin/pip install "},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "skill.py")
			python := python
			if c.name == "venv" {
				own := filepath.Join(filepath.Dir(script), ".venv", "bin", "python3")
				if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o755), os.WriteFile(own, []byte("#!/bin/sh\nexec "+python+" \"$@\"\n"), 0o755)); err != nil {
					t.Fatal(err)
				}
				python = own
			}
			if err := os.WriteFile(script, []byte(c.script), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(t.Context(), &registry.Module{
				Manifest:  registry.Manifest{Name: "p", Language: registry.Python},
				Transport: registry.Process, Command: []string{python, "-S", "-I", script}, Path: script, Ref: "p",
			}, Options{})
			wants(t, err, diag.KindPlugin, c.code, c.words, "loaded from p")
			if strings.Contains(err.Error(), "not a skill module") {
				t.Error(err)
			}
		})
	}
}
