package registry

import (
	"github.com/valence-rl/valence/core/diag"
)

// Peek gives what is known of the plugin that ref names without compiling or fetching
// it: its manifest and Ref. It is nil for a plugin in a registry. Errors are
// diagnostics of kind plugin.
func Peek(ref string, o Options) (*Module, error) {
	r, err := understand(ref, o)
	if err != nil || r.path == "" {
		return nil, err
	}
	m := new(Module)
	if r.folder {
		var manifest *Manifest
		if manifest, err = ReadManifest(r.path, ref); err == nil {
			m.Manifest = *manifest
		}
	} else {
		m, err = fromFile(r.path, ref, o)
	}
	if err != nil {
		if diag.KindOf(err) == diag.KindUnknown {
			err = diag.Wrap(diag.KindPlugin, "read plugin", ref, err)
		}
		return nil, err
	}
	m.Ref = ref
	return m, nil
}
