package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// GoTools is a Go tool chain of the host, as sandboxes show it: at its own path, with
// its programs last in the PATH.
type GoTools struct {
	Root    string // GOROOT
	Version string // "go1.26.0"
}

// Where sandboxes find what [PrepareGo] and [Driver.PrepareVendor] made.
const (
	goKitAt    = "/opt/go-build"
	goVendorAt = "/opt/go-vendor"
)

// goProgram is the go of a sandbox: it begins a build cache with links to what the
// standard library and the vendored packages compiled to. Go refuses a cache that it
// cannot write to, and one that says that it was not tidied today it tidies: of all that
// is older than some days.
const goProgram = `#!/bin/sh
export GOCACHE="${GOCACHE:-/tmp/go-build}"
[ -d "$GOCACHE" ] || {
	cp -rs ` + goKitAt + `/cache "$GOCACHE.$$" &&
	{ [ ! -d ` + goVendorAt + ` ] || cp -rs ` + goVendorAt + `/. "$GOCACHE.$$"; } &&
	rm -f "$GOCACHE.$$/trim.txt" && date +%s >"$GOCACHE.$$/trim.txt" &&
	mv -T "$GOCACHE.$$" "$GOCACHE"
} 2>/dev/null
exec ROOT/bin/go "$@"
`

// FindGo finds the tool chain behind the go on the PATH, without running it. The error
// is a diag.Diagnostic of KindSandbox that says what to install.
func FindGo() (GoTools, error) {
	missing := func(summary string) (GoTools, error) {
		return GoTools{}, &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S006", Summary: summary,
			Hint: "install Go so that `go` is on the PATH, and is a tool chain of its own and no wrapper"}
	}
	program, err := exec.LookPath("go")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return missing("go is not on the PATH")
	}
	root := filepath.Dir(filepath.Dir(program))
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	version, _, _ := strings.Cut(string(text), "\n")
	if err != nil || !strings.HasPrefix(version, "go") || strings.ContainsAny(version, "/ ") {
		return missing("the go on the PATH, " + program + ", is not in a tool chain's folder")
	}
	return GoTools{root, version}, nil
}

// kit is the folder below dir that holds what the standard library compiles to, and
// the program that uses it.
func (g GoTools) kit(dir string) string { return filepath.Join(dir, "go-std-"+g.Version) }

// PrepareGo compiles the standard library once for all sandboxes of drivers with this
// Dir, which then show it read-only: without it, each fresh sandbox compiles what its
// tests import again. It blocks for about a minute of CPU the first time, runs the
// host's go on nothing but its own library, and gives whether it did. Drivers that are open
// already show it in sandboxes made afterwards.
func PrepareGo(ctx context.Context, dir string) (done bool, err error) {
	const op = "prepare go for sandboxes"
	g, err := FindGo()
	if err != nil {
		return false, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return false, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	final := g.kit(dir)
	if _, err := os.Stat(final); err == nil {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	temp, err := os.MkdirTemp(dir, "go-std-*.partial")
	if err != nil {
		return false, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, filepath.Join(g.Root, "bin", "go"), "build", "std")
	cmd.Dir = temp
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + temp, "GOCACHE=" + filepath.Join(temp, "cache"), "GOROOT=" + g.Root,
		"CGO_ENABLED=0", "GOFLAGS=", "GOTOOLCHAIN=local", "GOPROXY=off", "GOENV=off", "GOWORK=off"}
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = readable(temp)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(temp, "bin"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, "bin", "go"), []byte(strings.Replace(goProgram, "ROOT", g.Root, 1)), 0o755)
	}
	if err == nil {
		err = os.Rename(temp, final)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return false, diag.Wrap(diag.KindInterrupted, op, g.Root, ctx.Err())
	}
	if err != nil {
		if _, there := os.Stat(final); there == nil {
			return false, nil // another process was faster
		}
		return false, diag.Errorf(diag.KindSandbox, op, g.Root, "%w: %s", err, bytes.TrimSpace(out))
	}
	return true, nil
}

// readable opens a tree to the users of sandboxes.
func readable(root string) error {
	return filepath.WalkDir(root, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return os.Chmod(name, 0o644)
	})
}
