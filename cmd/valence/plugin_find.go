package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/registry"
)

// findFlags are those of the verbs that look plugins up as a run would.
type findFlags struct {
	app    *app
	config *configFlags
	lock   string
}

// findFlags adds -c, --set, --locked and --lock to a verb.
func (a *app) findFlags(cmd *cobra.Command) *findFlags {
	f := &findFlags{app: a, config: a.configFlags(cmd)}
	cmd.Flags().StringVar(&f.lock, "lock", "", "the `file` with the pins (default: that of the configuration, or plugins.lock)")
	cmd.MarkFlagFilename("lock", "lock")
	return f
}

// options gives what the flags say, and the configuration, which is nil without -c.
func (f *findFlags) options() (o registry.Options, c *config.Config, err error) {
	o = registry.Options{Lock: registry.LockFile, Locked: f.config.locked, Log: f.app.logger()}
	if f.config.path != "" || len(f.config.sets) > 0 {
		if c, err = f.config.load(); err != nil {
			return o, nil, err
		}
		if o, err = run.Registry(c, run.Options{Locked: f.config.locked, Log: f.app.logger()}); err != nil {
			return o, nil, err
		}
	}
	if f.lock != "" {
		o.Lock = f.lock
	}
	return o, c, nil
}

// resolve finds the one plugin of a verb as the flags say, and gives the lock file too.
func (f *findFlags) resolve(ctx context.Context, ref, transport string) (m *registry.Module, lock string, err error) {
	o, _, err := f.options()
	if err != nil {
		return nil, "", err
	}
	o.Transport = transport
	m, err = registry.Resolve(ctx, ref, o)
	return m, o.Lock, err
}

// transportFlag adds --transport to a verb.
func transportFlag(cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().Var(&choice{to, []string{registry.WASM, registry.Process}}, "transport", usage)
}

// wanted is a plugin that a configuration names, and how it is to be run.
type wanted struct{ ref, transport string }

// wantedBy lists what a configuration names, each once.
func wantedBy(c *config.Config) (all []wanted) {
	seen := map[wanted]bool{}
	add := func(ref, transport string) {
		if w := (wanted{ref, transport}); ref != "" && !seen[w] {
			seen[w] = true
			all = append(all, w)
		}
	}
	for _, s := range c.Skills {
		add(s.Plugin, s.Transport)
		add(s.Judge, "")
	}
	for _, s := range c.Suites {
		add(s.Plugin, s.Transport)
		add(s.Judge, "")
	}
	return all
}
