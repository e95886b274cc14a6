package source

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// requires finds what a go.mod asks for beyond the standard library.
var requires = regexp.MustCompile(`(?m)^\s*(require\s|[a-zA-Z0-9.-]+\.[a-zA-Z0-9./_-]+ v\d)`)

// Vendor lays the modules that a Go tree requires into its vendor folder, as
// `go mod vendor` does, from the host's module cache and without a network: sandboxes
// have neither. A tree that requires nothing, or has the folder, comes back as it is.
// Packages limits what is kept to the dependencies of these packages and their tests
// ("./a", "./b/..."); nil keeps all.
//
// The host's go reads the sources and runs nothing of them. The error is a
// diag.Diagnostic of KindData that names what the cache lacks.
func Vendor(ctx context.Context, t *Tree, packages []string) (*Tree, error) {
	const op = "vendor modules"
	if !requires.Match(t.At("go.mod")) || t.At("vendor/modules.txt") != nil {
		return t, nil
	}
	dir, err := t.lay()
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, t.Name, err)
	}
	defer os.RemoveAll(dir)
	if out, err := goCommand(ctx, dir, "mod", "vendor"); err != nil {
		if ctx.Err() != nil {
			return nil, diag.Wrap(diag.KindInterrupted, op, t.Name, ctx.Err())
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, &diag.Diagnostic{Kind: diag.KindData, Code: "D021", Summary: t.Name + ": its modules are not all in the host's module cache",
			Hint: "run `go mod download` in its folder, with a network", Detail: lines[:min(len(lines), 5)]}
	}
	vendored := &taker{name: filepath.Join(dir, "vendor"), seen: map[string]bool{}}
	if _, err := os.Stat(vendored.name); err == nil { // nothing is imported of what is required
		if err := vendored.folder(vendored.name); err != nil {
			return nil, diag.Wrap(diag.KindData, op, t.Name, err)
		}
	}
	keep := func(string) bool { return true }
	if packages != nil {
		out, err := goCommand(ctx, dir, append([]string{"list", "-mod=vendor", "-e", "-deps", "-test", "-f", "{{.Dir}}"}, packages...)...)
		if err != nil {
			return nil, diag.Errorf(diag.KindData, op, t.Name, "list packages: %w: %s", err, bytes.TrimSpace(out))
		}
		folders := map[string]bool{".": true} // modules.txt
		for line := range strings.Lines(string(out)) {
			if rel, err := filepath.Rel(vendored.name, strings.TrimSpace(line)); err == nil && filepath.IsLocal(rel) {
				folders[filepath.ToSlash(rel)] = true
			}
		}
		keep = func(p string) bool {
			for d := filepath.ToSlash(filepath.Dir(p)); ; d = filepath.ToSlash(filepath.Dir(d)) {
				if folders[d] && (d != "." || p == "modules.txt") {
					return true
				}
				if d == "." {
					return false
				}
			}
		}
	}
	out := *t
	out.Files = slices.Clone(t.Files)
	for _, f := range vendored.files {
		if keep(f.Path) {
			out.Files = append(out.Files, sdk.File{Path: "vendor/" + f.Path, Data: f.Data})
		}
	}
	slices.SortFunc(out.Files, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	return &out, nil
}

// Imports counts, for each folder of a Go tree, the packages beyond the standard library
// that the folder and its tests come to import, as far as the host's module cache has
// them. It runs nothing of the tree and asks no network.
func Imports(ctx context.Context, t *Tree, folders []string) (map[string]int, error) {
	const op = "list imports"
	dir, err := t.lay()
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, t.Name, err)
	}
	defer os.RemoveAll(dir)
	out := map[string]int{}
	for _, f := range folders {
		// A test's variants of a package have its name and the test's in brackets.
		text, err := goCommand(ctx, dir, "list", "-e", "-deps", "-test", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+f)
		if ctx.Err() != nil {
			return nil, diag.Wrap(diag.KindInterrupted, op, t.Name, ctx.Err())
		}
		if err != nil {
			return nil, diag.Errorf(diag.KindData, op, t.Name, "%s: %w: %s", f, err, bytes.TrimSpace(text))
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			if path, _, _ := strings.Cut(strings.TrimSpace(line), " "); path != "" {
				seen[path] = true
			}
		}
		out[f] = len(seen)
	}
	return out, nil
}

// lay writes the tree to a folder, which the caller removes.
func (t *Tree) lay() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "valence-tree-*"); err != nil {
		return "", err
	}
	for _, f := range t.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			err = os.WriteFile(name, f.Data, 0o644)
		}
		if err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

// goCommand runs the host's go where nothing of the user's settings reaches it, nor a
// network.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off", "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &out
	err := cmd.Run()
	return out.Bytes(), err
}
