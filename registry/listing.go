package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		GoVersion          string // decides on the runtime's defaults
		Replace            *struct{ Path, Version string }
	}
}

// key names the module that the folder would build, by everything that goes into
// it: the files of the plugin and of what it imports, the manifest, the tool
// chain's version and the flags. It compiles nothing.
func (c *goCompiler) key(ctx context.Context) (string, error) {
	version, err := c.run(ctx, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	out, err := c.run(ctx, "list", "-deps", "-json=Dir,ImportPath,Standard,GoFiles,EmbedFiles,SFiles,Module", ".")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "go %q %q %q\n", bytes.TrimSpace(version), c.target, c.flags)
	file{ManifestFile, c.text}.addTo(h)
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
		if p.Module != nil {
			fmt.Fprintf(h, "go %q\n", p.Module.GoVersion)
			if r := p.Module.Replace; r != nil { // a program carries its place, trimmed or not
				fmt.Fprintf(h, "replaced by %q %q\n", r.Path, r.Version)
			}
		}
		if m := p.Module; m != nil && m.Version != "" && m.Replace == nil {
			fmt.Fprintf(h, "module %q %q %q\n", m.Path, m.Version, m.Sum)
			if m.Sum != "" {
				continue // the module cache is immutable, the sum stands for it
			}
		}
		for _, name := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles) {
			f, err := readFile(p.Dir, name)
			if err != nil {
				return "", err
			}
			f.addTo(h)
		}
	}
}
