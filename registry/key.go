package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// listed is what the key needs of `go list -deps`.
type listed struct {
	Dir        string
	ImportPath string
	Standard   bool
	GoFiles    []string
	EmbedFiles []string
	SFiles     []string
	Module     *struct {
		Path, Version, Sum string
		Replace            *struct{ Path, Version string }
	}
}

// key names the module that the folder would build, by everything that goes into
// it: the files of the plugin and of what it imports, the manifest, the tool
// chain's version and the flags. It compiles nothing.
func (t *toolchain) key(ctx context.Context) (string, error) {
	version, err := t.run(ctx, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	out, err := t.run(ctx, "list", "-deps", "-json=Dir,ImportPath,Standard,GoFiles,EmbedFiles,SFiles,Module", ".")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", bytes.TrimSpace(version), flags)
	if err := addFile(h, t.dir, ManifestFile); err != nil {
		return "", err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil))[:40], nil
		} else if err != nil {
			return "", fmt.Errorf("read the list of imports: %w", err)
		}
		if p.Standard {
			continue // the tool chain's version stands for it
		}
		fmt.Fprintf(h, "package %q\n", p.ImportPath)
		if m := p.Module; m != nil && m.Version != "" && m.Replace == nil {
			fmt.Fprintf(h, "module %q %q %q\n", m.Path, m.Version, m.Sum)
			if m.Sum != "" {
				continue // the module cache is immutable, the sum stands for it
			}
		}
		for _, f := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles) {
			if err := addFile(h, p.Dir, f); err != nil {
				return "", err
			}
		}
	}
}

// addFile adds a file's name, length and bytes.
func addFile(h hash.Hash, dir, name string) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s vanished while it was read", name)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "file %q %d\n", name, len(b))
	h.Write(b)
	return nil
}
