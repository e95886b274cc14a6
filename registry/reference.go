package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry/oci"
)

// scheme starts a reference to an OCI registry.
const scheme = "oci://"

// reference is what a run's TOML calls a plugin, understood.
type reference struct {
	ref     string // as it was asked for
	path    string // of a folder or a file; "" for what is in a registry
	folder  bool
	address string // in a registry: host/repository:tag or host/repository@sha256:…
	name    string // that name@version promises, or ""
	version string
}

var pinnedForm = regexp.MustCompile(`^([^@]*)@([^@]*)$`)

// understand finds out what ref means. A folder or a file of that name goes first.
func understand(ref string, o Options) (*reference, error) {
	fail := func(summary, hint string, detail ...string) (*reference, error) {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001", Summary: summary, Hint: hint, Detail: detail}
	}
	if address, ok := strings.CutPrefix(ref, scheme); ok {
		if err := oci.Check(address); err != nil {
			return fail(quote(ref)+" is no reference to a registry: "+err.Error(), "like oci://host/repository:tag or oci://host/repository@sha256:…")
		}
		return &reference{ref: ref, address: address}, nil
	}
	path := ref
	if o.Dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	info, err := os.Stat(path)
	if err == nil {
		return &reference{ref: ref, path: path, folder: info.IsDir()}, nil
	}
	m := pinnedForm.FindStringSubmatch(ref)
	switch {
	case m != nil && nameForm.MatchString(m[1]) && versionForm.MatchString(m[2]):
		return named(ref, m[1], m[2], o)
	case m != nil && !strings.HasPrefix(ref, ".") && !strings.HasPrefix(ref, "/"):
		hint := "want name@version, with a version like 0.1.0"
		if oci.Check(ref) == nil {
			hint = "did you mean " + quote(scheme+ref) + "?"
		}
		return fail("no plugin at "+quote(ref), hint)
	case errors.Is(err, fs.ErrNotExist):
		return fail("no plugin at "+quote(ref), "a plugin is a folder with plugin.toml, a .wasm file, name@version, or oci://…", absolute(path, ref)...)
	}
	return nil, diag.Wrap(diag.KindPlugin, "resolve plugin", ref, err)
}

// named finds a version of a plugin in the run's repository.
func named(ref, name, version string, o Options) (*reference, error) {
	fail := func(summary, hint string) (*reference, error) {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P012", Summary: summary, Hint: hint}
	}
	if o.Repository == "" {
		return fail("plugin "+quote(ref)+" is looked up in a registry, and the run names none",
			`set [registry] repository = "host/path", or say oci://host/path/`+name+":"+tag(version))
	}
	address := strings.TrimPrefix(o.Repository, scheme) + "/" + name + ":" + tag(version)
	if err := oci.Check(address); err != nil {
		return fail("[registry] repository "+quote(o.Repository)+" leads to no registry: "+err.Error(), "like ghcr.io/acme/skills")
	}
	return &reference{ref: ref, address: address, name: name, version: version}, nil
}

// tag is a version as a tag: tags have no +.
func tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// pinned is how the reference stands in plugins.lock: one spelling for one path.
func (r *reference) pinned() string {
	if r.path == "" {
		return r.ref
	}
	return filepath.ToSlash(filepath.Clean(r.ref))
}

// cause is an error's own text, without the path that the message names already.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
