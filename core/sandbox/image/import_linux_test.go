package image

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// The same image in every form that one is handed around in.
func TestImport(t *testing.T) {
	top := t.TempDir()
	img := sampleImage(t)
	saved := filepath.Join(top, "saved.tar")
	tag, err := name.NewTag("acme/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(saved, tag, img); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(top, "layout")
	p, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	packedLayout := filepath.Join(top, "layout.tar")
	run(t, "tar", "-c", "-C", folder, "-f", packedLayout, ".")
	compressed := func(path string) (string, string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var g, z bytes.Buffer
		gw := gzip.NewWriter(&g)
		gw.Write(b)
		gw.Close()
		zw, err := zstd.NewWriter(&z)
		if err != nil {
			t.Fatal(err)
		}
		zw.Write(b)
		zw.Close()
		if err := os.WriteFile(path+".gz", g.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".zst", z.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path + ".gz", path + ".zst"
	}
	savedGzip, savedZstd := compressed(saved)
	manifest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "store")
	for path, digest := range map[string]v1.Hash{
		saved: configuration, savedGzip: configuration, savedZstd: configuration, folder: manifest, packedLayout: manifest,
	} {
		s := open(t, dir, Options{})
		i, err := s.Import(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if i.Digest != digest.String() || i.User.UID != 1000 || i.WorkingDir != "/testbed" || len(i.Layers) != 2 || i.Size < 6*4096 {
			t.Errorf("%s: %+v", path, i)
		}
		if b, err := os.ReadFile(filepath.Join(i.Layers[0], "testbed", "new.py")); string(b) != "2" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
		i.Close()
	}
	if layers, _ := os.ReadDir(filepath.Join(dir, "user", "layers")); len(layers) != 2 {
		t.Errorf("%d layers are kept, the images share two", len(layers))
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "user", "tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A root file system, as a folder and as an archive.
func TestImportRoot(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for n, text := range map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "a": "twin"} {
		if err := os.WriteFile(filepath.Join(root, n), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../outside", filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	want, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].UID, want[i].GID = uint32(os.Geteuid()), uint32(os.Getegid())
	}
	path := filepath.Join(top, "root.tar")
	run(t, "tar", "-c", "-C", root, "--format=posix", "-f", path, ".")
	digests := map[string]bool{}
	for _, from := range []string{root, root, path, path} {
		i, err := open(t, filepath.Join(top, "store"), Options{}).Import(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		digests[i.Digest] = true
		if len(i.Layers) != 1 || i.User.Name != "root" || i.User.Home != "/root" || i.WorkingDir != "/" {
			t.Errorf("%s: %+v", from, i)
		}
		got, err := list(i.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		if g, w := render(got), render(want); g != w {
			t.Errorf("%s:\n%swant\n%s", from, g, w)
		}
		i.Close()
	}
	if len(digests) != 2 {
		t.Errorf("a folder and an archive have digests %v", digests)
	}
}

func TestImportsThatAreNone(t *testing.T) {
	top := t.TempDir()
	img := sampleImage(t)
	two := filepath.Join(top, "two.tar")
	tags := map[name.Tag]v1.Image{}
	for _, n := range []string{"acme/a:1", "acme/b:1"} {
		tag, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		tags[tag] = built(t, v1.Config{Cmd: []string{n}})
	}
	if err := tarball.MultiWriteToFile(two, tags); err != nil {
		t.Fatal(err)
	}
	write := func(n string, entries ...entry) string {
		path := filepath.Join(top, n)
		if err := os.WriteFile(path, archive(t, entries...), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lying := filepath.Join(top, "lying")
	p, err := layout.Write(lying, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(lying, "blobs", "sha256", d.Hex)
	b, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.Chmod(blob, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		want Reason
		says string
	}{
		filepath.Join(top, "nowhere"): {Absent, "no such file"},
		two:                           {Malformed, "2 images"},
		lying:                         {Changed, "layer " + d.String()},
		write("no-config.tar", file("manifest.json", `[{"Config":"x.json","Layers":[]}]`)):                                                               {Malformed, "x.json"},
		write("no-layer.tar", file("manifest.json", `[{"Config":"x.json","Layers":["../../etc/passwd"]}]`), file("x.json", `{"os":"linux"}`)):            {Malformed, "passwd"},
		write("other-layer.tar", file("manifest.json", `[{"Config":"x.json","Layers":["l.tar"]}]`), file("x.json", `{"os":"linux"}`), file("l.tar", "")): {Malformed, "1 layers"},
		write("windows.tar", file("manifest.json", `[{"Config":"x.json","Layers":[]}]`), file("x.json", `{"os":"windows"}`)):                             {Absent, "windows"},
		write("no-json.tar", file("index.json", `{`)):                                                          {Malformed, "manifest"},
		write("loop.tar", file("index.json", `{"schemaVersion":2,"manifests":[{"digest":"sha256:../../x"}]}`)): {Malformed, ""},
	} {
		_, err := open(t, filepath.Join(top, "store"), Options{}).Import(t.Context(), path)
		if reasonOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s), want %s", path, err, reasonOf(err), c.want)
		}
	}
	if got, _ := os.ReadDir(filepath.Join(top, "store", "user", "tmp")); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

// A user that the image does not have, one found through links, and one by number.
func TestUserOfAnImage(t *testing.T) {
	top := t.TempDir()
	for n, c := range map[string]struct {
		user   string
		layers [][]byte
		want   string
	}{
		"linked": {"ann", [][]byte{
			archive(t, file("usr/share/passwd", "ann:x:7:8::/home/ann:\n")), archive(t, symlink("etc", "usr/conf"), symlink("usr/conf/passwd", "/../usr/./share/passwd")),
		}, "ann 7:8"},
		"looping":    {"7", [][]byte{archive(t, symlink("etc", "etc"))}, " 7:0"},
		"hidden":     {"ann", [][]byte{archive(t, file("etc/passwd", "ann:x:7:8:::\n")), archive(t, file("etc/.wh.passwd", ""))}, "malformed"},
		"linked low": {"ann", [][]byte{archive(t, file("low", "ann:x:7:8:::\n")), archive(t, hardlink("etc/passwd", "low"))}, "ann 7:8"},
		"a folder":   {"ann", [][]byte{archive(t, folder("etc/passwd"))}, "malformed"},
	} {
		path := filepath.Join(top, n+".tar")
		tag, err := name.NewTag("acme/tool:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := tarball.WriteToFile(path, tag, built(t, v1.Config{User: c.user}, c.layers...)); err != nil {
			t.Fatal(err)
		}
		i, err := open(t, filepath.Join(top, "store"), Options{}).Import(t.Context(), path)
		got := string(reasonOf(err))
		if err == nil {
			got = i.User.Name + " " + digitsOf(i.User.UID) + ":" + digitsOf(i.User.GID)
			i.Close()
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", n, got, err, c.want)
		}
	}
}
