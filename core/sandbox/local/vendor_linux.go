package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// vendored is how the folders begin that hold what vendored packages compile to.
func (g GoTools) vendored(dir string) string { return filepath.Join(dir, "go-vendor-"+g.Version+"-") }

const (
	vendorFolder = "vendor/"
	vendorList   = vendorFolder + "modules.txt"
	// idle is how long a folder of compiled packages stays when no sandbox shows it.
	idle = 7 * 24 * time.Hour
)

// folderOf is where what w's vendored packages compile to lies, or would lie; "" where
// there is nothing to compile. It is named after their content and the workspace's
// place, on which the outcome depends.
func (t *toolchain) folderOf(place string, w *sdk.Workspace) string {
	if t.vendored == "" || !slices.ContainsFunc(w.Files, func(f sdk.File) bool { return f.Path == vendorList }) {
		return ""
	}
	var files []sdk.File
	for _, f := range w.Files {
		if strings.HasPrefix(f.Path, vendorFolder) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	field(h, place)
	for _, f := range files {
		field(h, f.Path)
		number(h, len(f.Data))
		h.Write(f.Data)
	}
	return t.vendored + hex.EncodeToString(h.Sum(nil)[:12])
}

// compiled is folderOf, where it is there. That it is used is noted.
func (t *toolchain) compiled(place string, w *sdk.Workspace) string {
	folder := t.folderOf(place, w)
	if folder == "" || !isFolder(folder) {
		return ""
	}
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // of a folder of somebody else's
	return folder
}

// compileVendored compiles packages into a cache in the workspace, which is read as what the
// workspace has come to differ by. One that does not compile keeps no other from it.
const (
	vendorCache     = ".valence-go-cache"
	compileVendored = "GOCACHE=$PWD/" + vendorCache + " go list -mod=vendor -e -export -f '' "
)

var (
	vendorEnv   = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off", "GOENV=off"}
	importPath  = regexp.MustCompile(`^[A-Za-z0-9._~/+-]+$`)
	compiledOne = regexp.MustCompile(`^` + regexp.QuoteMeta(vendorCache) + `/([0-9a-f]{2}/[0-9a-f]{64}-[ad])$`)
)

// PrepareVendor compiles the packages in w's vendor folder once, in a sandbox, for all
// sandboxes of workspaces with the same packages, of this driver and of others with the
// same Dir, which then show the outcome read-only. It blocks for as long as the compiler
// takes, runs nothing of what it compiles, and gives whether it did: not where there is
// no such folder or no tool chain, where [PrepareGo] has not been there, or where it was
// done before. What is not shown for a week is removed by the
// next call that compiles.
//
// Packages of the module itself are not compiled: their workspace may be one of many
// versions, and what one of them compiles to must not be read in another.
func (d *Driver) PrepareVendor(ctx context.Context, w *sdk.Workspace) (done bool, err error) {
	const op = "compile vendored packages"
	place, err := d.workDir(w.Dir, false)
	if err != nil {
		return false, diag.Wrap(diag.KindData, op, "", err)
	}
	final := d.tools.folderOf(place, w)
	if final == "" || !isFolder(d.tools.kit) || d.bare || w.Image != "" || d.base != "" || isFolder(final) {
		return false, nil
	}
	space, packages := vendorOnly(w)
	if len(packages) == 0 {
		return false, nil
	}
	const most = 900 << 20
	box, err := d.create(ctx, sandbox.Spec{Name: "compile", Workspace: space, Env: vendorEnv, Limits: sandbox.Limits{
		Memory: 6 << 30, Disk: 2 << 30, CPUs: float64(runtime.NumCPU()), Pids: 1024, Life: time.Hour,
	}}, "")
	if err != nil {
		return false, err
	}
	defer box.Close()
	r, err := box.Exec(ctx, sandbox.Command{Shell: compileVendored + strings.Join(packages, " "), Timeout: 30 * time.Minute})
	if err != nil {
		return false, err
	}
	if r.TimedOut || r.ExitCode != 0 {
		return false, diag.Errorf(diag.KindSandbox, op, "", "exit status %d, timed out %t: %s", r.ExitCode, r.TimedOut, lastOf(r.Output))
	}
	changes, err := box.Diff(ctx, most)
	if err != nil {
		return false, err
	}
	err = d.keepCompiled(final, changes)
	return err == nil, diag.Wrap(diag.KindSandbox, op, final, err)
}

// vendorOnly is w with nothing but its vendored packages, and their import paths.
func vendorOnly(w *sdk.Workspace) (sdk.Workspace, []string) {
	out := sdk.Workspace{Dir: w.Dir}
	list := ""
	holds := map[string]bool{}
	for _, f := range w.Files {
		if f.Path != "go.mod" && !strings.HasPrefix(f.Path, vendorFolder) {
			continue
		}
		out.Files = append(out.Files, f)
		if f.Path == vendorList {
			list = string(f.Data)
		}
		if strings.HasSuffix(f.Path, ".go") {
			holds[path.Dir(strings.TrimPrefix(f.Path, vendorFolder))] = true
		}
	}
	var packages []string
	for line := range strings.Lines(list) {
		if p := strings.TrimSpace(line); holds[p] && importPath.MatchString(p) && !strings.HasPrefix(p, "-") {
			packages = append(packages, p)
		}
	}
	return out, packages
}

func lastOf(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[max(0, len(text)-500):]
}

// keepCompiled writes what was compiled to a folder, all of it or nothing, and removes
// such folders that have not been used for long.
func (d *Driver) keepCompiled(final string, changes []sdk.Change) error {
	old, _ := filepath.Glob(d.tools.vendored + "*")
	for _, dir := range old {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > idle {
			if err := removeAll(dir); err != nil {
				return err
			}
		}
	}
	temp, err := os.MkdirTemp(filepath.Dir(final), filepath.Base(d.tools.vendored)+"*.partial")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, c := range changes {
		m := compiledOne.FindStringSubmatch(c.Path)
		if m == nil || c.Deleted || c.Symlink != "" {
			continue // links to the standard library, and what go keeps beside
		}
		name := filepath.Join(temp, m[1])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, c.Data, 0o644); err != nil {
			return err
		}
	}
	if err := readable(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, final); err != nil && !errors.Is(err, os.ErrExist) {
		return err // but not if another process was faster
	}
	return nil
}
