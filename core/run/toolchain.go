package run

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// PrepareTools sees to what the tests of a record need of the machine, if that is where
// they run: in local sandboxes without an image. Without an interpreter or a compiler
// every test would fail, and look like the policy's failure, so that it is refused here,
// by a diag.Diagnostic that says what to install. What Go's library and vendored packages
// compile to is made once, in minutes the first time; packages that cannot be are
// compiled again in every sandbox, as log tells. It blocks until that is done.
func PrepareTools(ctx context.Context, d sandbox.Driver, language string, w *sdk.Workspace, log *slog.Logger) error {
	boxes, ok := d.(*local.Driver)
	if !ok || w.Image != "" || boxes.Image() != "" {
		return nil
	}
	switch strings.ToLower(language) {
	case "python":
		_, err := local.Python()
		return err
	case "go":
		if _, err := local.PrepareGo(ctx, SandboxDir()); err != nil {
			return err
		}
		_, err := boxes.PrepareVendor(ctx, w)
		if ctx.Err() != nil {
			return diag.Wrap(diag.KindInterrupted, "compile vendored packages", "", ctx.Err())
		}
		if err != nil {
			log.Warn("vendored packages are compiled again in every sandbox", "cause", err)
		}
	}
	return nil
}

// prepareTools does so for the records of all sources, naming the first that cannot be
// played.
func (s *Setup) prepareTools(ctx context.Context, sources [][]record) error {
	python := false // is the same for all
	for _, records := range sources {
		for _, r := range records {
			if r.Language == "python" {
				if python {
					continue
				}
				python = r.Workspace.Image == ""
			}
			err := PrepareTools(ctx, s.Driver, r.Language, &r.Workspace, s.log)
			var missing *diag.Diagnostic
			if errors.As(err, &missing) {
				named := *missing
				named.Detail = append([]string{"needed by record " + r.ID}, missing.Detail...)
				return &named
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
