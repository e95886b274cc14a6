// Package host turns a resolved plugin into something that can be asked: it loads,
// negotiates, grants capabilities, sets limits and classifies what goes wrong.
//
// A plugin's life:
//
//  1. [Load] compiles it, asks what it is and compares that with its manifest.
//     A capability that it declares and the run does not grant refuses it here.
//  2. [Plugin.Require] says for a skill of the run which role is needed.
//  3. [Plugin.Build], [Plugin.Evaluate] and [Plugin.Judge] each run with a deadline
//     and a memory limit: as WASM in a fresh instance, as a process beside others.
//  4. [Plugin.Close] frees it.
//
// Whatever a plugin does, it gives an answer that makes sense or an error; the
// error never ends the host and never becomes a score. Its kind is that of the
// boundary that failed: plugin, or the sandbox's or the judge's when a service
// failed and the plugin passed that on.
package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host/process"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/core/host/wasm"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// DefaultTimeout is the deadline of one call when Options name none.
const DefaultTimeout = 10 * time.Minute

// Services answers the capability calls of one evaluation. Its methods must honour
// the context; their errors should carry the kind of the boundary that failed.
type Services = sdk.Host

// Options says what the run allows. The zero Options grants nothing.
type Options struct {
	// Grants are the capabilities that the run grants.
	Grants []string
	// Timeout is the deadline of one call, the services' time included; 0 means
	// DefaultTimeout. A shorter EvaluateRequest.Timeout wins.
	Timeout time.Duration
	// MemoryLimit in bytes, of one WASM instance or of one process with all its calls;
	// 0 means wasm.DefaultMemory or process.DefaultMemory.
	MemoryLimit int64
	// Cache is a folder for compiled code, shared by processes; "" is [DefaultCache].
	Cache string
	// Warm is how many instances are kept ready, about 5 MiB each; 0 means 1.
	Warm int
	// Log hears what plugins say while tasks are built; nil is silent.
	Log *slog.Logger
}

// DefaultCache is where compiled code is kept when Options name no place:
// valence/wasm in the user's cache folder, or in the temporary folder if there is none.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "valence", "wasm")
}

// Plugin is a loaded skill. Its methods, but for Close, may be called from many
// goroutines.
type Plugin struct {
	module  transport.Transport
	source  registry.Module // without Wasm
	granted []string        // declared and granted
	timeout time.Duration
	log     *slog.Logger
	told    sync.Map // capabilities whose denial was logged
	pace    pace
}

// Load compiles m and negotiates with it. Errors are of kind plugin: a
// [diag.Diagnostic] where a person can mend something.
func Load(ctx context.Context, m *registry.Module, o Options) (*Plugin, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Cache == "" {
		o.Cache = DefaultCache()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := Granted(m, o.Grants); err != nil {
		return nil, err
	}
	module, err := open(ctx, m, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil, diag.Wrap(diag.KindInterrupted, "load plugin", m.Ref, context.Cause(ctx))
		}
		return nil, unstartable(m, err)
	}
	p := &Plugin{module: module, source: *m, granted: m.Manifest.Capabilities, timeout: o.Timeout, log: o.Log}
	p.source.Wasm = nil
	if err := p.negotiate(ctx); err != nil {
		module.Close()
		return nil, err
	}
	if w, ok := module.(*wasm.Module); ok {
		if frozen, why := w.Frozen(); !frozen {
			p.log.Info("the plugin is started for each call, since no image of it can be taken", "plugin", p.String(), "reason", why)
		}
	}
	return p, nil
}

// open reaches the plugin by its transport.
func open(ctx context.Context, m *registry.Module, o Options) (transport.Transport, error) {
	if m.Transport == registry.Process {
		return process.Open(ctx, process.Config{Command: m.Command, Memory: o.MemoryLimit, Log: o.Log})
	}
	return wasm.Open(ctx, m.Wasm, wasm.Config{Memory: o.MemoryLimit, Cache: o.Cache, Warm: o.Warm})
}

// Granted refuses a module that declares what the run does not grant.
func Granted(m *registry.Module, grants []string) error {
	var l diag.List
	for _, c := range m.Manifest.Capabilities {
		if !slices.Contains(grants, c) {
			l = append(l, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P009",
				Summary: fmt.Sprintf("plugin %q needs capability %q, which the run does not grant", m.Manifest.Name, c),
				Hint:    fmt.Sprintf("grant %q to it in the run's TOML, or use another plugin", c),
				Detail:  []string{"declared in " + origin(m), "granted: " + list(grants)}})
		}
	}
	return l.Err()
}

