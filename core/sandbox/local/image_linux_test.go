package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
	"github.com/valence-rl/valence/sdk"
)

// storeIn opens a store for drivers of this process.
func storeIn(dir string, o image.Options) func() (*image.Store, error) {
	o.Form = Form()
	return sync.OnceValues(func() (*image.Store, error) { return image.Open(dir, o) })
}

// suiteOn gives drivers whose workspaces are on an image by default.
func suiteOn(t *testing.T, o Options) sandboxtest.Factory {
	o.Image = imagetest.Save(t, imagetest.Suite(t))
	o.Images = storeIn(t.TempDir(), image.Options{})
	return opener(o)
}

// The whole suite holds on an image, too.
func TestImageConformance(t *testing.T) { sandboxtest.Run(t, suiteOn(t, Options{})) }

func TestImageConformanceOnDisk(t *testing.T) {
	oneOfMany(t)
	sandboxtest.Run(t, suiteOn(t, Options{Upper: UpperDisk}))
}

// imageDriver is one whose tasks may name the images.
func imageDriver(t *testing.T, o Options) *Driver {
	t.Helper()
	o.Dir, o.ImageFolders = t.TempDir(), []string{os.TempDir()}
	if o.Images == nil {
		o.Images = storeIn(t.TempDir(), image.Options{})
	}
	return driverWith(t, o)
}

func saved(t testing.TB, c v1.Config, layers ...v1.Layer) string {
	t.Helper()
	return imagetest.Save(t, imagetest.Image(t, c, layers...))
}

func mustCreate(t *testing.T, d sandbox.Driver, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	b, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Who has no images says so, and so does who has no namespaces.
func TestImageIsRefused(t *testing.T) {
	onImage := sandbox.Spec{Workspace: sdk.Workspace{Image: "python:3.12"}}
	_, err := newDriver(t).Create(t.Context(), onImage)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "python:3.12") {
		t.Errorf("without a store: %v", err)
	}
	bare := Options{Bare: true, refused: refused{namespaces: true}, Images: storeIn(t.TempDir(), image.Options{})}
	_, err = opener(bare)(t).Create(t.Context(), onImage)
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != "S014" || d.Kind != diag.KindSandbox {
		t.Errorf("without namespaces: %v", err)
	}
	bare.Image, bare.Dir = "python:3.12", t.TempDir()
	if _, err = New(bare); !errors.As(err, &d) || d.Code != "S014" {
		t.Errorf("a driver on an image without namespaces: %v", err)
	}
}

func shell(t *testing.T, b sandbox.Sandbox, line string) string {
	t.Helper()
	r, err := b.Exec(t.Context(), sandbox.Command{Shell: line})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%q: code %d, %s, %v", line, r.ExitCode, r.Output, err)
	}
	return string(r.Output)
}

// base is a layer with a shell and what tests here use of it.
func base(t testing.TB) v1.Layer {
	t.Helper()
	programs, err := imagetest.Programs(strings.Fields("bash sh cat ls id stat touch rm mkdir mv ln find env echo cp chmod")...)
	if err != nil {
		t.Fatal(err)
	}
	return imagetest.Layer(t, append([]imagetest.Entry{
		imagetest.Folder("etc"), imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nworker:x:1234:100::/srv/worker:/bin/sh\n"),
		imagetest.File("etc/group", "users:x:100:\nextra:x:300:worker\n"),
		imagetest.Folder("root"), imagetest.Folder("srv/worker").By(1234, 100),
	}, programs...)...)
}

