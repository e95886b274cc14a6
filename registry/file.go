package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// file is one of a plugin's files.
type file struct {
	name string // relative, with slashes
	text []byte
}

func readFile(dir, name string) (file, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, fmt.Errorf("%s vanished while it was read", name)
	}
	return file{filepath.ToSlash(name), b}, err
}

// addTo hashes name, length and bytes.
func (f file) addTo(h hash.Hash) {
	fmt.Fprintf(h, "file %q %d\n", f.name, len(f.text))
	h.Write(f.text)
}

// files are all that a folder has, in the order of their names, but for what is
// hidden and what tools make: what matches a pattern of derived.
func files(dir string, derived []string) (all []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		left := strings.HasPrefix(d.Name(), ".")
		for _, pattern := range derived {
			match, err := filepath.Match(pattern, d.Name())
			if err != nil {
				return err
			}
			left = left || match
		}
		switch {
		case left && d.IsDir():
			return filepath.SkipDir
		case left, d.IsDir():
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err != nil {
			return err
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder, and a plugin is made of those", name)
		}
		f, err := readFile(dir, name)
		all = append(all, f)
		return err
	})
	return all, err
}

// digestOf names files by what they are called and what they hold.
func digestOf(all []file) string {
	h := sha256.New()
	for _, f := range all {
		f.addTo(h)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