// negotiate asks the plugin what it is and compares that with its manifest.
func (p *Plugin) negotiate(ctx context.Context) error {
	var d wire.Description
	c := call{op: "describe", method: wire.MethodDescribe}
	if err := p.do(ctx, c, &wire.DescribeRequest{ABI: wire.ABI}, &d, func() error { return nil }); err != nil {
		return err
	}
	m := p.source.Manifest
	var l diag.List
	differs := func(what, says, manifest, hint string) {
		l = append(l, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P008",
			Summary: fmt.Sprintf("plugin %q is not what its manifest says: its %s %s, the manifest says %s", m.Name, what, says, manifest),
			Hint:    hint,
			Detail:  []string{"loaded from " + p.source.Ref + ", " + p.source.Digest}})
	}
	if d.ABI != int64(m.ABI) {
		differs("ABI is", fmt.Sprintf("skill_v%d", d.ABI), fmt.Sprintf("skill_v%d", m.ABI), "rebuild the plugin with the SDK of this build")
	}
	if d.Name != m.Name {
		differs("name is", fmt.Sprintf("%.80q", d.Name), fmt.Sprintf("%q", m.Name), "make Describe and plugin.toml agree")
	}
	if d.Version != m.Version {
		differs("version is", fmt.Sprintf("%.80q", d.Version), fmt.Sprintf("%q", m.Version), "make Describe and plugin.toml agree, and rebuild the plugin")
	}
	if has, want := sorted(d.Roles), sorted(m.Roles); !slices.Equal(has, want) {
		differs("roles are", fmt.Sprintf("%.80s", list(has)), list(want), "name in plugin.toml the roles whose methods the skill has")
	}
	return l.Err()
}

// Require says that skill, a table of the run's TOML, needs p to have role. at is
// the key that asks for it, such as a weight; its zero value is left out.
func (p *Plugin) Require(role, skill string, at diag.Source) error {
	return Require(&p.source, role, skill, at)
}

// Require is the same of a plugin that is not loaded.
func Require(source *registry.Module, role, skill string, at diag.Source) error {
	m := source.Manifest
	if slices.Contains(m.Roles, role) {
		return nil
	}
	as := map[string]string{"build": "a source of tasks", "evaluate": "a training skill", "judge": "a judge"}[role]
	offers := make([]string, len(m.Roles))
	for i, r := range m.Roles {
		offers[i] = fmt.Sprintf("%s/v%d", r, m.ABI)
	}
	d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P007",
		Summary: fmt.Sprintf("plugin %q cannot serve as %s", m.Name, as),
		Detail: []string{
			fmt.Sprintf("  needs capability  %s/v%d", role, wire.ABI),
			fmt.Sprintf("  plugin offers     %-16s (%s %s, %s)", strings.Join(offers, ", "), m.Name, m.Version, source.Ref),
		}}
	if at.File != "" {
		place := at.File
		if at.Line > 0 { // a flag has no lines
			place = fmt.Sprintf("%s:%d", at.File, at.Line)
		}
		d.Detail = append(d.Detail, strings.TrimRight(fmt.Sprintf("  required by       %-16s [%s] %s",
			place, skill, strings.TrimSpace(at.Text)), " "))
	} else {
		d.Detail = append(d.Detail, fmt.Sprintf("  required by       [%s]", skill))
	}
	return d
}

// Digest names the plugin's module by its content.
func (p *Plugin) Digest() string { return p.source.Digest }

// Manifest is what the plugin said of itself, and what it was found to be.
func (p *Plugin) Manifest() registry.Manifest { return p.source.Manifest }

// Ref is how the run calls the plugin's place.
func (p *Plugin) Ref() string { return p.source.Ref }

// String names the plugin in errors and logs: name and version.
func (p *Plugin) String() string { return p.source.Manifest.Name + " " + p.source.Manifest.Version }

// Transport is how the plugin is run: registry.WASM or registry.Process.
func (p *Plugin) Transport() string { return p.source.Transport }

// Close frees the plugin. Calls must have returned.
func (p *Plugin) Close() error { return p.module.Close() }

func origin(m *registry.Module) string {
	if strings.HasSuffix(m.Ref, ".wasm") {
		return "the manifest of " + m.Ref
	}
	return filepath.Join(m.Ref, registry.ManifestFile)
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func list(s []string) string {
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, ", ")
}
