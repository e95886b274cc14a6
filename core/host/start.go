package host

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/valence-rl/valence/core/checkout"
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
		python := m.Command[0]
		what, first, pack := fmt.Sprintf("the module %q", lacks[1]), "", "PACKAGE"
		if parts[lacks[1]] {
			what, pack = "the Python SDK", cmp.Or(checkout.Python(checkout.Find()), "CHECKOUT/sdk/python (CHECKOUT: Valence's sources)")
		}
		if python != filepath.Join(filepath.Dir(m.Path), ".venv", "bin", "python3") {
			first = "python3 -m venv .venv && "
		}
		return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P011",
			Summary: fmt.Sprintf("plugin %q needs %s, which %s has not got", name, what, python),
			Hint:    fmt.Sprintf("in the plugin's folder: %s.venv/bin/pip install %s", first, pack),
			Detail:  []string{from}}
	}
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P013",
		Summary: fmt.Sprintf("plugin %q does not start: %v", name, f.Err),
		Hint:    "what it printed says why; by hand it should say that it is loaded by valence",
		Detail:  append([]string{from}, shown(f.Printed)...)}
}
