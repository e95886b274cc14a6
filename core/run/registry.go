package run

import (
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// Registry is how the plugins of a configuration are found: its [registry] and
// [trust.…] sections, and what the command line adds. The error is a diagnostic that
// points to a key that is none.
func Registry(cfg *config.Config, o Options) (registry.Options, error) {
	r := registry.Options{Cache: o.CacheDir, Repository: cfg.Registry.Repository, Lock: cfg.Registry.Lock, Locked: o.Locked, Log: o.Log}
	var wrong diag.List
	for _, t := range cfg.Trust {
		key, err := registry.ParsePublicKey(t.Key)
		if err != nil {
			wrong = append(wrong, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C046", Summary: "trust." + t.Name + ".key is not a public key: " + err.Error(),
				Source: cfg.Where("trust." + t.Name + ".key"), Hint: "copy the line that `valence plugin keygen` printed"})
			continue
		}
		r.Trust = append(r.Trust, registry.Signer{Name: t.Name, Key: key})
	}
	return r, wrong.Err()
}
