package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry/oci"
)

// fromRegistry gets a module from an OCI registry, or from the cache where the bytes
// are known beforehand or the registry does not answer.
func fromRegistry(ctx context.Context, r *reference, pin *Pin, o Options) (*Module, error) {
	if o.Transport == Process {
		return nil, onlyWASM(r.ref)
	}
	cache := o.cache()
	cached := cache.recall(r.address, pin)
	known := cached != nil
	if known && (pin != nil || strings.Contains(r.address, "@")) {
		if code, err := cache.get(cached.Module); err == nil {
			return r.accept(cached, code, o)
		}
	}
	found, err := o.client.Find(ctx, r.address)
	var e *oci.Error
	if errors.As(err, &e) && e.Reason == oci.Unreachable && known {
		code, missing := cache.get(cached.Module)
		if errors.Is(missing, errChanged) {
			return nil, changed(r.ref, "the cache", "try again when the registry can be reached, or remove the file", "want "+cached.Module, "file "+cache.blob(cached.Module))
		}
		if missing == nil {
			o.log().Warn("the registry cannot be reached; using the plugin in the cache", "ref", r.ref, "digest", cached.Module, "cause", e.Err)
			return r.accept(cached, code, o)
		}
	}
	if err != nil {
		err = r.explain(err)
		var d *diag.Diagnostic
		if errors.As(err, &d) && e.Reason == oci.Unreachable {
			d.Detail = append(d.Detail, "nor is it in the cache, where everything stays that was fetched once")
		}
		return nil, err
	}
	if pin != nil {
		if err := pin.holds(r.ref, found.Module); err != nil {
			return nil, err
		}
	}
	code, err := cache.get(found.Module)
	if errors.Is(err, errChanged) {
		o.log().Warn("a plugin in the cache has changed; fetching it again", "ref", r.ref, "digest", found.Module)
	}
	if err != nil {
		o.log().Info("fetching plugin", "ref", r.ref, "bytes", found.Size, "digest", found.Module)
		if code, err = found.Fetch(ctx); err != nil {
			return nil, r.explain(err)
		}
	}
	m, err := r.accept(found, code, o)
	if err != nil {
		return nil, err
	}
	return m, cache.remember(r.address, found, code)
}

// accept checks a module that has the digest it is known by: what it is, that it is
// the one that was asked for, and who signed it.
func (r *reference) accept(f *oci.Found, code []byte, o Options) (*Module, error) {
	text, found, err := Section(code, ManifestSection)
	if err != nil {
		return nil, notAModule(r.ref, err)
	}
	if !found {
		return nil, anotherPlugin(r.ref, "it carries no manifest", "it was not pushed by `valence plugin push`")
	}
	manifest, err := ParseManifest(r.ref+" (its section "+ManifestSection+")", text)
	if err != nil {
		return nil, err
	}
	if r.name != "" && (manifest.Name != r.name || manifest.Version != r.version) {
		return nil, anotherPlugin(r.ref, "it is "+manifest.Name+" "+manifest.Version, "ask its publisher", "from "+r.address)
	}
	m := &Module{Manifest: *manifest, Transport: WASM, Wasm: code, Digest: f.Module, Path: o.cache().blob(f.Module)}
	m.Signer, m.Keys, err = check(r.ref, f.Module, strings.Fields(f.Notes[oci.SignatureNote]), o.Trust)
	return m, err
}

// explain makes a diagnostic of a registry's failure.
func (r *reference) explain(err error) error {
	var e *oci.Error
	if !errors.As(err, &e) {
		return err
	}
	d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P012", Detail: []string{"from " + r.address, e.Err.Error()}}
	host, _, _ := strings.Cut(r.address, "/")
	switch e.Reason {
	case oci.Unreachable:
		d.Summary = "the registry of " + quote(r.ref) + " cannot be reached"
		d.Hint = "try again when " + host + " answers"
	case oci.Absent:
		d.Summary = "plugin " + quote(r.ref) + " is not in its registry"
		d.Hint = "look for the name and the version that were pushed"
	case oci.Denied:
		d.Code, d.Summary = "P024", "the registry does not let you at "+quote(r.ref)
		d.Hint = "log in: docker login " + host
	case oci.Foreign:
		return anotherPlugin(r.ref, e.Err.Error(), "name what `valence plugin push` has pushed", "from "+r.address)
	case oci.Changed:
		return changed(r.ref, "the registry", "ask who runs "+host, e.Err.Error())
	default:
		d.Summary = "the registry refuses " + quote(r.ref)
	}
	return d
}

// changed refuses bytes that are not those that a digest names.
func changed(ref, where, hint string, detail ...string) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P021", Summary: "plugin " + quote(ref) + " has been changed in " + where, Hint: hint, Detail: detail}
}

// anotherPlugin refuses what is in a registry and is not the plugin that was wanted.
func anotherPlugin(ref, why, hint string, detail ...string) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P022", Summary: "what " + quote(ref) + " leads to is not that plugin: " + why, Hint: hint, Detail: detail}
}

// notAModule refuses bytes that no WASM module begins with.
func notAModule(ref string, err error) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P013",
		Summary: quote(ref) + " is not a WASM module: " + err.Error(),
		Hint:    "name a folder with plugin.toml, or a .wasm file"}
}

