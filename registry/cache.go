package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// cache is a folder of files named by their content, and of notes that lead to
// them. Everything in it appears by rename, whole or not at all; processes share it.
//
//	sha256/<hex>     a module or a program
//	builds/<key>     digest of what sources became
//	refs/<hex>       what an address led to when it was last fetched, and when a
//	                 module was last fetched from it
//	locks/<key>      held while a key is being built
type cache string

func (o Options) cache() cache {
	if o.Cache != "" {
		return cache(o.Cache)
	}
	return cache(DefaultCache())
}

// digestForm is how a digest is written.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// errChanged says that a file of the cache is not what it was when it was put there.
var errChanged = errors.New("its bytes have changed since they were stored")

// blob is the place of the content with a digest.
func (c cache) blob(digest string) string {
	return filepath.Join(string(c), "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// put stores content, executable or not, and gives its digest.
func (c cache) put(content []byte, mode fs.FileMode) (digest string, err error) {
	digest = Digest(content)
	return digest, replace(c.blob(digest), content, mode)
}

// get reads the content with a digest and checks it. The error is [fs.ErrNotExist],
// errChanged, or that of the file system.
func (c cache) get(digest string) ([]byte, error) {
	if !digestForm.MatchString(digest) {
		return nil, errChanged // the note that led here
	}
	b, err := os.ReadFile(c.blob(digest))
	if err != nil {
		return nil, err
	}
	if Digest(b) != digest {
		return nil, errChanged
	}
	return b, nil
}

// note stores what a name of some sort leads to.
func (c cache) note(sort, name string, text []byte) error {
	return replace(filepath.Join(string(c), sort, name), text, 0o644)
}

// noted reads a note; [fs.ErrNotExist] if there is none.
func (c cache) noted(sort, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(c), sort, name))
}

// lock waits until nobody else builds key.
func (c cache) lock(ctx context.Context, key string) (unlock func(), err error) {
	dir := filepath.Join(string(c), "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return lock(ctx, filepath.Join(dir, key))
}

// replace writes a file so that a reader, or a kill, finds the old one or the new.
func replace(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
