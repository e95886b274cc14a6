package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
)

// layer is one that can be had.
type layer struct {
	diffID string // digest of the uncompressed archive; "": unknown until it has been read
	digest string // of what open gives; "": not to be checked
	size   int64  // of what open gives; -1: unknown
	// open begins with one of several sources, which are counted from 0; it may go on to
	// further ones by itself.
	open    func(ctx context.Context, source int) (io.ReadCloser, error)
	sources int
}

// digestForm is how a digest is written.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func digestOf(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

// subject is how a layer is called in errors.
func (l layer) subject() string {
	for _, d := range []string{l.digest, l.diffID} {
		if d != "" {
			return "layer " + d
		}
	}
	return "layer"
}
