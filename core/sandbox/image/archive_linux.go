package image

import (
	"archive/tar"
	"bufio"
	"context"
	"io"
	"io/fs"
	"os"
	"path"
)

// savedArchive is an uncompressed archive whose files can be read in any order.
type savedArchive struct {
	file  *os.File
	size  int64
	files map[string]section
	links map[string]string
}

type section struct{ at, size int64 }

// openArchive finds what is where in an archive. A compressed one is unpacked to spare.
func openArchive(ctx context.Context, name, spare string, limits Limits) (*savedArchive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	a := &savedArchive{file: f, files: map[string]section{}, links: map[string]string{}}
	if err := a.expand(ctx, spare, limits); err != nil {
		a.close()
		return nil, err
	}
	if err := a.scan(ctx, limits); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *savedArchive) close() { a.file.Close() }

// expand puts an uncompressed copy in the place of a compressed file.
func (a *savedArchive) expand(ctx context.Context, spare string, limits Limits) error {
	packed := &transfer{ctx: ctx, r: a.file, hash: discard{}, most: -1, report: func(int64) {}}
	r, err := decompress(packed)
	if err != nil {
		return malformed(err)
	}
	defer r.Close()
	if _, is := r.(plainStream); is {
		info, err := a.file.Stat()
		if err != nil {
			return err
		}
		a.size = info.Size()
		_, err = a.file.Seek(0, io.SeekStart)
		return err
	}
	out, err := os.Create(spare)
	if err != nil {
		return err
	}
	a.size, err = io.Copy(out, &inflated{r: r, in: &packed.count, ratio: limits.Ratio})
	if err != nil {
		out.Close()
		return malformed(err)
	}
	a.file.Close()
	a.file = out
	_, err = out.Seek(0, io.SeekStart)
	return err
}

// discard hashes nothing.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Sum([]byte) []byte           { return nil }
func (discard) Reset()                      {}
func (discard) Size() int                   { return 0 }
func (discard) BlockSize() int              { return 1 }

// scan lists the files of the archive with their places.
func (a *savedArchive) scan(ctx context.Context, limits Limits) error {
	r := tar.NewReader(a.file)
	for n := int64(0); ; n++ {
		if n > limits.Entries {
			return refuse(TooLarge, "it has more than %d entries", limits.Entries)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return malformed(err)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := a.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			a.files[name] = section{at, h.Size}
		case tar.TypeSymlink:
			a.links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			a.links[name] = path.Clean(h.Linkname)
		}
	}
}

func (a *savedArchive) has(name string) bool {
	_, is := a.files[name]
	return is
}

// open is an [opener]. It follows links once, which is how older archives share layers.
func (a *savedArchive) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	if to, is := a.links[name]; is {
		name = to
	}
	s, is := a.files[name]
	if !is {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(bufio.NewReaderSize(io.NewSectionReader(a.file, s.at, s.size), 256<<10)), s.size, nil
}

// whole is the archive itself.
func (a *savedArchive) whole() io.ReadCloser {
	return io.NopCloser(io.NewSectionReader(a.file, 0, a.size))
}
