package image

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
)

// Get gives the image that a reference names: one of this machine by "tar:", "oci:" or
// "dir:" and a path, as [Store.Import], and otherwise one of a registry, as [Store.Pull].
// Its errors are diag.Diagnostics besides, with a code and a remedy.
func (s *Store) Get(ctx context.Context, reference string) (i *Image, err error) {
	if path, is := Path(reference); is {
		i, err = s.Import(ctx, path)
	} else {
		i, err = s.Pull(ctx, reference)
	}
	return i, diag.Wrap(diag.KindSandbox, "get image", reference, explain(s.dir, reference, err))
}

// Reopen gives an image that is kept, by its digest, without asking a registry;
// [io/fs.ErrNotExist] if it is not.
func (s *Store) Reopen(ctx context.Context, digest string) (*Image, error) {
	i, err := s.use(ctx, digest, nil)
	return i, failed("open image", digest, err)
}
