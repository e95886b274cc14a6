package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Import gives the image at a path of this machine: an archive as `docker save` or
// another tool writes it, an OCI layout as a folder or in an archive, a folder that is a
// root file system, or an archive of one. Archives may be compressed by gzip or zstd.
// Where there are several images the one for this machine is taken, and an error names
// them if that leaves several.
//
// Of a folder that is a root file system the contents are copied; what is mounted in it,
// and sockets, are left out. Import blocks as long as it takes and ends with ctx. The
// caller closes the image. An [Error] says why there is none.
func (s *Store) Import(ctx context.Context, path string) (*Image, error) {
	const op = "import image"
	i, err := s.importFrom(ctx, path)
	if err != nil {
		return nil, failed(op, path, err)
	}
	if err := s.collect(ctx); err != nil {
		return nil, failed(op, path, errors.Join(err, i.Close()))
	}
	return i, nil
}

func (s *Store) importFrom(ctx context.Context, path string) (*Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &Error{Absent, err}
		}
		return nil, err
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "oci-layout")); err == nil {
			root, err := os.OpenRoot(path)
			if err != nil {
				return nil, err
			}
			defer root.Close()
			c, err := readLayout(func(name string) (io.ReadCloser, int64, error) {
				f, err := root.Open(name)
				if err != nil {
					return nil, 0, err
				}
				info, err := f.Stat()
				if err != nil {
					f.Close()
					return nil, 0, err
				}
				return f, info.Size(), nil
			})
			if err != nil {
				return nil, err
			}
			return s.add(ctx, path, c)
		}
		return s.addRoot(ctx, path, func(ctx context.Context, _ int) (io.ReadCloser, error) { return packed(ctx, path), nil })
	}
	sc, err := s.scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer sc.discard()
	a, err := openArchive(ctx, path, filepath.Join(sc.dir, "archive"), s.o.Limits)
	if err != nil {
		return nil, err
	}
	defer a.close()
	var c *content
	switch {
	case a.has("manifest.json"):
		c, err = readSaved(a)
	case a.has("index.json"):
		c, err = readLayout(a.open)
	default:
		return s.addRoot(ctx, path, func(context.Context, int) (io.ReadCloser, error) { return a.whole(), nil })
	}
	if err != nil {
		return nil, err
	}
	return s.add(ctx, path, c)
}

// addRoot adds an image of one layer, whose digest only reading it tells.
func (s *Store) addRoot(ctx context.Context, path string, open func(context.Context, int) (io.ReadCloser, error)) (*Image, error) {
	var held *lease
	err := s.locked(ctx, func() (err error) {
		held, err = s.take(holding{})
		return err
	})
	if err != nil {
		return nil, err
	}
	i, err := func() (*Image, error) {
		l := layer{size: -1, sources: 1, open: open}
		p := s.progress(path, []layer{l})
		id, err := s.ensure(ctx, l, held, &budget{limits: s.o.Limits}, func(done int64) { p.at(0, done) })
		if err != nil {
			return nil, err
		}
		p.ready(0)
		raw, err := json.Marshal(v1.ConfigFile{
			OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: id}}},
		})
		if err != nil {
			return nil, err
		}
		c := &content{digest: digestOf(raw), config: &config{}}
		if i, err := s.use(ctx, c.digest, held); !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
		if err := s.finish(ctx, c, []string{id}, &budget{limits: s.o.Limits}); err != nil {
			return nil, err
		}
		return s.use(ctx, c.digest, held)
	}()
	if err != nil {
		return nil, errors.Join(err, held.end())
	}
	return i, nil
}

// opener gives a file of an archive or a folder, and its size.
type opener func(name string) (io.ReadCloser, int64, error)

// document reads a small file.
func (o opener) document(name string, most int64) ([]byte, error) {
	f, size, err := o(name)
	if err != nil {
		return nil, refuse(Malformed, "it has no %s: %w", name, err)
	}
	defer f.Close()
	if size > most {
		return nil, refuse(TooLarge, "its %s has %d bytes, at most %d are read", name, size, most)
	}
	return io.ReadAll(f)
}

// blob reads a small file that is named by its digest.
func (o opener) blob(digest string, most int64) ([]byte, error) {
	b, err := o.document(blobName(digest), most)
	if err == nil && digestOf(b) != digest {
		return nil, refuse(Changed, "want %s, got bytes of %s", digest, digestOf(b))
	}
	return b, err
}

func (o opener) layer(name, digest string) (layer, error) {
	f, size, err := o(name)
	if err != nil {
		return layer{}, refuse(Malformed, "it has no %s: %w", name, err)
	}
	f.Close()
	return layer{digest: digest, size: size, sources: 1, open: func(context.Context, int) (io.ReadCloser, error) {
		f, _, err := o(name)
		return f, err
	}}, nil
}

func blobName(digest string) string { return path.Join("blobs", "sha256", digits(digest)) }

// readLayout reads an OCI layout.
func readLayout(open opener) (*content, error) {
	raw, err := open.document("index.json", maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(raw)
	if err != nil {
		return nil, err
	}
	var digest string
	for depth := 0; m.Manifests != nil; depth++ {
		if depth == 4 {
			return nil, refuse(Malformed, "its index holds indexes without end")
		}
		d, err := m.only()
		if err != nil {
			return nil, err
		}
		digest = d.Digest.String()
		if raw, err = open.blob(digest, maxManifest); err != nil {
			return nil, err
		}
		if m, err = readManifest(raw); err != nil {
			return nil, err
		}
	}
	raw, err = open.blob(m.Config.Digest.String(), maxConfig)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(raw)
	if err != nil {
		return nil, err
	}
	var layers []layer
	for _, d := range m.Layers {
		l, err := open.layer(blobName(d.Digest.String()), d.Digest.String())
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return assemble(digest, c, layers)
}

// readSaved reads what `docker save` writes. The image's digest is its configuration's.
func readSaved(a *savedArchive) (*content, error) {
	open := opener(a.open)
	raw, err := open.document("manifest.json", maxManifest)
	if err != nil {
		return nil, err
	}
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, refuse(Malformed, "its manifest.json cannot be read: %w", err)
	}
	if len(images) != 1 {
		var names []string
		for _, i := range images {
			names = append(names, strings.Join(i.RepoTags, " "))
		}
		return nil, refuse(Malformed, "it has %d images, save one alone: %q", len(images), names)
	}
	if raw, err = open.document(images[0].Config, maxConfig); err != nil {
		return nil, err
	}
	c, err := readConfig(raw)
	if err != nil {
		return nil, err
	}
	var layers []layer
	for _, name := range images[0].Layers {
		l, err := open.layer(name, "")
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return assemble(digestOf(raw), c, layers)
}
