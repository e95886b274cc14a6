package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	sources "github.com/valence-rl/valence/core/checkout"
	"github.com/valence-rl/valence/core/diag"
)

// moduleAbove is the go.mod of the module that dir, which need not exist, lies in; ""
// if it lies in none.
func moduleAbove(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for ; filepath.Dir(at) != at; at = filepath.Dir(at) {
		file := filepath.Join(at, "go.mod")
		if _, err := os.Stat(file); err == nil {
			return file, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// ownModule adds go.mod and go.sum of a skill that is a module of its own. The SDK
// comes from a checkout, or, where this program was built as a released version of
// it, from that version. It gives the folder or the version.
func ownModule(ctx context.Context, o Options, tree map[string][]byte) (string, error) {
	at, err := checkout(o.SDK)
	if err != nil {
		return "", err
	}
	if at != "" {
		return at, fromCheckout(ctx, at, o.Name, tree)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == sources.Module && released(info.Main.Version) {
		tree["go.mod"] = fmt.Appendf(nil, "module example.com/%s\n\ngo 1.26.0\n\nrequire %s %s\n", o.Name, sources.Module, info.Main.Version)
		return info.Main.Version, nil
	}
	return "", &diag.Diagnostic{Kind: diag.KindConfig, Code: "C045",
		Summary: "a skill in Go imports " + sources.Module + ", and no checkout of it was found",
		Hint:    "name one with --sdk DIR, or make the skill inside a Go module"}
}

// released tells a version that a module proxy can serve from one that was made up
// for a checkout.
func released(version string) bool {
	return strings.HasPrefix(version, "v") && !strings.ContainsAny(version, "-+")
}

// checkout is the folder with the SDK's sources: the one named, or the one that this
// program was made from; "" if there is none.
func checkout(named string) (string, error) {
	if named != "" {
		at, err := filepath.Abs(named)
		if err != nil {
			return "", err
		}
		if !sources.Is(at) {
			return "", &diag.Diagnostic{Kind: diag.KindConfig, Code: "C045",
				Summary: fmt.Sprintf("--sdk %q is no checkout of %s", named, sources.Module),
				Hint:    "name the folder that has its go.mod"}
		}
		return at, nil
	}
	return sources.Find(), nil
}

// fromCheckout writes a go.mod that takes the SDK from a folder. It names all that
// the SDK imports, with the sums that the checkout has, so that nothing has to be
// fetched to build.
func fromCheckout(ctx context.Context, at, name string, tree map[string][]byte) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}", "./sdk", "./sdk/sdktest")
	cmd.Dir = at
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return diag.Errorf(diag.KindConfig, "make skill", at, "list what the SDK imports: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	needed := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(needed)
	needed = slices.Compact(needed)
	sums, err := os.ReadFile(filepath.Join(at, "go.sum"))
	if err != nil {
		return diag.Wrap(diag.KindConfig, "make skill", at, err)
	}
	var mod, sum bytes.Buffer
	fmt.Fprintf(&mod, "module example.com/%s\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nrequire (\n", name, sources.Module)
	for _, n := range needed {
		fmt.Fprintf(&mod, "\t%s // indirect\n", n)
		for line := range bytes.Lines(sums) {
			if bytes.HasPrefix(line, []byte(n+" ")) || bytes.HasPrefix(line, []byte(n+"/go.mod ")) {
				sum.Write(line)
			}
		}
	}
	fmt.Fprintf(&mod, ")\n\nreplace %s => %s\n", sources.Module, quoted(at))
	tree["go.mod"], tree["go.sum"] = mod.Bytes(), sum.Bytes()
	return nil
}

// quoted is a path as go.mod takes it.
func quoted(p string) string {
	if strings.ContainsAny(p, " \"'`()[]{},\\") {
		return fmt.Sprintf("%q", p)
	}
	return p
}