// remember stores a module and what the registry said of it, that the address led
// there, and that the module came so.
func (c cache) remember(address string, f *oci.Found, code []byte) error {
	for _, b := range [][]byte{code, f.Raw} {
		if _, err := c.put(b, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(c.note("refs", refName(address), []byte(f.Digest)), c.note("refs", refName(pinnedAddress(address, f.Module)), []byte(f.Digest)))
}

// pinnedAddress stands for a module at an address, wherever the address leads by now.
func pinnedAddress(address, module string) string { return address + " " + module }

// recall gives what the registry last said of an address, or, with a pin, of the
// pinned module there; nil if it said nothing.
func (c cache) recall(address string, pin *Pin) *oci.Found {
	_, artifact, immutable := strings.Cut(address, "@")
	if !immutable {
		if pin != nil {
			address = pinnedAddress(address, pin.Digest)
		}
		text, err := c.noted("refs", refName(address))
		if err != nil {
			return nil
		}
		artifact = string(text)
	}
	raw, err := c.get(artifact)
	if err != nil {
		return nil
	}
	f, err := oci.Open(raw)
	if err != nil || pin != nil && f.Module != pin.Digest {
		return nil
	}
	return f
}

func refName(address string) string {
	h := sha256.Sum256([]byte(address))
	return hex.EncodeToString(h[:])
}

// Pushed is what [Push] did.
type Pushed struct {
	Module   *Module
	Address  string // with oci://
	Artifact string // digest of the artifact: Address up to the tag, with @ and this, names it for ever
	Replaced bool   // another module was there
}

// Push puts a plugin into an OCI registry. to is oci://host/repository:tag; "" means
// the name and the version of the plugin in the repository of o. With a key, the
// module is signed; signatures of the same module that are there already are kept. A
// tag that has another module is left alone, unless force is set. Errors are
// diagnostics of kind plugin.
func Push(ctx context.Context, ref, to string, key *PrivateKey, force bool, o Options) (*Pushed, error) {
	m, err := toPush(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	r, err := destination(m, to, o)
	if err != nil {
		return nil, err
	}
	text, _, err := Section(m.Wasm, ManifestSection)
	if err != nil {
		return nil, err
	}
	var signatures []Signature
	out := &Pushed{Module: m, Address: scheme + r.address}
	existing, err := o.client.Find(ctx, r.address)
	var e *oci.Error
	switch {
	case err == nil && existing.Module == m.Digest:
		for _, text := range strings.Fields(existing.Notes[oci.SignatureNote]) {
			if s, err := parseSignature(text); err == nil && s.holds(m.Digest) {
				signatures = append(signatures, s)
			}
		}
	case err == nil, errors.As(err, &e) && e.Reason == oci.Foreign:
		if !force {
			d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P025", Summary: "there is another plugin at " + quote(r.ref) + " already",
				Hint: "raise the version in " + ManifestFile + ", or push with --force", Detail: []string{"to push  " + m.Digest}}
			if err == nil {
				d.Detail = append(d.Detail, "there    "+existing.Module)
			}
			return nil, d
		}
		out.Replaced = true
	case e == nil || e.Reason != oci.Absent:
		return nil, r.explain(err)
	}
	if key != nil {
		if s := key.Sign(m.Digest); !slices.Contains(signatures, s) {
			signatures = append(signatures, s)
		}
	}
	var texts []string
	m.Keys = nil
	for _, s := range signatures {
		m.Keys = append(m.Keys, s.Key)
		texts = append(texts, s.String())
	}
	notes := map[string]string{
		oci.PluginNote:                         string(text),
		oci.SignatureNote:                      strings.Join(texts, " "),
		"org.opencontainers.image.title":       m.Manifest.Name,
		"org.opencontainers.image.version":     m.Manifest.Version,
		"org.opencontainers.image.description": m.Manifest.Description,
		"org.opencontainers.image.licenses":    m.Manifest.Licence,
		"org.opencontainers.image.source":      m.Manifest.Source,
	}
	for k, v := range notes {
		if v == "" {
			delete(notes, k)
		}
	}
	out.Artifact, err = o.client.Push(ctx, r.address, &oci.Artifact{Module: m.Wasm, Notes: notes})
	if err != nil {
		return nil, r.explain(err)
	}
	return out, nil
}

// toPush is the module that a reference stands for, with its manifest inside.
func toPush(ctx context.Context, ref string, o Options) (*Module, error) {
	o.Transport = WASM
	m, err := Resolve(ctx, ref, o)
	if err != nil {
		var d *diag.Diagnostic
		if errors.As(err, &d) && d.Code == "P014" {
			d.Hint = "a registry keeps modules; share the folder of this one instead"
		}
		return nil, err
	}
	if _, found, err := Section(m.Wasm, ManifestSection); found || err != nil {
		return m, err
	}
	_, text, err := readManifest(filepath.Dir(m.Path), filepath.Dir(ref))
	if err != nil {
		return nil, err
	}
	m.Wasm = WithSection(m.Wasm, ManifestSection, text)
	m.Digest = Digest(m.Wasm)
	return m, nil
}

// destination is where a module is pushed to.
func destination(m *Module, to string, o Options) (*reference, error) {
	if to == "" {
		return named(m.Manifest.Name+"@"+m.Manifest.Version, m.Manifest.Name, m.Manifest.Version, o)
	}
	if !strings.HasPrefix(to, scheme) || strings.Contains(to, "@") {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001", Summary: "a plugin cannot be pushed to " + quote(to),
			Hint: "want oci://host/repository:tag"}
	}
	return understand(to, o)
}
