// Package imagetest makes container images for tests: of given files, or of the programs
// of this machine, so that tests of images need no network.
package imagetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entry is one of a layer.
type Entry struct {
	tar.Header
	Data []byte
}

// made is the time of every entry that has none.
var made = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Folder is one that root owns.
func Folder(name string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}}
}

// File is one that root owns.
func File(name, text string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, Data: []byte(text)}
}

// Link is a symbolic one.
func Link(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}}
}

// HardLink is another name of a file.
func HardLink(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target, Mode: 0o644}}
}

// Gone hides what lower layers have at a path.
func Gone(name string) Entry {
	dir, base := filepath.Split(name)
	return File(dir+".wh."+base, "")
}

// Opaque hides all that lower layers have in a folder.
func Opaque(dir string) Entry { return File(dir+"/.wh..wh..opq", "") }

// By is the entry with another owner.
func (e Entry) By(uid, gid int) Entry {
	e.Uid, e.Gid = uid, gid
	return e
}

// Allow is the entry with another mode.
func (e Entry) Allow(mode int64) Entry {
	e.Mode = mode
	return e
}

// Layer archives entries.
func Layer(t testing.TB, entries ...Entry) v1.Layer {
	t.Helper()
	l, err := archive(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func archive(entries []Entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Data))
		if h.ModTime.IsZero() {
			h.ModTime = made
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(b.Bytes(), types.OCIUncompressedLayer), nil
}

// Image is one of layers, the lowest first.
func Image(t testing.TB, c v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	i, err := assemble(c, layers)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func assemble(c v1.Config, layers []v1.Layer) (v1.Image, error) {
	i := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	i, err := mutate.ConfigFile(i, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: c, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(i, layers...)
}

// Make is Image of the entries of its layers, for whoever has no testing.TB.
func Make(c v1.Config, layers ...[]Entry) (v1.Image, error) {
	var all []v1.Layer
	for _, entries := range layers {
		l, err := archive(entries)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return assemble(c, all)
}

// Save writes an image as a layout in a folder of the test's and gives the reference.
func Save(t testing.TB, i v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(i)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir
}

// Serve starts a registry on the loopback interface and gives its address. Wrapped by
// between, if that is not nil, requests go to it.
func Serve(t testing.TB, between func(http.Handler) http.Handler) string {
	t.Helper()
	h := http.Handler(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	if between != nil {
		h = between(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// Push puts an image into a registry and gives its digest.
func Push(t testing.TB, ref string, i v1.Image) string {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Write(r, i)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// Programs gives the programs of this machine that are called names, or lie at them, with
// the libraries that they are linked with, where this machine has them. The error names all
// that is missing.
func Programs(names ...string) ([]Entry, error) {
	files := map[string]string{} // path in the image, file of the machine
	var missing []string
	for _, n := range names {
		program, err := exec.LookPath(n)
		if err == nil {
			program, err = filepath.EvalSymlinks(program)
		}
		if err != nil {
			missing = append(missing, n)
			continue
		}
		files["usr/bin/"+filepath.Base(n)] = program
		if err := libraries(program, files); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("this machine lacks programs that the test image is made of; install %s", strings.Join(missing, ", "))
	}
	entries := []Entry{Folder("usr"), Folder("usr/bin")}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + d); err == nil {
			entries = append(entries, Link(d, to))
		}
	}
	more, err := read(files)
	return append(entries, more...), err
}

// libraries adds to files what a program or a library is linked with.
func libraries(program string, files map[string]string) error {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil // it is linked statically, or a script
	}
	for field := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(field, "/") {
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(field))
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(filepath.Join(dir, filepath.Base(field)), "/")] = field
	}
	return nil
}

// read makes entries of files of this machine.
func read(files map[string]string) ([]Entry, error) {
	var entries []Entry
	for _, n := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[n])
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Header: tar.Header{Name: n, Typeflag: tar.TypeReg, Mode: 0o755}, Data: data})
	}
	return entries, nil
}

// Python gives the library of this machine's interpreter at program, without its tests,
// at the place where it lies here. The program itself is one of Programs.
func Python(program string) ([]Entry, error) {
	out, err := exec.Command(program, "-I", "-S", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		return nil, fmt.Errorf("%s does not say where its library is: %w", program, err)
	}
	dir, files := strings.TrimSpace(string(out)), map[string]string{}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{"test", "tests", "__pycache__", "idlelib", "ensurepip", "site-packages", "dist-packages"}, e.Name()):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		}
		files[strings.TrimPrefix(name, "/")] = name
		if filepath.Ext(name) == ".so" {
			return libraries(name, files)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return read(files)
}

// suite are the programs that the conformance suite of sandboxes runs.
var suite = strings.Fields(`bash sh cat ls seq head tail tr grep rm mkdir mkfifo mknod ln chmod chown touch xargs find wc sleep yes tee dd
	stat env timeout setsid nohup mv cp date cmp printf cut true false test sort id echo mount unshare chroot pwd expr readlink`)

// Suite is an image on which the conformance suite of sandboxes runs, made of this
// machine's programs in four layers with whiteouts, an opaque folder, hard links and odd
// owners. The test fails where the machine lacks a program.
func Suite(t testing.TB) v1.Image {
	t.Helper()
	programs, err := Programs(suite...)
	if err != nil {
		t.Fatal(err)
	}
	return Image(t, v1.Config{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "IMAGE=suite"}},
		Layer(t, append([]Entry{
			Folder("etc"), File("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nworker:x:1234:100:Worker:/srv/worker:/bin/sh\n"),
			File("etc/group", "root:x:0:\nusers:x:100:\nextra:x:300:worker\n"), File("etc/shadow.old", "x\n"), File("etc/hostname", "elsewhere\n"),
			Folder("root").Allow(0o700), Folder("tmp").Allow(0o1777), File("tmp/left", "x\n"), Folder("opt"), File("opt/old", "old\n"), File("opt/kept", "kept\n"),
		}, programs...)...),
		Layer(t, Gone("etc/shadow.old"), Gone("tmp/left"), Folder("opt"), Opaque("opt"), File("opt/new", "new\n"),
			Folder("srv"), Folder("srv/worker").By(1234, 100), File("srv/worker/own", "w\n").By(1234, 100), File("srv/far", "f\n").By(70000, 4242)),
		Layer(t, HardLink("usr/bin/also-true", "usr/bin/true"), File("srv/near", "n\n").By(65534, 65533), Link("etc/resolv.conf", "../run/resolv.conf")),
		Layer(t, Gone("srv/worker/own")))
}
