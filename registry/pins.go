package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// LockFile is what the file with the pins is called where nobody says otherwise.
const LockFile = "plugins.lock"

// Pin says which bytes a reference stands for. See the toml tags for the keys of a
// [[plugin]] in plugins.lock.
type Pin struct {
	Ref       string `toml:"ref"`       // as the run's TOML has it
	Name      string `toml:"name"`      // by the manifest
	Version   string `toml:"version"`   // by the manifest
	Transport string `toml:"transport"` // wasm (default) or process: the two have different bytes
	Digest    string `toml:"digest"`    // of the module, the program, or the script's folder
	Signer    string `toml:"signer"`    // whose signature held when it was pinned, or absent

	at diag.Source
}

// Pins are a lock file's content, in the order of their references.
type Pins []Pin

var pinKeys = []string{"ref", "name", "version", "transport", "digest", "signer"}

// ReadPins reads a lock file; there are no pins where there is no file. Errors are
// diagnostics of kind plugin.
func ReadPins(path string) (Pins, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindPlugin, "read pins", path, err)
	}
	return ParsePins(path, text)
}

// ParsePins decodes and checks a lock file. file names it in the diagnostics, all of
// which come at once, as a [diag.List] in source order.
func ParsePins(file string, text []byte) (Pins, error) {
	d := &document{file: file, text: text, accepts: func(path []string) []string {
		switch len(path) {
		case 0:
			return []string{"plugin"}
		case 2:
			return pinKeys
		}
		return nil
	}}
	var content struct {
		Plugin Pins `toml:"plugin"`
	}
	if d.decode(&content) {
		for i := range content.Plugin {
			d.pin(content.Plugin, i)
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return content.Plugin.sorted(), nil
}

// pin checks one [[plugin]] and fills in what is not said.
func (d *document) pin(all Pins, i int) {
	p := &all[i]
	path := fmt.Sprintf("plugin.%d", i)
	if at := d.where(path); at != nil {
		p.at = at[0]
	} else if at := d.where("plugin"); i+1 < len(at) { // written inline
		p.at = at[i+1]
	}
	for _, k := range []struct {
		key, value, example string
		fine                bool
	}{
		{"ref", p.Ref, `ref = "name@0.1.0"`, printable(p.Ref)},
		{"name", p.Name, `name = "my-skill"`, nameForm.MatchString(p.Name)},
		{"version", p.Version, `version = "0.1.0"`, versionForm.MatchString(p.Version)},
		{"transport", p.Transport, "", p.Transport == WASM || p.Transport == Process},
		{"digest", p.Digest, `digest = "sha256:…"`, digestForm.MatchString(p.Digest)},
		{"signer", p.Signer, "", printable(p.Signer)},
	} {
		at := d.where(path + "." + k.key)
		switch {
		case at == nil && k.example != "":
			d.missing(path+"."+k.key, p.at, k.example)
		case at != nil && !k.fine:
			d.add("P006", k.key+" "+quote(k.value)+" is not one", at[0], "pin it again: valence plugin add")
		}
	}
	p.Transport = cmp.Or(p.Transport, WASM)
	for _, other := range all[:i] {
		if other.Ref == p.Ref && other.Transport == p.Transport {
			d.add("P006", "plugin "+quote(p.Ref)+" is pinned twice", p.at, "keep one")
			break
		}
	}
}

// printable tells whether a text is there and can be shown on one line.
func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// Find gives the pin of a reference that is carried by a transport.
func (p Pins) Find(ref, transport string) (Pin, bool) {
	i := slices.IndexFunc(p, func(x Pin) bool { return x.Ref == ref && x.Transport == transport })
	if i < 0 {
		return Pin{}, false
	}
	return p[i], true
}

// with replaces the pin of the same reference and transport, or adds it.
func (p Pins) with(x Pin) Pins {
	kept := slices.DeleteFunc(slices.Clone(p), func(y Pin) bool { return y.Ref == x.Ref && y.Transport == x.Transport })
	return append(kept, x).sorted()
}

func (p Pins) sorted() Pins {
	slices.SortFunc(p, func(a, b Pin) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), strings.Compare(a.Transport, b.Transport))
	})
	return p
}

// Text is the lock file with these pins.
func (p Pins) Text() []byte {
	var b bytes.Buffer
	b.WriteString("# The plugins of a run, pinned by digest. Written by `valence plugin add`.\n")
	for _, x := range p {
		b.WriteString("\n[[plugin]]\n")
		for _, kv := range [][2]string{{"ref", x.Ref}, {"name", x.Name}, {"version", x.Version}, {"transport", x.Transport}, {"digest", x.Digest}, {"signer", x.Signer}} {
			if kv[1] != "" {
				fmt.Fprintf(&b, "%s = %s\n", kv[0], tomlText(kv[1]))
			}
		}
	}
	return b.Bytes()
}

// tomlText is a printable text as a basic string: the escapes of JSON are TOML's too.
func tomlText(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// Pinned tells what [Options.Pin] did with one module.
type Pinned struct {
	Pin
	Before string // the digest that was pinned until now, or ""
}

// Pin writes modules into the lock file of o, which appears with all of them or stays
// as it was. Other processes that pin wait.
func (o Options) Pin(ctx context.Context, modules ...*Module) ([]Pinned, error) {
	path, err := filepath.Abs(o.Lock)
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256([]byte(path))
	unlock, err := o.cache().lock(ctx, "pins-"+hex.EncodeToString(name[:8]))
	if err != nil {
		return nil, diag.Wrap(diag.KindPlugin, "pin plugins", o.Lock, err)
	}
	defer unlock()
	pins, err := ReadPins(o.Lock)
	if err != nil {
		return nil, err
	}
	var out []Pinned
	for _, m := range modules {
		x := Pin{Ref: m.pinned, Name: m.Manifest.Name, Version: m.Manifest.Version, Transport: m.Transport, Digest: m.Digest, Signer: m.Signer}
		if !printable(x.Ref) {
			return nil, diag.Errorf(diag.KindPlugin, "pin plugins", fmt.Sprintf("%q", x.Ref), "a reference with control characters cannot be pinned")
		}
		before, _ := pins.Find(x.Ref, x.Transport)
		out = append(out, Pinned{Pin: x, Before: before.Digest})
		pins = pins.with(x)
	}
	return out, diag.Wrap(diag.KindPlugin, "pin plugins", o.Lock, replace(o.Lock, pins.Text(), 0o644))
}

// unpinned refuses a plugin that --locked has nothing to hold against.
func unpinned(ref, lock string) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P016",
		Summary: "plugin " + quote(ref) + " is not pinned, and only pinned plugins are wanted (--locked)",
		Hint:    "pin it: valence plugin add " + ref, Detail: []string{"looked into " + lock}}
}

// holds compares what was found with the pin.
func (p Pin) holds(ref, digest string) error {
	if p.Digest == digest {
		return nil
	}
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P017",
		Summary: "plugin " + quote(ref) + " is not the one that is pinned", Source: p.at,
		Hint:   "if the change is wanted: valence plugin add " + ref,
		Detail: []string{"pinned  " + p.Digest + "  " + p.Name + " " + p.Version, "found   " + digest}}
}
