package main

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// prepareVendor gives what has d compile the packages that a workspace vendors. Where
// they cannot be compiled once, every sandbox does it again, which is slow and no more.
func (a *app) prepareVendor(d *local.Driver) func(context.Context, *sdk.Workspace) error {
	return func(ctx context.Context, w *sdk.Workspace) error {
		_, err := d.PrepareVendor(ctx, w)
		if ctx.Err() != nil {
			return diag.Wrap(diag.KindInterrupted, "compile vendored packages", "", ctx.Err())
		}
		if err != nil {
			a.logger().Warn("vendored packages are compiled again in every sandbox", "cause", err)
		}
		return nil
	}
}
