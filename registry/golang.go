package registry

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

// flags make an outcome that depends on the sources alone: no paths, no version
// control, no symbols.
var flags = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w"}

// goCompiler is the go command, set to build plugins from one folder.
type goCompiler struct {
	*folder
	program string
	target  []string // environment that says what to build for
	flags   []string
}

func (f *folder) goCompiler(transport, name string) (*goCompiler, error) {
	if name == "" {
		name = "go"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, f.noToolChain("install Go (https://go.dev/dl) or name a built .wasm file", "looked for "+quote(name)+": "+err.Error())
	}
	c := &goCompiler{folder: f, program: program, flags: flags, target: []string{"GOOS=wasip1", "GOARCH=wasm"}}
	if transport == Process {
		c.target = []string{"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}
	} else {
		c.flags = append(slices.Clone(flags), "-buildmode=c-shared")
	}
	return c, nil
}

// run gives the standard output, or an error with the standard error.
func (c *goCompiler) run(ctx context.Context, args ...string) ([]byte, error) {
	// What the user has set for other builds would change the outcome and its digest.
	env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWASM=", "GOAMD64=", "GOARM64="}
	return run(ctx, c.dir, append(env, c.target...), c.program, args...)
}

func (c *goCompiler) compile(ctx context.Context, tmp string) ([]byte, error) {
	out := filepath.Join(tmp, "skill")
	if _, err := c.run(ctx, append(append([]string{"build"}, c.flags...), "-o", out, ".")...); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// goComplaint is how the go command reports: file:line:column: text.
var goComplaint = regexp.MustCompile(`^(?:vet: )?([^\s:][^:]*\.go):(\d+)(?::(\d+))?: (.*)$`)

func (c *goCompiler) explain(err error) error { return c.folder.explain(err, goComplaint) }
