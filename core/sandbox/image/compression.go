package image

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// window is the most memory that a zstd stream may ask for.
const window = 128 << 20

// decompress tells by its first bytes how a stream is compressed, and gives what is in
// it. Media types are not asked, as they are often wrong.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case has("\x1f\x8b"):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		return z, nil
	case has("\x28\xb5\x2f\xfd"), len(head) >= 4 && head[0]&0xf0 == 0x50 && has(string(head[:1])+"\x2a\x4d\x18"):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case has("BZh"), has("\xfd7zXZ\x00"):
		return nil, refuse(Malformed, "it is compressed by bzip2 or xz; images have gzip, zstd or nothing")
	}
	return plainStream{b}, nil
}

// plainStream is what was not compressed.
type plainStream struct{ io.Reader }

// Close does nothing.
func (plainStream) Close() error { return nil }
