package host

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk/wire"
)

// absent is what Python says last when it does not find a module.
var absent = regexp.MustCompile(`ModuleNotFoundError: No module named '([^']+)'\s*$`)

// parts are the modules that installing the Python SDK brings.
var parts = map[string]bool{"valence": true, "grpc": true, "cryptography": true}

// unstartable says what to do about a plugin that could not be opened.
func unstartable(m *registry.Module, err error) error {
	name, from := m.Manifest.Name, "loaded from "+m.Ref
	var f *transport.Failure
	if m.Transport != registry.Process || !errors.As(err, &f) {
		return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P013",
			Summary: fmt.Sprintf("plugin %q is not a skill module: %v", name, err),
			Hint:    fmt.Sprintf("build it for ABI skill_v%d", wire.ABI),
			Detail:  []string{from}}
	}
	if lacks := absent.FindStringSubmatch(f.Printed); lacks != nil && m.Manifest.Language == registry.Python {
		what, how := fmt.Sprintf("the module %q", lacks[1]), "its package"
		if parts[lacks[1]] {
			what, how = "the Python SDK", "CHECKOUT/sdk/python (CHECKOUT: Valence's sources)"
		}
		return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P011",
			Summary: fmt.Sprintf("plugin %q needs %s, which %s has not got", name, what, m.Command[0]),
			Hint:    fmt.Sprintf("%s -m pip install %s, or make a .venv in the plugin's folder that has it", m.Command[0], how),
			Detail:  []string{from}}
	}
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P013",
		Summary: fmt.Sprintf("plugin %q does not start: %v", name, f.Err),
		Hint:    "what it printed says why; by hand it should say that it is loaded by valence",
		Detail:  append([]string{from}, shown(f.Printed)...)}
}