// Commands run as the image says: in its directory, with its variables, as its user.
func TestImageSettings(t *testing.T) {
	d := imageDriver(t, Options{})
	ref := saved(t, v1.Config{User: "worker", WorkingDir: "/srv/work", Env: []string{"FROM=image", "I=1", "PATH=/usr/bin:/bin"}},
		base(t), imagetest.Layer(t, imagetest.Folder("srv/work").By(1234, 100), imagetest.File("srv/work/rooted", "r\n")))
	b := mustCreate(t, d, sandbox.Spec{Env: []string{"FROM=spec", "S=1"}, Workspace: sdk.Workspace{
		Image: ref, Env: []string{"FROM=workspace", "W=1", "S=0"}, Files: []sdk.File{{Path: "given", Data: []byte("g\n")}}}})
	r, err := b.Exec(t.Context(), sandbox.Command{Shell: `pwd; echo "$FROM $I $W $S $C $HOME $USER $PATH"`, Env: []string{"C=1", "FROM=command"}})
	if want := "/srv/work\ncommand 1 1 1 1 /srv/worker worker /usr/bin:/bin\n"; err != nil || string(r.Output) != want {
		t.Errorf("got %q, %v, want %q", r.Output, err, want)
	}
	who, rooted := "1234:100:100 300\n", false
	if Form() == (image.Form{}) {
		who, rooted = "0:0:0\n", true // there is no other id
	}
	if out := shell(t, b, "echo $(id -u):$(id -g):$(id -G)"); out != who && !rooted {
		t.Errorf("commands run as %q, want %q", out, who)
	}
	// What the workspace and the host write is the user's, what is root's in the image is not.
	if err := b.Write(t.Context(), sdk.Change{Path: "new/deep", Data: []byte("n")}, sdk.Change{Path: "link", Symlink: "given"}); err != nil {
		t.Fatal(err)
	}
	shell(t, b, "echo more >> given && echo more >> new/deep && touch new/other && rm link && touch $HOME/x && echo > /dev/stdout && echo > /dev/stderr && test -r /dev/stdin")
	if !rooted {
		shell(t, b, "! echo x >> rooted && ! touch /etc/x && ! touch /x")
	}
	want := []sdk.Change{{Path: "given", Data: []byte("g\nmore\n")}, {Path: "new/deep", Data: []byte("nmore\n")}, {Path: "new/other"}}
	wantChanges(t, b, want...)
	if d.Isolation().Level == sandbox.LevelUnprivileged != rooted {
		t.Errorf("form and level disagree: %v", d.Isolation())
	}
	// An image that does not say gets the usual folder.
	b = mustCreate(t, d, sandbox.Spec{Workspace: sdk.Workspace{Image: saved(t, v1.Config{}, base(t))}})
	if out := shell(t, b, "pwd; echo $HOME; id -u"); out != "/workspace\n/root\n0\n" {
		t.Errorf("got %q", out)
	}
}

func wantChanges(t *testing.T, b sandbox.Sandbox, want ...sdk.Change) {
	t.Helper()
	got, err := b.Diff(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
		t.Errorf("want -, got +:\n%s", d)
	}
}

// What the workspace does to the image's files counts as how they were.
func TestImageWorkspace(t *testing.T) {
	t.Run("devices", func(t *testing.T) { imageWorkspace(t, Options{}) })
	t.Run("marks", func(t *testing.T) { imageWorkspace(t, Options{refused: refused{devices: true}}) })
	t.Run("on disk", func(t *testing.T) { imageWorkspace(t, Options{Upper: UpperDisk}) })
}

