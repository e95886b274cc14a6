package run

import (
	"context"
	"errors"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/registry"
)

// Check says all that is wrong with the plugins of a configuration and can be found
// out without running them: places, manifests, roles, capabilities and settings. Those
// that are in a registry are looked at only if o.Locked, and with it every plugin is
// compared with its pin, for which it is compiled. Errors come all at once, joined.
func Check(ctx context.Context, c *config.Config, o registry.Options) error {
	var all []error
	wrong := func(err error) {
		if err != nil {
			all = append(all, err)
		}
	}
	for _, p := range parts(c) {
		look := func(ref, transport string) *registry.Module {
			o.Transport = transport
			var m *registry.Module
			var err error
			if o.Locked {
				m, err = registry.Resolve(ctx, ref, o)
			} else {
				m, err = registry.Peek(ref, o)
			}
			wrong(err)
			return m
		}
		if m := look(p.plugin, p.transport); m != nil {
			for _, role := range []string{"build", "evaluate"} {
				wrong(host.Require(m, role, p.key(), c.Where(p.key()+".weight")))
			}
			if p.grants != nil {
				wrong(host.Granted(m, p.grants))
			}
			_, err := settle(m.Manifest, p.config, p.key()+".config", c)
			wrong(err)
		}
		if p.judge == "" {
			continue
		}
		if m := look(p.judge, ""); m != nil {
			wrong(host.Require(m, "judge", p.key(), c.Where(p.key()+".judge")))
			_, err := settle(m.Manifest, p.judgeConfig, p.key()+".judge_config", c)
			wrong(err)
		}
	}
	return errors.Join(all...)
}
