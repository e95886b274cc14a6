package rows

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
)

// head is how much of a file is looked at to find out what it is.
const head = 4096

// shape is how the rows of a file are laid out.
type shape int

const (
	lines shape = iota
	list
	columns
)

// sniff finds out from a file's first bytes what it holds: its name proves nothing.
// What is no data set at all is named for what it is.
func sniff(b []byte) (shape, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	text := bytes.TrimLeft(b, " \t\r\n")
	lower := bytes.ToLower(text[:min(len(text), 256)])
	has := func(prefix string) bool { return bytes.HasPrefix(b, []byte(prefix)) }
	switch {
	case has("PAR1"):
		return columns, nil
	case has("version https://git-lfs.github.com/spec/"):
		return 0, fmt.Errorf("a Git LFS pointer and not the data; fetch it with: git lfs pull")
	case has("/annex/") || has("../") && bytes.Contains(b, []byte(".git/annex/")):
		return 0, fmt.Errorf("a git-annex pointer and not the data; fetch it with: git annex get")
	case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
		return 0, fmt.Errorf("an HTML page and not the data: the download answered with a web page, such as a login or an error")
	case bytes.HasPrefix(lower, []byte("<?xml")), bytes.HasPrefix(lower, []byte("<error")):
		return 0, fmt.Errorf("an XML document and not the data: object stores answer so when they refuse a download")
	case has("PK\x03\x04"):
		return 0, fmt.Errorf("a zip archive; unpack it and give the files in it")
	case has("ARROW1"), has("\xff\xff\xff\xff"):
		return 0, fmt.Errorf("an Arrow file; write it as Parquet, e.g. with Dataset.to_parquet")
	case has("\xff\xfe"), has("\xfe\xff"):
		return 0, fmt.Errorf("UTF-16 text; want UTF-8")
	case has("BZh"), has("\xfd7zXZ\x00"):
		return 0, fmt.Errorf("compressed with bzip2 or xz; want none, gzip or zstd")
	case len(text) == 0:
		return 0, fmt.Errorf("empty")
	case text[0] == '[':
		return list, nil
	case bytes.HasPrefix(text, []byte("{\n")), bytes.HasPrefix(text, []byte("{\r\n")):
		return 0, fmt.Errorf("one JSON object over several lines; want one object a line, or a list of objects")
	case text[0] == '{':
		return lines, nil
	case bytes.IndexByte(b, 0) >= 0:
		return 0, fmt.Errorf("no data set: want JSON lines, a JSON list or Parquet, these plain or compressed with gzip or zstd")
	}
	return lines, nil // its lines are refused one by one
}

// meter counts what was read, which zstd does from a goroutine of its own.
type meter struct {
	r io.Reader
	n atomic.Int64
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.n.Add(int64(n))
	return n, err
}

// file is an opened file, decompressed.
type file struct {
	*bufio.Reader
	raw     *os.File
	read    *meter // compressed bytes
	size    int64
	unpack  func()
	beneath shape
	packed  bool
}

// open opens a file and finds out what it is.
func open(path string) (*file, error) {
	fail := func(err error) error { return diag.Wrap(diag.KindData, "open data", path, err) }
	raw, err := os.Open(path)
	if err != nil {
		return nil, fail(err)
	}
	info, err := raw.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("a folder")
	}
	if err != nil {
		raw.Close()
		return nil, fail(err)
	}
	f := &file{raw: raw, read: &meter{r: raw}, size: info.Size(), unpack: func() {}}
	if f.Reader, err = f.inflate(); err == nil {
		var first []byte
		if first, err = f.Peek(head); err == nil || err == io.EOF {
			f.beneath, err = sniff(first)
		}
	}
	if err != nil {
		f.Close()
		return nil, fail(err)
	}
	return f, nil
}

// inflate undoes the compression, if there is one.
func (f *file) inflate() (*bufio.Reader, error) {
	b := bufio.NewReaderSize(f.read, 1<<16)
	magic, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		f.packed = true
		return bufio.NewReaderSize(z, 1<<16), nil
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(256<<20), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		f.packed, f.unpack = true, z.Close
		return bufio.NewReaderSize(z, 1<<16), nil
	}
	return b, nil
}

func (f *file) Close() error {
	f.unpack()
	return f.raw.Close()
}