func imageWorkspace(t *testing.T, o Options) {
	d := imageDriver(t, o)
	ref := saved(t, v1.Config{WorkingDir: "/testbed"}, base(t),
		imagetest.Layer(t, imagetest.Folder("testbed").By(1234, 100).Allow(0o775), imagetest.File("testbed/a.py", "one\n").By(1234, 100).Allow(0o640),
			imagetest.File("testbed/gone.py", "x\n"), imagetest.File("testbed/tool", "#!/bin/sh\necho tool\n").Allow(0o755),
			imagetest.File("testbed/covered", "below\n"), imagetest.Folder("testbed/pkg").Allow(0o700), imagetest.File("testbed/pkg/m.py", "m = 1\n"),
			imagetest.Folder("testbed/.git"), imagetest.File("testbed/.git/HEAD", "ref\n"), imagetest.File("testbed/sub/mod/.git", "gitdir: x\n"),
			imagetest.File("testbed/sub/mod/code", "c\n"), imagetest.File("other/.git/HEAD", "elsewhere\n")),
		imagetest.Layer(t, imagetest.File("testbed/a.py", "two\n").By(1234, 100).Allow(0o640), imagetest.Gone("testbed/gone.py"),
			imagetest.Link("testbed/link", "a.py"), imagetest.Folder("testbed/late/.git"), imagetest.File("testbed/late/.git/config", "x\n")))
	w := sdk.Workspace{Image: ref, Files: []sdk.File{{Path: "covered", Data: []byte("above\n")}, {Path: "pkg/new.py", Data: []byte("n\n")}, {Path: ".git/HEAD", Data: []byte("no\n")}},
		Patches: []string{
			"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-two\n+three\n",
			"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-three\n+four\ndiff --git a/pkg/m.py b/pkg/m.py\ndeleted file mode 100644\n--- a/pkg/m.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-m = 1\n" +
				"diff --git a/sub/made b/sub/made\nnew file mode 100755\n--- /dev/null\n+++ b/sub/made\n@@ -0,0 +1 @@\n+made\n" +
				"diff --git a/covered b/covered\n--- a/covered\n+++ b/covered\n@@ -1 +1 @@\n-above\n+patched\n",
		}}
	b := mustCreate(t, d, sandbox.Spec{Workspace: w})
	if out := shell(t, b, "cat a.py covered pkg/new.py sub/made link; find . /other -name .git; ls pkg; ls -A; ./tool"); out !=
		"four\npatched\nn\nmade\nfour\n/other/.git\nnew.py\na.py\ncovered\nlate\nlink\npkg\nsub\ntool\ntool\n" {
		t.Errorf("got %q", out)
	}
	wantOwners := "1234:100:775 1234:100:640 0:0:700\n"
	if Form() == (image.Form{}) {
		wantOwners = "0:0:775 0:0:640 0:0:700\n"
	}
	if out := shell(t, b, "echo $(stat -c %u:%g:%a . a.py pkg)"); out != wantOwners {
		t.Errorf("owners and modes %q, want %q", out, wantOwners)
	}
	wantChanges(t, b)
	shell(t, b, "echo five > a.py; rm -r sub late; echo 'm = 1' > pkg/m.py; mv pkg moved; rm covered; ln -s a.py tool2; mkdir .git; echo h > .git/HEAD")
	wantChanges(t, b, sdk.Change{Path: ".git/HEAD", Data: []byte("h\n")}, sdk.Change{Path: "a.py", Data: []byte("five\n")}, sdk.Change{Path: "covered", Deleted: true},
		sdk.Change{Path: "moved/m.py", Data: []byte("m = 1\n")}, sdk.Change{Path: "moved/new.py", Data: []byte("n\n")}, sdk.Change{Path: "pkg/new.py", Deleted: true},
		sdk.Change{Path: "sub/made", Deleted: true}, sdk.Change{Path: "sub/mod/code", Deleted: true}, sdk.Change{Path: "tool2", Symlink: "a.py"})
	// The whole folder gone, and something else in its place.
	if !o.refused.devices { // what has a mark in it the kernel does not let go
		shell(t, b, "set -e; cd /; rm -r /testbed; mkdir /testbed; echo new > /testbed/a.py")
		wantChanges(t, b, sdk.Change{Path: "a.py", Data: []byte("new\n")}, sdk.Change{Path: "covered", Deleted: true}, sdk.Change{Path: "link", Deleted: true},
			sdk.Change{Path: "pkg/new.py", Deleted: true}, sdk.Change{Path: "sub/made", Deleted: true}, sdk.Change{Path: "sub/mod/code", Deleted: true}, sdk.Change{Path: "tool", Deleted: true})
		shell(t, b, "set -e; cd /; rm -r /testbed; ln -s /etc /testbed")
		if got, err := b.Diff(t.Context(), 0); err != nil || len(got) != 7 || !got[0].Deleted {
			t.Errorf("a link in place of the workspace: %v, %v", got, err)
		}
	}
	// Another sandbox of the same has none of it, and shares what was laid down.
	again := mustCreate(t, d, sandbox.Spec{Workspace: w})
	wantChanges(t, again)
	if b.(*box).space != again.(*box).space || b.(*box).picture != again.(*box).picture {
		t.Error("the same workspace on the same image was laid down twice")
	}
}

