package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

func sum(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// transfer counts, hashes and watches what a layer is read from.
type transfer struct {
	ctx    context.Context
	r      io.Reader
	hash   hash.Hash
	count  int64
	most   int64 // -1: any
	report func(int64)
	failed error // what r said, whatever a decompressor made of it
}

func (t *transfer) Read(p []byte) (int, error) {
	if t.ctx.Err() != nil {
		t.failed = context.Cause(t.ctx)
		return 0, t.failed
	}
	n, err := t.r.Read(p)
	t.count += int64(n)
	t.hash.Write(p[:n])
	t.report(t.count)
	if t.most >= 0 && t.count > t.most {
		err = refuse(Changed, "it has more than the %d bytes that were announced", t.most)
	}
	if err != nil && err != io.EOF {
		t.failed = err
	}
	return n, err
}

// unpackInto unpacks the layer from a source into dir, checks both its digests, and gives the one of
// its uncompressed archive.
func (l layer) unpackInto(ctx context.Context, source int, dir string, form Form, m marks, b *budget, report func(int64)) (n *note, diffID string, err error) {
	body, err := l.open(ctx, source)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	raw := &transfer{ctx: ctx, r: body, hash: sha256.New(), most: l.size, report: report}
	n, diffID, err = l.expand(ctx, raw, dir, form, m, b)
	if raw.failed != nil {
		return nil, "", raw.failed
	}
	if err != nil && reasonOf(err) != Malformed {
		return nil, "", err
	}
	// What was malformed may be so because it is not what was asked for.
	if _, e := io.Copy(io.Discard, raw); e != nil {
		return nil, "", e
	}
	if l.size >= 0 && raw.count != l.size {
		return nil, "", refuse(Changed, "it has %d bytes, %d were announced", raw.count, l.size)
	}
	if got := sum(raw.hash); l.digest != "" && got != l.digest {
		return nil, "", refuse(Changed, "its bytes have digest %s", got)
	}
	return n, diffID, err
}

func (l layer) expand(ctx context.Context, raw *transfer, dir string, form Form, m marks, b *budget) (*note, string, error) {
	plain, err := decompress(raw)
	if err != nil {
		return nil, "", malformed(err)
	}
	defer plain.Close()
	h := sha256.New()
	archive := io.TeeReader(&inflated{r: plain, in: &raw.count, ratio: b.limits.Ratio}, h)
	n, err := unpack(ctx, archive, dir, form, m, b)
	if err != nil {
		return nil, "", err
	}
	// Past the end of an archive there may be more, which the digest covers.
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return nil, "", malformed(err)
	}
	diffID := sum(h)
	if l.diffID != "" && diffID != l.diffID {
		return nil, "", refuse(Malformed, "its archive has digest %s, the configuration names %s", diffID, l.diffID)
	}
	return n, diffID, nil
}
