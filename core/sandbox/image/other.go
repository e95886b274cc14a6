//go:build !linux

package image

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
)

// Store keeps no images on this system.
type Store struct{}

// Open says that images need Linux.
func Open(string, Options) (*Store, error) {
	return nil, &diag.Diagnostic{
		Kind: diag.KindSandbox, Code: "S001", Summary: "container images need Linux",
		Hint: "run Valence on Linux, or in a Linux virtual machine",
	}
}

// Pull always fails.
func (*Store) Pull(_ context.Context, reference string) (*Image, error) {
	return nil, diag.Errorf(diag.KindSandbox, "pull image", reference, "container images need Linux")
}

// Import always fails.
func (*Store) Import(_ context.Context, path string) (*Image, error) {
	return nil, diag.Errorf(diag.KindSandbox, "import image", path, "container images need Linux")
}

// Get always fails.
func (s *Store) Get(ctx context.Context, reference string) (*Image, error) {
	return s.Pull(ctx, reference)
}

// Reopen always fails.
func (s *Store) Reopen(ctx context.Context, digest string) (*Image, error) {
	return s.Pull(ctx, digest)
}

// Collect does nothing.
func (*Store) Collect(context.Context) error { return nil }

// Clear does nothing.
func (*Store) Clear(context.Context) error { return nil }

// List gives none.
func (*Store) List(context.Context) ([]Kept, error) { return nil, nil }
