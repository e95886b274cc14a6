package examine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// services answers the capability calls of the plugin and of its judge: sandboxes as
// in a run, the judge that was named, no model.
type services struct {
	runner scoring.Runner // nil: there are no sandboxes
	judge  *host.Plugin   // nil: there is none
	asked  []sdk.Pair     // the judge's settings
	log    *slog.Logger
}

// services opens what m declares to need.
func (o Options) services(ctx context.Context, m *registry.Module) (*services, error) {
	h := &services{log: o.Log}
	if o.Driver != nil {
		h.runner = scoring.Sandboxes{Driver: o.Driver}
	} else if slices.Contains(m.Manifest.Capabilities, "sandbox") {
		return nil, o.NoDriver
	}
	if !slices.Contains(m.Manifest.Capabilities, "judge") {
		return h, nil
	}
	if o.Judge == "" {
		return nil, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C042",
			Summary: fmt.Sprintf("plugin %q asks a judge, and none is named", m.Manifest.Name),
			Hint:    "name one with --judge REF, e.g. --judge plugins/judges/rules"}
	}
	// The judge is run as its own manifest says, not as the plugin under examination.
	at := o.Registry
	at.Transport = ""
	j, err := registry.Resolve(ctx, o.Judge, at)
	if err != nil {
		return nil, err
	}
	if h.asked, err = j.Manifest.Settings(nil); err != nil {
		return nil, err
	}
	if h.judge, err = host.Load(ctx, j, host.Options{Grants: j.Manifest.Capabilities, Log: o.Log}); err != nil {
		return nil, err
	}
	if err := h.judge.Require("judge", "plugin test", diag.Source{File: "--judge", Text: o.Judge}); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *services) close() {
	if h.judge != nil {
		h.judge.Close()
	}
}

func (h *services) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if h.runner == nil {
		return nil, diag.Errorf(diag.KindSandbox, "run commands", "", "there are no sandboxes here")
	}
	return h.runner.Run(ctx, r)
}

func (h *services) Model(context.Context, *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	return nil, diag.Errorf(diag.KindConfig, "ask model", "", "a model is %w", sdktest.ErrNotOffered)
}

func (h *services) Ask(ctx context.Context, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	if h.judge == nil {
		return nil, diag.Errorf(diag.KindConfig, "ask judge", "", "no judge is named")
	}
	q := *r
	q.Config = h.asked
	a, err := h.judge.Judge(ctx, &services{runner: h.runner, log: h.log}, &q)
	if err != nil {
		return nil, &diag.Error{Kind: diag.KindJudge, Op: "ask judge", Err: err}
	}
	return a, nil
}

func (h *services) Log(ctx context.Context, level, text string) {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	h.log.Log(ctx, l, text)
}

// isFolder tells whether a reference is a folder of sources.
func isFolder(o registry.Options, ref string) bool {
	if o.Dir != "" && !filepath.IsAbs(ref) {
		ref = filepath.Join(o.Dir, ref)
	}
	info, err := os.Stat(ref)
	return err == nil && info.IsDir()
}
