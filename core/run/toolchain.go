package run

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// Tools sees to what tests need of the machine, if that is where they run: in local
// sandboxes without an image. It is safe for concurrent use; calls wait for each other.
type Tools struct {
	boxes *local.Driver // nil: there is nothing to see to
	log   *slog.Logger

	mu    sync.Mutex
	there map[string]bool // languages
}

// NewTools is for the sandboxes of d.
func NewTools(d sandbox.Driver, log *slog.Logger) *Tools {
	t := &Tools{log: log, there: map[string]bool{}}
	if boxes, ok := d.(*local.Driver); ok && boxes.Image() == "" {
		t.boxes = boxes
	}
	return t
}

// Prepare sees to what the tests of a workspace need. Without an interpreter or a compiler
// every test would fail, and look like the policy's failure, so that it is refused here, by
// a diag.Diagnostic that says what to install. What Go's library and vendored packages
// compile to is made once, in minutes the first time; packages that cannot be are compiled
// again in every sandbox, as the log tells. It blocks until that is done.
func (t *Tools) Prepare(ctx context.Context, language string, w *sdk.Workspace) error {
	if t.boxes == nil || w.Image != "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	language = strings.ToLower(language)
	if !t.there[language] {
		var err error
		switch language {
		case "python":
			_, err = local.Python()
		case "go":
			_, err = local.PrepareGo(ctx, SandboxDir())
		}
		if err != nil {
			return err
		}
		t.there[language] = true
	}
	if language == "go" {
		_, err := t.boxes.PrepareVendor(ctx, w)
		if ctx.Err() != nil {
			return diag.Wrap(diag.KindInterrupted, "compile vendored packages", "", ctx.Err())
		}
		if err != nil {
			t.log.Warn("vendored packages are compiled again in every sandbox", "cause", err)
		}
	}
	return nil
}

// PrepareRecord does so for a record, whose name is in the error.
func (t *Tools) PrepareRecord(ctx context.Context, r *sdk.Record) error {
	err := t.Prepare(ctx, r.Language, &r.Workspace)
	var missing *diag.Diagnostic
	if errors.As(err, &missing) {
		named := *missing
		named.Detail = append([]string{"record " + r.ID + " needs it"}, missing.Detail...)
		return &named
	}
	return err
}
