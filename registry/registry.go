// Package registry finds plugins: it turns what a run's TOML calls a plugin into
// something that a host can run, with its manifest and its digest. It reads, builds,
// fetches, checks and caches, and never executes a plugin.
//
// A plugin is a folder with plugin.toml and sources, built on demand and cached by
// content; a .wasm file that carries its manifest or has plugin.toml beside it; or a
// module in an OCI registry, called name@version or oci://host/repository:tag. A lock
// file pins references to digests, and signatures say whose modules they are.
//
// # Diagnostics
//
//	P001  no plugin at that place           P014  cannot have that transport
//	P002  not TOML                          P015  setting that the plugin does not take
//	P003  unknown key                       P016  not pinned, with --locked
//	P004  value of the wrong type           P017  another digest than the pinned one
//	P005  key missing                       P018  not signed
//	P006  value not allowed                 P019  signed by nobody who is trusted
//	P007  lacks a role (host)               P020  signature does not hold
//	P008  not as its manifest says (host)   P021  changed in the cache or the registry
//	P009  capability not granted (host)     P022  not a plugin, or another plugin
//	P010  does not compile                  P023  key cannot be read
//	P011  no tool chain                     P024  the registry wants other credentials
//	P012  not in a registry, or no answer   P025  another plugin is there already
//	P013  not a skill module, or another ABI
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
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry/oci"
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
	// Repository is where name@version is looked up: an OCI repository prefix such
	// as ghcr.io/acme/skills. "" refuses such names.
	Repository string
	// Lock is the file with the pins, which hold where there are any; "" means none.
	Lock string
	// Locked refuses what Lock does not pin.
	Locked bool
	// Trust lists whose signatures count. With anybody in it, a module from a
	// registry must be signed by one of them.
	Trust []Signer
	// Log hears of what takes seconds, builds and downloads, and of what a person
	// may want to know; nil is silent.
	Log *slog.Logger

	client oci.Client
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
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
	Transport string      // WASM or Process
	Wasm      []byte      // the module, for WASM
	Command   []string    // program, absolute, and arguments, for Process
	Digest    string      // "sha256:" and the hexadecimal digest of the module, of the program, or of a script's folder
	Ref       string      // as it was asked for
	Path      string      // the .wasm file that Wasm was read from, or the program
	Signer    string      // whose signature holds, by the trust list; "" for none
	Keys      []PublicKey // whose signatures hold, trusted or not

	Pinned bool // the lock file has this digest

	pinned string // what a lock file calls it
}

// Digest names b by its content.
func Digest(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

// Resolve gives the plugin that ref names: a folder, a .wasm file, name@version, or
// oci://host/repository:tag. A folder is compiled if the cache does not hold what
// exactly these sources become, which takes seconds; else it takes some tens of
// milliseconds. What is in a registry is fetched, unless it is in the cache and
// pinned or named by a digest; a registry that does not answer leaves what the cache
// has. Concurrent calls, also of several processes, build once. Errors are
// diagnostics of kind plugin.
func Resolve(ctx context.Context, ref string, o Options) (*Module, error) {
	m, err := find(ctx, ref, o)
	switch {
	case err == nil:
		m.Ref = ref
		return m, nil
	case ctx.Err() != nil:
		return nil, diag.Wrap(diag.KindInterrupted, "resolve plugin", ref, context.Cause(ctx))
	case diag.KindOf(err) != diag.KindUnknown:
		return nil, err // a diagnostic says it all
	}
	return nil, diag.Wrap(diag.KindPlugin, "resolve plugin", ref, err)
}

func find(ctx context.Context, ref string, o Options) (m *Module, err error) {
	r, err := understand(ref, o)
	if err != nil {
		return nil, err
	}
	var pins Pins
	if o.Lock != "" {
		if pins, err = ReadPins(o.Lock); err != nil {
			return nil, err
		}
	}
	if r.path == "" {
		pin, ok := pins.Find(r.pinned(), WASM)
		switch {
		case ok:
			m, err = fromRegistry(ctx, r, &pin, o)
		case o.Locked:
			return nil, unpinned(ref, o.Lock)
		default:
			m, err = fromRegistry(ctx, r, nil, o)
		}
	} else if r.folder {
		m, err = fromFolder(ctx, r.path, ref, o)
	} else {
		m, err = fromFile(r.path, ref, o)
	}
	if err != nil {
		return nil, err
	}
	m.pinned = r.pinned()
	pin, ok := pins.Find(m.pinned, m.Transport)
	if !ok && o.Locked {
		return nil, unpinned(ref, o.Lock)
	}
	if ok {
		err = pin.holds(ref, m.Digest)
	}
	m.Pinned = ok
	return m, err
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
		return nil, notAModule(ref, err)
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

// Save writes the module to a file, which appears whole.
func (m *Module) Save(path string) error { return replace(path, m.Wasm, 0o644) }
