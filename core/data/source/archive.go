package source

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (t *taker) folder(root string) error {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real // no link is followed but the one that was named
	}
	return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		p := filepath.ToSlash(rel)
		switch {
		case p == ".":
			return nil
		case e.IsDir():
			if Hidden(p) {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			if !Hidden(p) {
				t.leave(p, "not a plain file")
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		ok, err := t.wants(p, info.Size())
		if err != nil || !ok {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		t.add(p, data, info.Mode()&0o111 != 0)
		return nil
	})
}

func (t *taker) tarball(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	// A few bytes can unpack to as much as anybody likes, files left out included.
	limited := &io.LimitedReader{R: z, N: 8 * MaxTree}
	for r := tar.NewReader(limited); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if limited.N == 0 {
				return errors.New("it unpacks to more than 1 GiB")
			}
			return err
		}
		p := strings.TrimPrefix(h.Name, "./")
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		default:
			t.leave(p, "not a plain file")
			continue
		}
		ok, err := t.wants(p, h.Size)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		t.add(p, data, h.Mode&0o111 != 0)
	}
}

func (t *taker) zip(name string) error {
	r, err := zip.OpenReader(name)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return err
	}
	defer r.Close()
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !f.Mode().IsRegular() {
			t.leave(f.Name, "not a plain file")
			continue
		}
		ok, err := t.wants(f.Name, int64(min(f.UncompressedSize64, 1<<62)))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		data, err := unpack(f)
		if err != nil {
			return err
		}
		t.add(f.Name, data, f.Mode()&0o111 != 0)
	}
	return nil
}

// unpack reads a member that may hold more than it claims.
func unpack(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err == nil && uint64(len(data)) != f.UncompressedSize64 {
		err = errors.New(f.Name + ": its size is not the one that the archive claims")
	}
	return data, err
}
