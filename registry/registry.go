// Package registry finds plugins: it turns what a run's TOML calls a plugin into a
// WASM module with its manifest and its digest. It reads, builds and caches, and
// never executes a plugin.
//
// A plugin is a folder with plugin.toml and Go sources, built on demand and cached
// by content, or a .wasm file that carries its manifest or has plugin.toml beside it.
//
// # Diagnostics
//
//	P001  no plugin at that place           P007  lacks a role that the run needs (host)
//	P002  plugin.toml is not TOML           P008  is not what its manifest says (host)
//	P003  unknown key                       P009  capability not granted (host)
//	P004  value of the wrong type           P010  does not compile
//	P005  key missing                       P011  no Go tool chain
//	P006  value not allowed                 P012  no remote registry in this build
//	                                        P013  not a skill module, or another ABI
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Options says where to look and where to keep. The zero Options is usable.
type Options struct {
	// Dir is the folder that relative references start from; "" is the working
	// directory.
	Dir string
	// Cache keeps built modules, shared by processes; "" is [DefaultCache].
	Cache string
	// Go is the go command; "" looks it up in PATH.
	Go string
	// Transport is how the plugin is to be run, WASM or Process; "" is as its
	// manifest says.
	Transport string
	// Log hears of builds, which take seconds; nil is silent.
	Log *slog.Logger
}

// DefaultCache is where modules are kept when Options name no place:
// valence/plugins in the user's cache folder, or in the temporary folder if there
// is none.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "valence", "plugins")
}

// Module is a resolved plugin.
type Module struct {
	Manifest  Manifest
	Transport string   // WASM or Process
	Wasm      []byte   // the module, for WASM
	Command   []string // program, absolute, and arguments, for Process
	Digest    string   // "sha256:" and the hexadecimal digest of the module, of the program, or of a script's folder
	Ref       string   // as it was asked for
	Path      string   // the .wasm file that Wasm was read from, or the program
	Signer    string   // whose signature holds, by the trust list; "" for none
}

// Digest names b by its content.
func Digest(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

// remote is how name@version and OCI references look.
var remote = regexp.MustCompile(`^(oci://.+|[a-z0-9][a-z0-9._/:-]*@[A-Za-z0-9.:+_-]+)$`)

// Resolve gives the plugin that ref names: a folder or a .wasm file. A folder is
// compiled if the cache does not hold the module of exactly these sources, which
// takes seconds; else it takes some tens of milliseconds. Concurrent calls, also
// of several processes, build once. Errors are diagnostics of kind plugin.
func Resolve(ctx context.Context, ref string, o Options) (*Module, error) {
	path := ref
	if o.Dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && remote.MatchString(ref):
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P012",
			Summary: "plugin " + quote(ref) + " is in a remote registry, which this build cannot reach",
			Hint:    "fetch it, and name its folder or its .wasm file"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001",
			Summary: "no plugin at " + quote(ref),
			Hint:    "a plugin is a folder with plugin.toml, or a .wasm file",
			Detail:  absolute(path, ref)}
	case err != nil:
		return nil, diag.Wrap(diag.KindPlugin, "resolve plugin", ref, err)
	}
	var m *Module
	if info.IsDir() {
		m, err = fromFolder(ctx, path, ref, o)
	} else {
		m, err = fromFile(path, ref, o)
	}
	switch {
	case ctx.Err() != nil:
		return nil, diag.Wrap(diag.KindInterrupted, "resolve plugin", ref, context.Cause(ctx))
	case diag.KindOf(err) != diag.KindUnknown:
		return nil, err // a diagnostic says it all
	case err != nil:
		return nil, diag.Wrap(diag.KindPlugin, "resolve plugin", ref, err)
	}
	m.Ref = ref
	return m, nil
}

// fromFile reads a module and its manifest: the one that it carries, which its
// digest covers, or plugin.toml beside it.
func fromFile(path, ref string, o Options) (*Module, error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, found, err := Section(code, ManifestSection)
	if err != nil {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P013",
			Summary: quote(ref) + " is not a WASM module: " + err.Error(),
			Hint:    "name a folder with plugin.toml, or a .wasm file"}
	}
	name := ref + " (its section " + ManifestSection + ")"
	if !found {
		name = filepath.Join(filepath.Dir(ref), ManifestFile)
		text, err = os.ReadFile(filepath.Join(filepath.Dir(path), ManifestFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001",
				Summary: quote(ref) + " carries no manifest, and there is no " + name,
				Hint:    "put " + ManifestFile + " beside it"}
		} else if err != nil {
			return nil, err
		}
	}
	m, err := ParseManifest(name, text)
	if err != nil {
		return nil, err
	}
	if o.Transport == Process {
		return nil, onlyWASM(ref)
	}
	return &Module{Manifest: *m, Transport: WASM, Wasm: code, Digest: Digest(code), Path: path}, nil
}

// onlyWASM refuses to make a process of a module.
func onlyWASM(ref string) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P014",
		Summary: "plugin " + quote(ref) + " cannot run as a process: it is a module",
		Hint:    "leave transport out, or name the folder of its sources"}
}

func quote(s string) string { return `"` + s + `"` }

// absolute says where a relative reference led.
func absolute(path, ref string) []string {
	if abs, err := filepath.Abs(path); err == nil && abs != ref && !strings.HasPrefix(ref, "/") {
		return []string{"looked for " + abs}
	}
	return nil
}
