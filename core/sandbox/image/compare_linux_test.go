package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
)

// umociVersion is the release that the comparison was written against.
const umociVersion = "v0.4.7"

// umoci gives the program, from the PATH or, where the environment has VALENCE_UMOCI=install,
// built for the test.
func umoci(t *testing.T) string {
	t.Helper()
	if p, err := exec.LookPath("umoci"); err == nil {
		return p
	}
	if os.Getenv("VALENCE_UMOCI") != "install" {
		t.Skip("umoci is not on the PATH; VALENCE_UMOCI=install builds it, which needs the Go module proxy")
	}
	// In a module of its own: this one is to know nothing of it.
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module umoci\n\ngo 1.26\n\nrequire github.com/opencontainers/umoci " + umociVersion + "\n",
		"use.go": "//go:build use\n\npackage umoci\n\nimport _ \"github.com/opencontainers/umoci/cmd/umoci\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "umoci")
	c := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", program, "github.com/opencontainers/umoci/cmd/umoci")
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("umoci cannot be built here: %v\n%s", err, out)
	}
	return program
}

// odd are layers with all that unpackers may take differently and images do contain: no
// hard links between layers, which this package takes as the image's maker saw them.
func odd(t *testing.T) []v1.Layer {
	layers := []v1.Layer{
		imagetest.Layer(t, imagetest.Folder("etc").Allow(0o755), imagetest.File("etc/keep", "keep\n"), imagetest.File("etc/drop", "drop\n"),
			imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\n"), imagetest.Folder("opaque"), imagetest.File("opaque/old", "old\n"), imagetest.Folder("opaque/sub"),
			imagetest.File("opaque/sub/old", "old\n"), imagetest.Folder("tree"), imagetest.Folder("tree/a"), imagetest.File("tree/a/f", "f\n"), imagetest.File("tree/b", "b\n"),
			imagetest.Folder("tmp").Allow(0o1777), imagetest.File("bin/su", "#!\n").Allow(0o4755), imagetest.Folder("shared").Allow(0o2775).By(0, 50)),
		imagetest.Layer(t, imagetest.Gone("etc/drop"), imagetest.Folder("opaque"), imagetest.Opaque("opaque"), imagetest.File("opaque/new", "new\n"),
			imagetest.File("own/by", "x\n").By(1234, 100), imagetest.File("own/nobody", "x\n").By(65534, 65534), imagetest.File("own/closed", "x\n").Allow(0o000).By(5, 6)),
		imagetest.Layer(t, imagetest.Gone("tree/a"), imagetest.File("links/one", "one file\n").By(7, 8), imagetest.HardLink("links/two", "links/one"), imagetest.HardLink("elsewhere", "links/one"),
			imagetest.Link("etc/link", "keep"), imagetest.Link("dangling", "/nowhere/at/all"), imagetest.Link("up", "../../../etc")),
		imagetest.Layer(t, imagetest.Folder("tree/a").Allow(0o711), imagetest.File("tree/a/g", "g\n"), imagetest.File("etc/keep", "kept again\n").Allow(0o600),
			imagetest.Gone("links/two"), imagetest.File("opaque/sub", "a file now\n"), imagetest.Folder("tree/b"), imagetest.File("tree/b/c", "c\n")),
	}
	for i := range 36 {
		layers = append(layers, imagetest.Layer(t, imagetest.Folder("many"), imagetest.File(fmt.Sprintf("many/f%02d", i), fmt.Sprint(i)),
			imagetest.File("many/last", fmt.Sprint(i)), imagetest.Gone(fmt.Sprintf("many/f%02d", max(i-3, 0)/2*2+100*(i%2))), imagetest.File("etc/keep", strings.Repeat("k", i+1))))
	}
	return layers
}

// What a sandbox sees of an image is, file by file, what another unpacker makes of it.
func TestAgainstUmoci(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("umoci gives files to their owners as root alone")
	}
	program := umoci(t)
	if err := mountable(t, rangeForm); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "layout")
	p, err := layout.Write(at, empty.Index)
	if err == nil {
		err = p.AppendImage(imagetest.Image(t, v1.Config{}, odd(t)...), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "odd"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	run(t, program, "unpack", "--image", at+":odd", filepath.Join(dir, "bundle"))
	theirs := time.Since(began)
	want, err := list(filepath.Join(dir, "bundle", "rootfs"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(filepath.Join(dir, "store"), Options{Form: rangeForm})
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	i, err := s.Import(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	t.Logf("%d files of %d layers: umoci took %s, the store %s", len(want), len(i.Layers), theirs.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The store shuts others out; the driver hands over open trees, the test opens the way.
	for _, d := range []string{s.dir, filepath.Dir(s.dir), s.path("layers"), s.path("images")} {
		os.Chmod(d, 0o711)
	}
	for _, l := range i.Layers {
		os.Chmod(filepath.Dir(l), 0o711)
	}
	got, err := mounted(t, i.Layers, rangeForm)
	if err != nil {
		t.Fatal(err)
	}
	// When a folder was last changed depends on the order in which it was filled.
	for _, all := range [][]thing{want, got} {
		for k := range all {
			if all[k].Mode&unix.S_IFMT == unix.S_IFDIR {
				all[k].Time = 0
			}
		}
	}
	if len(want) < 45 || !slices.ContainsFunc(want, func(e thing) bool { return e.Path == "elsewhere" && e.Twins == "elsewhere" }) {
		t.Fatalf("umoci made only:\n%s", render(want))
	}
	if d := cmp.Diff(strings.Split(render(want), "\n"), strings.Split(render(got), "\n")); d != "" {
		t.Errorf("umoci -, a sandbox +:\n%s", d)
	}
}
