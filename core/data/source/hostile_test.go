package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/sdk"
)

// entries holds a tree to what the corpus says of it. below is what archives begin with.
func entries(t *testing.T, got *Tree, all []hostile.Entry, below string) {
	t.Helper()
	files := map[string]sdk.File{}
	for _, f := range got.Files {
		files[f.Path] = f
	}
	for _, e := range all {
		f, there := files[strings.TrimPrefix(e.Path, below)]
		switch {
		case e.Taken:
			if !there || string(f.Data) != e.Data || f.Exec != e.Exec {
				t.Errorf("%s: taken %t, %d bytes, executable %t", e.Name, there, len(f.Data), f.Exec)
			}
			delete(files, f.Path)
		case !e.Hidden && !hostile.Noted(got.LeftOut, e.Path) && !hostile.Noted(got.LeftOut, strings.TrimPrefix(e.Path, below)):
			t.Errorf("%s: %q is not named among what is left out", e.Name, e.Path)
		}
	}
	for p := range files {
		t.Errorf("%q is taken", p)
	}
}

func TestHostileTrees(t *testing.T) {
	t.Run("folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "p")
		all := hostile.Folder(t, dir)
		for _, at := range []string{dir, filepath.Join(t.TempDir(), "link")} {
			if at != dir {
				if err := os.Symlink(dir, at); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Open(at)
			if err != nil {
				t.Fatal(err)
			}
			entries(t, got, all, "")
		}
	})
	t.Run("tar", func(t *testing.T) {
		data, all := hostile.Tar(t, "p-1.0/")
		got, err := Open(file(t, "p-1.0.tar.gz", data))
		if err != nil {
			t.Fatal(err)
		}
		entries(t, got, all, "p-1.0/")
	})
	t.Run("zip", func(t *testing.T) {
		data, all := hostile.Zip(t, "p-1.0/")
		got, err := Open(file(t, "p-1.0.zip", data))
		if err != nil {
			t.Fatal(err)
		}
		entries(t, got, all, "p-1.0/")
	})
}

// Archives of a few bytes that are much, and those that lie about it, are refused.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 3<<20)
	var many bytes.Buffer
	z := zip.NewWriter(&many)
	var packed bytes.Buffer
	d, _ := flate.NewWriter(&packed, flate.BestSpeed)
	d.Write(zeros)
	d.Close()
	for i := range 43 {
		f, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprint("p/f", i), Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(zeros),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(zeros))})
		if err != nil {
			t.Fatal(err)
		}
		f.Write(packed.Bytes())
	}
	z.Close()
	var wide bytes.Buffer
	g, _ := gzip.NewWriterLevel(&wide, gzip.BestSpeed)
	w := tar.NewWriter(g)
	for i := range 43 {
		w.WriteHeader(&tar.Header{Name: fmt.Sprint("p/f", i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(zeros))})
		w.Write(zeros)
	}
	w.Close()
	g.Close()
	var count bytes.Buffer
	g = gzip.NewWriter(&count)
	w = tar.NewWriter(g)
	for i := range MaxFiles + 1 {
		w.WriteHeader(&tar.Header{Name: fmt.Sprintf("p/%d/%d", i%100, i), Typeflag: tar.TypeReg, Mode: 0o644})
	}
	w.Close()
	g.Close()
	var lie bytes.Buffer
	z = zip.NewWriter(&lie)
	raw := []byte("more than it claims")
	f, err := z.CreateRaw(&zip.FileHeader{Name: "p/x", CRC32: crc32.ChecksumIEEE(raw), CompressedSize64: uint64(len(raw)), UncompressedSize64: 3})
	if err != nil {
		t.Fatal(err)
	}
	f.Write(raw)
	z.Close()
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"many.zip":     {many.Bytes(), "more than 128 MiB"},
		"wide.tar.gz":  {wide.Bytes(), "more than 128 MiB"},
		"count.tar.gz": {count.Bytes(), "more than 50000 files"},
		"lie.zip":      {lie.Bytes(), "zip: "},
		"cut.tar.gz":   {wide.Bytes()[:len(wide.Bytes())/2], "unexpected EOF"},
	} {
		if _, err := Open(file(t, name, c.data)); diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want a refusal with %q, got %v", name, c.want, err)
		}
	}
}
