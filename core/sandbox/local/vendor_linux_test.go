package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// withStandardLibrary is a folder for drivers that has the standard library compiled:
// links to what the program itself keeps, made in a minute or two if it is not there.
func withStandardLibrary(t *testing.T) string {
	t.Helper()
	shared := filepath.Join(os.TempDir(), fmt.Sprintf("valence-%d", os.Getuid()))
	if _, err := PrepareGo(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	g, err := FindGo()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-al", g.kit(shared), g.kit(dir)).CombinedOutput(); err != nil { // 170 MB
		t.Fatal(err, string(out))
	}
	return dir
}

func vendoring(dep string) sdk.Workspace {
	file := func(name, text string) sdk.File { return sdk.File{Path: name, Data: []byte(text)} }
	return sdk.Workspace{Files: []sdk.File{
		file("go.mod", "module example.com/m\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n"),
		file("m.go", "package m\n\nimport \"example.com/dep\"\n\nconst N = dep.N\n"),
		file("vendor/example.com/dep/broken/b.go", "package broken\n\nvar x int = \"\"\n"),
		file("vendor/example.com/dep/dep.go", "package dep\n\nimport \"strings\"\n\nconst N = "+dep+"\n\nvar T = strings.ToUpper(\"a\")\n"),
		file("vendor/modules.txt", "# example.com/dep v1.0.0\n## explicit; go 1.21\nexample.com/dep\nexample.com/dep/broken\nexample.com/dep/absent\n"),
	}}
}

// Sandboxes find what the standard library and their own vendored packages compile to,
// and nothing of anybody else's.
func TestCompiledOnce(t *testing.T) {
	if os.Getenv(wantLevel) != "" {
		return // a level without a tool chain of its own; what is compiled is the same for all
	}
	dir := withStandardLibrary(t)
	open := func() *Driver {
		t.Helper()
		d, err := New(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	ask := func(d *Driver, w sdk.Workspace, shell string) string {
		t.Helper()
		box, err := d.Create(t.Context(), sandbox.Spec{Workspace: w, Env: append(vendorEnv, "GOFLAGS=-mod=vendor"),
			Limits: sandbox.Limits{Memory: 1 << 30, Disk: 1 << 30, Command: 5 * time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		r, err := box.Exec(t.Context(), sandbox.Command{Shell: shell})
		if err != nil || r.ExitCode != 0 {
			t.Fatalf("%v: exit status %d: %s", err, r.ExitCode, r.Output)
		}
		return strings.TrimSpace(string(r.Output))
	}
	// Where what a package compiles to comes from.
	from := func(p string) string { return "f=$(go list -export -f '{{.Export}}' " + p + ") && readlink -f $f" }

	d := open()
	w, other := vendoring("1"), vendoring("2")
	for i, want := range []bool{true, false} {
		if done, err := d.PrepareVendor(t.Context(), &w); err != nil || done != want {
			t.Fatalf("call %d compiles: %t, %v", i+1, done, err)
		}
	}
	if got := ask(d, w, from("strings")); !strings.HasPrefix(got, goKitAt) {
		t.Errorf("the standard library is compiled again: %s", got)
	}
	for _, d := range []*Driver{d, open()} {
		if got := ask(d, w, from("example.com/dep")); !strings.HasPrefix(got, goVendorAt) {
			t.Errorf("the vendored package is compiled again: %s", got)
		}
	}
	if got := ask(d, other, from("example.com/dep")); strings.HasPrefix(got, goVendorAt) {
		t.Errorf("another package of that name is taken from %s", got)
	}
	if got := ask(d, other, "ls -d "+goVendorAt+" || true"); strings.HasPrefix(got, goVendorAt) {
		t.Errorf("a workspace is shown what another's packages compile to: %s", got)
	}
	if got := ask(d, w, from(".")+"; grep -rl example.com/m "+goVendorAt+" || true"); strings.Contains(got, goVendorAt) {
		t.Errorf("the module's own package lies with the vendored ones: %s", got)
	}
	if got := ask(d, w, "go version >/dev/null && stat -c %F /tmp/go-build/trim.txt"); got != "regular file" {
		t.Errorf("go finds a cache that has to be tidied: %s", got)
	}

	// What nobody has used for long goes when there is something new.
	old := d.tools.folderOf(defaultDir, &w)
	long := time.Now().Add(-2 * idle)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if done, err := d.PrepareVendor(t.Context(), &other); err != nil || !done {
		t.Fatal(done, err)
	}
	if isFolder(old) || !isFolder(d.tools.folderOf(defaultDir, &other)) {
		t.Error("what was not used is kept, or what is new is not")
	}
	if done, err := d.PrepareVendor(t.Context(), &sdk.Workspace{Files: w.Files[:2]}); done || err != nil {
		t.Errorf("nothing is vendored: %t, %v", done, err)
	}
}
