package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// folder is a plugin as its author has it.
type folder struct {
	dir      string // absolute
	ref      string // as it was asked for
	manifest *Manifest
	text     []byte // of the manifest, which the outcome is to carry
}

// fromFolder builds a folder, as far as the cache does not have it.
func fromFolder(ctx context.Context, dir, ref string, o Options) (*Module, error) {
	f := &folder{ref: ref}
	var err error
	if f.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if f.manifest, f.text, err = readManifest(dir, ref); err != nil {
		return nil, err
	}
	transport, err := f.manifest.carrier(o.Transport, ref)
	if err != nil {
		return nil, err
	}
	var c compiler
	switch f.manifest.Language {
	case Python:
		return f.script()
	case Go:
		c, err = f.goCompiler(transport, o.Go)
	default:
		c, err = f.foreignCompiler()
	}
	if err != nil {
		return nil, err
	}
	code, err := f.built(ctx, c, transport, o)
	if err != nil {
		return nil, err
	}
	m := &Module{Manifest: *f.manifest, Transport: transport}
	if m.Path, err = filepath.Abs(o.cache().blob(Digest(code))); err != nil {
		return nil, err
	}
	if transport == Process {
		m.Command, m.Digest = []string{m.Path}, Digest(slices.Concat(code, f.text))
	} else {
		m.Wasm, m.Digest = code, Digest(code)
	}
	return m, nil
}

// built gives what the compiler makes of the folder, from the cache if it is there.
func (f *folder) built(ctx context.Context, c compiler, transport string, o Options) ([]byte, error) {
	key, err := c.key(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	cache := o.cache()
	find := func() ([]byte, error) {
		digest, err := cache.noted("builds", key)
		if err != nil {
			return nil, err
		}
		return cache.get(string(digest))
	}
	code, err := find()
	if err == nil {
		return code, nil
	}
	unlock, err := cache.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	code, err = find()
	switch {
	case err == nil:
		return code, nil // somebody else built it meanwhile
	case errors.Is(err, errChanged):
		o.log().Warn("a built plugin in the cache has changed; building it again", "plugin", f.manifest.Name, "from", f.ref)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	o.log().Info("building plugin", "plugin", f.manifest.Name, "version", f.manifest.Version, "from", f.ref)
	tmp := filepath.Join(string(cache), "tmp", key)
	// What a killed builder of this key left is in the way.
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if code, err = c.compile(ctx, tmp); err != nil {
		return nil, c.explain(err)
	}
	mode := fs.FileMode(0o755)
	if transport == WASM {
		code, mode = WithSection(code, ManifestSection, f.text), 0o644
	}
	digest, err := cache.put(code, mode)
	if err != nil {
		return nil, err
	}
	return code, cache.note("builds", key, []byte(digest))
}

// carrier is the transport that the plugin will have when one is asked for, or ""
// for the author's choice.
func (m *Manifest) carrier(asked, ref string) (string, error) {
	can := languages[m.Language].transports
	switch {
	case asked == "":
		return m.Transport, nil
	case slices.Contains(can, asked):
		return asked, nil
	}
	return "", &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P014",
		Summary: fmt.Sprintf("plugin %q cannot run as %s: its sources are %s", ref, asked, m.Language),
		Hint:    fmt.Sprintf("leave transport out, or set transport = %q", can[0])}
}
