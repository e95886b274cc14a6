package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func tarball(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		data := []byte(h.Uname) // carries the content to here
		h.Uname = ""
		h.Size = int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func plainFile(name, text string) *tar.Header {
	return &tar.Header{Name: name, Uname: text, Mode: 0o644, Typeflag: tar.TypeReg}
}

func paths(t *Tree) (out []string) {
	for _, f := range t.Files {
		out = append(out, f.Path)
	}
	return out
}

func TestTarball(t *testing.T) {
	data := tarball(t,
		&tar.Header{Name: "p-1.0/", Mode: 0o755, Typeflag: tar.TypeDir},
		plainFile("p-1.0/PKG-INFO", "Name: p\nProject-URL: Source, https://github.com/o/p.git\n\nHome-page: https://github.com/no/no\n"),
		plainFile("p-1.0/p.py", "x = 1\n"), plainFile("p-1.0/p.py", "x = 2\n"),
		plainFile("p-1.0/../../etc/passwd", "root"), plainFile("/abs", "root"), plainFile("p-1.0/.git/config", "evil"),
		plainFile("p-1.0/p.egg-info/SOURCES.txt", ""), plainFile("p-1.0/big", strings.Repeat("x", MaxFile+1)),
		&tar.Header{Name: "p-1.0/link", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, plainFile("p-1.0/p.py/x", "a file below a file"),
	)
	got, err := Open(file(t, "p-1.0.tar.gz", data))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(paths(got), []string{"PKG-INFO", "p.py/x"}) {
		t.Errorf("%q", paths(got))
	}
	if got.Name != "p-1.0" || got.Repo != "github.com/o/p" {
		t.Errorf("%q at %q", got.Name, got.Repo)
	}
	for _, want := range []string{"etc/passwd", "/abs", "link: not a plain file", "big: larger", "p.py: given twice", "p.py: it is a file and a folder"} {
		if !slices.ContainsFunc(got.LeftOut, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not named in %q", want, got.LeftOut)
		}
	}
}

func TestZip(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range map[string]string{"example.com/m@v1.2.3/go.mod": "module example.com/m\n", "example.com/m@v1.2.3/a/a.go": "package a\n"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Open(file(t, "v1.2.3.zip", b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(paths(got), []string{"a/a.go", "go.mod"}) || got.Repo != "example.com/m" || got.Name != "m-v1.2.3" {
		t.Errorf("%q %+v", paths(got), got)
	}
	if string(got.At("a/a.go")) != "package a\n" || got.At("b") != nil {
		t.Error("the contents are not found by path")
	}
}

func TestGoModulesName(t *testing.T) {
	for module, want := range map[string]string{"example.com/a/b": "b", "example.com/a/b/v2": "b-v2", "v2": "v2", `"example.com/q"`: "q"} {
		tree := &Tree{Files: []sdk.File{{Path: "go.mod", Data: []byte("module " + module + "\n")}}}
		if tree.Identify("somewhere"); tree.Name != want {
			t.Errorf("%s: %s, want %s", module, tree.Name, want)
		}
	}
}

func TestImports(t *testing.T) {
	tree := &Tree{Name: "m", Files: []sdk.File{
		{Path: "a/a.go", Data: []byte("package a\n\nimport \"fmt\"\n\nvar _ = fmt.Sprint\n")},
		{Path: "b/b.go", Data: []byte("package b\n")},
		{Path: "b/b_test.go", Data: []byte("package b_test\n\nimport (\n\t_ \"m/a\"\n\t_ \"m/b\"\n\t_ \"testing\"\n)\n")},
		{Path: "go.mod", Data: []byte("module m\n\ngo 1.21\n")},
	}}
	got, err := Imports(t.Context(), tree, []string{"a", "b"})
	if err != nil || got["a"] != 1 || got["b"] < 2 || got["b"] > 4 {
		t.Error(got, err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.py", ".git/config", "sub/__pycache__/x.pyc", "sub/b.py"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(paths(got), []string{"a.py", "sub/b.py"}) || len(got.LeftOut) != 1 {
		t.Errorf("%q, left out %q", paths(got), got.LeftOut)
	}
}

func TestRefused(t *testing.T) {
	for name, data := range map[string][]byte{"x.tar.gz": []byte("no archive"), "x.zip": []byte("PK"), "x.rar": nil, "empty.tar.gz": tarball(t)} {
		if _, err := Open(file(t, name, data)); diag.KindOf(err) != diag.KindData {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nowhere")); diag.KindOf(err) != diag.KindData {
		t.Error(err)
	}
}

// What the module cache lacks is named, and a tree that needs nothing stays as it is.
func TestVendor(t *testing.T) {
	plain := &Tree{Name: "m", Files: []sdk.File{{Path: "go.mod", Data: []byte("module m\n\ngo 1.21\n")}}}
	if got, err := Vendor(t.Context(), plain, nil); err != nil || got != plain {
		t.Errorf("%v, %v", got, err)
	}
	needy := &Tree{Name: "m", Files: []sdk.File{
		{Path: "a.go", Data: []byte("package m\n\nimport _ \"example.com/never/there\"\n")},
		{Path: "go.mod", Data: []byte("module m\n\ngo 1.21\n\nrequire example.com/never/there v1.0.0\n")},
	}}
	if _, err := Vendor(t.Context(), needy, nil); err == nil || !strings.Contains(err.Error(), "example.com/never/there") || !strings.Contains(err.Error(), "go mod download") {
		t.Error(err)
	}
}

func TestDigest(t *testing.T) {
	a := &Tree{Files: []sdk.File{{Path: "a", Data: []byte("bc")}}}
	b := &Tree{Files: []sdk.File{{Path: "ab", Data: []byte("c")}}}
	c := &Tree{Files: []sdk.File{{Path: "a", Data: []byte("bc"), Exec: true}}}
	if a.Digest() == b.Digest() || a.Digest() == c.Digest() || len(a.Digest()) != 64 {
		t.Error("different trees have one digest")
	}
}

func FuzzArchive(f *testing.F) {
	f.Add([]byte("PK\x05\x06"), true)
	f.Add([]byte("\x1f\x8b"), false)
	f.Fuzz(func(t *testing.T, data []byte, zipped bool) {
		name := "x.tar.gz"
		if zipped {
			name = "x.zip"
		}
		got, err := Open(file(t, name, data))
		if err != nil {
			return
		}
		for _, x := range got.Files {
			if !filepath.IsLocal(x.Path) {
				t.Fatalf("%q leaves the tree", x.Path)
			}
		}
	})
}