// Links of an image lead neither the workspace nor what is mounted anywhere else.
func TestImageLinks(t *testing.T) {
	d := imageDriver(t, Options{})
	outside := t.TempDir()
	ref := saved(t, v1.Config{WorkingDir: "/work"}, base(t), imagetest.Layer(t,
		imagetest.Folder("real"), imagetest.File("real/f", "f\n"), imagetest.Link("work", "/real"), imagetest.Link("real/out", outside), imagetest.Link("real/up", "../etc"),
		imagetest.Link("dev", outside), imagetest.Link("proc", "/etc"), imagetest.Link("sys", "/"), imagetest.Link("tmp", "/real/t"), imagetest.Folder("real/t").Allow(0o1777)))
	b := mustCreate(t, d, sandbox.Spec{Workspace: sdk.Workspace{Image: ref, Patches: []string{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-f\n+g\n"}}})
	if out := shell(t, b, "cat /work/f /real/f; echo > /dev/null; test -r /proc/self/status; cat /etc/hostname; touch /tmp/x; ls /real/t"); out != "g\ng\nsandbox\nx\n" {
		t.Errorf("got %q", out)
	}
	shell(t, b, "rm /real/t/x; echo h > /work/f")
	wantChanges(t, b, sdk.Change{Path: "f", Data: []byte("h\n")})
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("on the host: %v, %v", left, err)
	}
	for name, w := range map[string]sdk.Workspace{
		"a file behind a link out":   {Files: []sdk.File{{Path: "out/x"}}},
		"a file behind a link up":    {Files: []sdk.File{{Path: "up/x"}}},
		"a patch behind a link":      {Patches: []string{"--- a/up/passwd\n+++ b/up/passwd\n@@ -1 +1 @@\n-x\n+y\n"}},
		"a file in place of folders": {Files: []sdk.File{{Path: "t"}}},
		"a patch that fails":         {Patches: []string{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-no\n+g\n"}},
		"in a device":                {Dir: "/dev/x"},
		"in a pseudo file system":    {Dir: "/proc"},
		"on a file":                  {Dir: "/real/f"},
	} {
		w.Image = ref
		if _, err := d.Create(t.Context(), sandbox.Spec{Workspace: w}); diag.KindOf(err) != diag.KindData {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A task has no say over the machine's files.
	strict := opener(Options{Images: storeIn(t.TempDir(), image.Options{}), ImageFolders: []string{t.TempDir()}})(t)
	defer strict.Close()
	for _, name := range []string{"dir:/etc", "dir:/", ref} {
		_, err := strict.Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Image: name}})
		var out *diag.Diagnostic
		if !errors.As(err, &out) || out.Code != "S013" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Many layers are one file system, and diffs see through all of them.
func TestImageOfManyLayers(t *testing.T) {
	const many = 60
	layers := []v1.Layer{base(t)}
	for i := range many {
		layers = append(layers, imagetest.Layer(t, imagetest.File(fmt.Sprintf("work/f%02d", i), fmt.Sprintf("%d\n", i)),
			imagetest.File("work/last", fmt.Sprintf("%d\n", i)), imagetest.Gone(fmt.Sprintf("work/f%02d", i-10+100*(9-min(9, i))))))
	}
	b := mustCreate(t, imageDriver(t, Options{}), sandbox.Spec{Workspace: sdk.Workspace{Image: saved(t, v1.Config{WorkingDir: "/work"}, layers...)}})
	if n := len(b.(*box).picture.image.Layers); n < many {
		t.Fatalf("only %d layers", n)
	}
	if out := shell(t, b, "echo $(ls); cat last f50"); out != "f50 f51 f52 f53 f54 f55 f56 f57 f58 f59 last\n59\n50\n" {
		t.Errorf("got %q", out)
	}
	shell(t, b, "rm f50; echo x >> last; echo back > f01")
	wantChanges(t, b, sdk.Change{Path: "f01", Data: []byte("back\n")}, sdk.Change{Path: "f50", Deleted: true}, sdk.Change{Path: "last", Data: []byte("59\nx\n")})
	if out := shell(t, b, "cat /proc/self/mountinfo"); strings.Contains(out, "sha256") || strings.Contains(out, "/layers/") {
		t.Errorf("the host's paths are seen: %s", out)
	}
}

// Without a shell, programs still run.
func TestImageWithoutShell(t *testing.T) {
	programs, err := imagetest.Programs("cat", "echo")
	if err != nil {
		t.Fatal(err)
	}
	ref := saved(t, v1.Config{}, imagetest.Layer(t, programs...))
	for name, o := range map[string]Options{"": {}, "on disk": {Upper: UpperDisk}, "without groups": {refused: refused{groups: true}}} {
		b := mustCreate(t, imageDriver(t, o), sandbox.Spec{Limits: sandbox.Limits{Disk: 1 << 20}, Workspace: sdk.Workspace{Image: ref, Files: []sdk.File{{Path: "f", Data: []byte("text\n")}}}})
		if r, err := b.Exec(t.Context(), sandbox.Command{Args: []string{"cat", "f", "/etc/hostname"}}); err != nil || string(r.Output) != "text\nsandbox\n" {
			t.Errorf("%s: %q, %v", name, r.Output, err)
		}
		if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo x"}); err != nil || r.ExitCode != 127 || !strings.Contains(string(r.Output), "/bin/sh") {
			t.Errorf("%s: a shell: code %d, %q, %v", name, r.ExitCode, r.Output, err)
		}
		if err := b.Write(t.Context(), sdk.Change{Path: "big", Data: make([]byte, 2<<20)}); err == nil {
			t.Errorf("%s: 2 MiB at 1", name)
		}
		if r, err := b.Exec(t.Context(), sandbox.Command{Args: []string{"echo", "alive"}}); err != nil || string(r.Output) != "alive\n" {
			t.Errorf("%s: %q, %v", name, r.Output, err)
		}
	}
}
