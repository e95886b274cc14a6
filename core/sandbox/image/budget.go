package image

import (
	"io"
	"sync/atomic"
)

// budget is what is left of an image's limits, shared by its layers.
type budget struct {
	limits         Limits
	bytes, entries atomic.Int64 // spent
}

func (b *budget) spendEntries(n int64) error {
	if b.entries.Add(n) > b.limits.Entries {
		return refuse(TooLarge, "the image has more than %d entries", b.limits.Entries)
	}
	return nil
}

func (b *budget) spendBytes(n int64) error {
	if b.bytes.Add(n) > b.limits.Bytes {
		return refuse(TooLarge, "the image unpacks to more than %d bytes", b.limits.Bytes)
	}
	return nil
}

// free is how many bytes may come out of an archive before their ratio to those that
// went in matters.
const free = 64 << 20

// inflated counts what comes out of a decompressor and compares with what went in.
type inflated struct {
	r     io.Reader
	in    *int64
	ratio int64
	out   int64
}

func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	i.out += int64(n)
	if i.out > free && i.out/i.ratio > *i.in {
		return n, refuse(TooLarge, "it unpacks to more than %d times its size", i.ratio)
	}
	return n, err
}
