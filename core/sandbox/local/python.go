package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/diag"
)

// Python finds the interpreter behind the python3 on the PATH: its own path, past
// links, shims and virtual environments. The system's /usr/bin/python3 goes before
// others on the PATH: what others have installed beside them is not shown in a
// sandbox anyway, and the system's starts three times as fast (RATIONALE.md). Sandboxes show it at that same path, with
// its directory first in their PATH. The error is a diag.Diagnostic of KindSandbox
// that says what to install.
func Python() (string, error) {
	program, _, err := python()
	return program, err
}

// python also gives the directory under which the interpreter and its library live.
func python() (program, prefix string, err error) {
	shim, err := exec.LookPath("python3")
	if err != nil {
		return "", "", missing("python3 is not on the PATH")
	}
	if program, prefix, err = ask(shim); shim == system || !slices.Contains(filepath.SplitList(os.Getenv("PATH")), filepath.Dir(system)) {
		return program, prefix, err
	}
	if p, x, e := ask(system); e == nil {
		return p, x, nil
	}
	return program, prefix, err
}

// system is the interpreter of the distribution.
const system = "/usr/bin/python3"

// missing is the diagnostic for having no usable interpreter.
func missing(summary string, detail ...string) error {
	return &diag.Diagnostic{
		Kind: diag.KindSandbox, Code: "S002", Summary: summary,
		Hint:   "install Python 3.8 or newer so that `python3` is on the PATH, e.g. apt install python3, dnf install python3",
		Detail: detail,
	}
}

// ask runs a python3 to find out which program and which library are behind it.
func ask(shim string) (program, prefix string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	const script = `import sys; print(sys.base_prefix); print(getattr(sys, "_base_executable", "") or sys.executable); sys.exit(sys.version_info < (3, 8))`
	cmd := exec.CommandContext(ctx, shim, "-I", "-c", script)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", "", missing(shim+" does not run, or is older than 3.8", "it ended with: "+err.Error())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return "", "", missing(shim+" does not say where it lives", "it answered: "+strings.TrimSpace(string(out)))
	}
	if prefix, err = filepath.EvalSymlinks(lines[0]); err != nil {
		return "", "", missing("the library of "+shim+" is gone", err.Error())
	}
	program = lines[1]
	if own := filepath.Join(prefix, "bin", "python3"); !strings.HasPrefix(program, prefix+"/") {
		program = own
	}
	if _, err := os.Stat(program); err != nil {
		return "", "", missing("the program behind "+shim+" is gone", err.Error())
	}
	return program, prefix, nil
}
