//go:build !linux

package local

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/sdk"
)

// Driver makes no sandboxes on this system.
type Driver struct{}

var _ sandbox.Driver = (*Driver)(nil)

// New says that local sandboxes need Linux.
func New(Options) (*Driver, error) {
	return nil, &diag.Diagnostic{
		Kind: diag.KindSandbox, Code: "S001", Summary: "local sandboxes need Linux",
		Hint: "run Valence on Linux, or in a Linux virtual machine",
	}
}

// Create always fails.
func (*Driver) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, diag.Errorf(diag.KindSandbox, "create sandbox", "", "local sandboxes need Linux")
}

// Prepare always fails.
func (*Driver) Prepare(_ context.Context, ref string) error {
	return diag.Errorf(diag.KindSandbox, "get image", ref, "local sandboxes need Linux")
}

// Image is none.
func (*Driver) Image() string { return "" }

// PrepareVendor does nothing.
func (*Driver) PrepareVendor(context.Context, *sdk.Workspace) (bool, error) { return false, nil }

// Form is none in particular.
func Form() image.Form { return image.Form{} }

// Isolation is none.
func (*Driver) Isolation() sandbox.Isolation {
	return sandbox.Isolation{Driver: "local", Level: "none"}
}

// Close does nothing.
func (*Driver) Close() error { return nil }
