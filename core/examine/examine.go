// Package examine loads a plugin as a run would, puts the conformance suite of
// package sdktest to it in real sandboxes, and adds what only a host can find out:
// whether the manifest tells the truth, whether a build repeats, what a sandbox
// shows, and whether both transports say the same.
package examine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// Options say how a plugin is examined.
type Options struct {
	Registry registry.Options  // where it is looked for; Transport chooses how it is run
	Driver   sandbox.Driver    // makes the sandboxes; nil: there are none here
	NoDriver error             // why Driver is nil
	Judge    string            // reference of the judge of a plugin that asks one
	Settings map[string]string // as config in a run's TOML
	Records  []sdk.Record      // nil: those of sdktest
	Tasks    int               // as in sdktest.Options
	Repeats  int               // as in sdktest.Options
	Timeout  time.Duration     // as in sdktest.Options
	Log      *slog.Logger      // hears builds and what the plugin logs; nil is silent
	Heard    func(check string)
}

// Report is what was found out about one plugin.
type Report struct {
	Ref       string            `json:"ref"`
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	ABI       int               `json:"abi"`
	Transport string            `json:"transport"`
	Digest    string            `json:"digest"`
	Checks    []sdktest.Finding `json:"checks"`
	Failed    int               `json:"failed"`
	Seconds   float64           `json:"seconds"`
}

// Plugin examines the plugin that ref names. An error means that it could not be
// examined: it was refused, or sandboxes or its judge are missing. It blocks for some
// seconds, or until ctx ends.
func Plugin(ctx context.Context, ref string, o Options) (*Report, error) {
	started := time.Now()
	if o.Heard == nil {
		o.Heard = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Registry.Log = o.Log
	o.Heard("manifest")
	m, err := registry.Resolve(ctx, ref, o.Registry)
	if err != nil {
		return nil, err
	}
	settings, err := m.Manifest.Settings(o.Settings)
	if err != nil {
		return nil, misset(err)
	}
	subject, err := o.load(ctx, m)
	if err != nil {
		return nil, err
	}
	defer subject.Close()
	h, err := o.services(ctx, m)
	if err != nil {
		return nil, err
	}
	defer h.close()
	suite := sdktest.Options{
		Host: h, Declared: append([]string{}, m.Manifest.Capabilities...), Records: o.Records, Config: settings,
		Tasks: o.Tasks, Repeats: o.Repeats, Timeout: o.Timeout, Heard: o.Heard,
	}
	if o.Driver != nil {
		suite.Visible = visible(o.Driver)
	}
	r := &Report{Ref: ref, Name: m.Manifest.Name, Version: m.Manifest.Version, ABI: m.Manifest.ABI, Transport: m.Transport, Digest: m.Digest}
	r.Checks = append(r.Checks, sdktest.Finding{
		Check: "manifest", Status: sdktest.OK, Passed: 4, Total: 4,
		Claim: "facts in plugin.toml hold: name, version, ABI, roles",
	}, o.builds(ctx, ref, m))
	r.Checks = append(r.Checks, sdktest.Examine(ctx, subject, suite)...)
	r.Checks = append(r.Checks, o.transports(ctx, ref, m, subject, suite))
	if ctx.Err() != nil {
		return nil, diag.Wrap(diag.KindInterrupted, "examine plugin", ref, context.Cause(ctx))
	}
	for _, c := range r.Checks {
		if c.Status == sdktest.Failed {
			r.Failed++
		}
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

// misset points at the flag that set what the plugin does not take.
func misset(err error) error {
	var s *registry.SettingsError
	if !errors.As(err, &s) {
		return err
	}
	l := s.At(func(key string) diag.Source { return diag.Source{File: "--set " + key} })
	for _, d := range l {
		d.Kind = diag.KindConfig
	}
	return l
}

// load opens the plugin with every capability let through, so that the suite, which
// denies what is not declared, sees what is asked for.
func (o Options) load(ctx context.Context, m *registry.Module) (*subject, error) {
	open := *m
	open.Manifest.Capabilities = []string{"sandbox", "model", "judge", "log"}
	p, err := host.Load(ctx, &open, host.Options{Grants: open.Manifest.Capabilities, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &subject{p}, nil
}

// subject is a loaded plugin under examination.
type subject struct{ *host.Plugin }

func (s *subject) Describe(context.Context) (string, []string, error) {
	m := s.Manifest()
	return m.Name, m.Roles, nil
}

// builds compiles the plugin again, without what is cached.
func (o Options) builds(ctx context.Context, ref string, m *registry.Module) sdktest.Finding {
	f := sdktest.Finding{Check: "builds", Claim: "builds from nothing give the same module", Total: 1}
	o.Heard(f.Check)
	switch {
	case !isFolder(o.Registry, ref):
		return skipped(f, "there are no sources to build it from")
	case m.Manifest.Language == registry.Python:
		return skipped(f, "nothing is compiled")
	}
	dir, err := os.MkdirTemp("", "valence-build-*")
	if err != nil {
		return failed(f, err.Error())
	}
	defer os.RemoveAll(dir)
	again := o.Registry
	again.Cache, again.Log = dir, nil
	second, err := registry.Resolve(ctx, ref, again)
	switch {
	case err != nil:
		return failed(f, err.Error())
	case second.Digest != m.Digest:
		return failed(f, fmt.Sprintf("the same sources gave %s, and then %s", m.Digest, second.Digest))
	}
	f.Status, f.Passed = sdktest.OK, 1
	return f
}

// transports has the plugin say everything again by the other transport.
func (o Options) transports(ctx context.Context, ref string, m *registry.Module, s *subject, suite sdktest.Options) sdktest.Finding {
	f := sdktest.Finding{Check: "native = wasm", Claim: "answers identical"}
	o.Heard(f.Check)
	switch {
	case !isFolder(o.Registry, ref):
		return skipped(f, "there are no sources to build the other transport from")
	case m.Manifest.Language != "" && m.Manifest.Language != registry.Go:
		return skipped(f, "a plugin in "+m.Manifest.Language+" is run in one way only: "+m.Transport)
	}
	other := o.Registry
	other.Transport = registry.Process
	if m.Transport == registry.Process {
		other.Transport = registry.WASM
	}
	twin, err := o.twin(ctx, ref, other)
	switch {
	case err != nil && m.Manifest.Transport == registry.Process:
		return skipped(f, "its manifest wants a process, and "+err.Error())
	case err != nil:
		return failed(f, err.Error())
	}
	defer twin.Close()
	suite.Heard = nil
	return sdktest.Compare(ctx, f.Check, s, twin, suite)
}

// twin is the plugin, carried by the transport of at.
func (o Options) twin(ctx context.Context, ref string, at registry.Options) (*subject, error) {
	m, err := registry.Resolve(ctx, ref, at)
	if err != nil {
		return nil, fmt.Errorf("it cannot be built for %s: %w", at.Transport, err)
	}
	s, err := o.load(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("it cannot be loaded as %s: %w", at.Transport, err)
	}
	return s, nil
}

func skipped(f sdktest.Finding, why string) sdktest.Finding {
	f.Status, f.Why, f.Total = sdktest.Skipped, why, 0
	return f
}

func failed(f sdktest.Finding, reason string) sdktest.Finding {
	f.Status, f.Faults = sdktest.Failed, []sdktest.Fault{{Reason: reason}}
	f.Total = max(f.Total, 1)
	return f
}
