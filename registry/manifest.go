package registry

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk/wire"
)

// ManifestFile is the name of a plugin's manifest in its folder.
const ManifestFile = "plugin.toml"

// Manifest is what a plugin says of itself before it runs; see the toml tags for
// the keys. The host compares it with what the running plugin says.
type Manifest struct {
	Name         string   `toml:"name"`         // lower-case letters, digits and single hyphens, from a letter on
	Version      string   `toml:"version"`      // MAJOR.MINOR.PATCH, with optional -pre and +build
	ABI          int      `toml:"abi"`          // of skill_vN; this build speaks 1
	Roles        []string `toml:"roles"`        // at least one of build, evaluate, judge
	Capabilities []string `toml:"capabilities"` // any of sandbox, model, judge, log; default none
	Description  string   `toml:"description"`  // one line
	Licence      string   `toml:"licence"`      // an SPDX expression
	Source       string   `toml:"source"`       // address of the sources
	Language     string   `toml:"language"`     // of the folder's sources: go (default), python, rust, c, assemblyscript
	Transport    string   `toml:"transport"`    // how the author wants it run: wasm (default; not for python) or process
	// Config has the settings that a run's TOML may make, by name.
	Config map[string]Setting `toml:"config"`
}

// Transports of a plugin.
const (
	WASM    = "wasm"
	Process = "process"
)

// Roles that a plugin can have.
var roles = []string{"build", "evaluate", "judge"}

// Capabilities that a plugin can declare, by the numbers of the host's methods.
func capabilities() (names []string) {
	for n := uint32(1); wire.Capability(n) != ""; n++ {
		names = append(names, wire.Capability(n))
	}
	return names
}

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	versionForm = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// ReadManifest reads the manifest of the plugin in folder dir; shown is how the
// folder is called in diagnostics.
func ReadManifest(dir, shown string) (*Manifest, error) {
	m, _, err := readManifest(dir, shown)
	return m, err
}

func readManifest(dir, shown string) (m *Manifest, text []byte, err error) {
	text, err = os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001",
			Summary: "folder " + quote(shown) + " is no plugin: it has no " + ManifestFile,
			Hint:    "a plugin is a folder with plugin.toml, or a .wasm file"}
	}
	if err != nil {
		return nil, nil, err
	}
	m, err = ParseManifest(filepath.Join(shown, ManifestFile), text)
	return m, text, err
}

// ParseManifest decodes and checks a manifest. file names it in the diagnostics,
// all of which come at once, as a [diag.List] in source order.
func ParseManifest(file string, text []byte) (*Manifest, error) {
	d := &document{file: file, text: text, accepts: manifestKeys}
	m := new(Manifest)
	if d.decode(m) {
		d.check(m)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return m, nil
}

// manifestKeys are the keys of a table of plugin.toml.
func manifestKeys(path []string) []string {
	switch {
	case len(path) == 0:
		return []string{"name", "version", "abi", "roles", "capabilities", "description", "licence", "source", "language", "transport", "config"}
	case len(path) == 2 && path[0] == "config":
		return settingKeys
	}
	return nil
}

func (d *document) check(m *Manifest) {
	required := func(key, example string) bool {
		if d.where(key) == nil {
			d.missing(key, diag.Source{File: d.file}, example)
			return false
		}
		return true
	}
	wrong := func(key, summary, hint string) {
		if at := d.where(key); at != nil { // else the key is spelt in another case, which was said
			d.add("P006", summary, at[0], hint)
		}
	}

	if required("name", `name = "my-skill"`) && !nameForm.MatchString(m.Name) {
		wrong("name", "name "+quote(m.Name)+" is not a plugin's name", "lower-case letters, digits and single hyphens")
	}
	if required("version", `version = "0.1.0"`) && !versionForm.MatchString(m.Version) {
		wrong("version", "version "+quote(m.Version)+" is not a semantic version", `like "0.1.0"`)
	}
	if required("abi", fmt.Sprintf("abi = %d", wire.ABI)) && m.ABI != wire.ABI {
		d.add("P013", fmt.Sprintf("the plugin wants ABI skill_v%d, this build speaks skill_v%d", m.ABI, wire.ABI), d.where("abi")[0],
			"rebuild the plugin with the SDK of this build")
	}
	if required("roles", `roles = ["build", "evaluate"]`) && len(m.Roles) == 0 {
		wrong("roles", "a plugin has at least one role", strings.Join(roles, ", "))
	}
	d.each("roles", m.Roles, "role", roles)
	d.each("capabilities", m.Capabilities, "capability", capabilities())
	if strings.Contains(m.Description, "\n") {
		wrong("description", "the description has several lines", "one line")
	}
	if u, err := url.Parse(m.Source); d.where("source") != nil && (err != nil || u.Scheme == "" || u.Host == "") {
		wrong("source", "source "+quote(m.Source)+" is no address", `like "https://example.org/skill"`)
	}
	d.carriage(m)
	d.settings(m)
}

// carriage checks language and transport, and fills in what is not said.
func (d *document) carriage(m *Manifest) {
	if d.where("language") == nil {
		m.Language = Go
	}
	l, ok := languages[m.Language]
	if !ok {
		d.add("P006", "unknown language "+quote(m.Language), d.where("language")[0], suggest(m.Language, languageNames()), "allowed: "+strings.Join(languageNames(), ", "))
		return
	}
	switch {
	case d.where("transport") == nil:
		m.Transport = l.transports[0]
	case !slices.Contains(l.transports, m.Transport):
		d.add("P006", "a plugin in "+m.Language+" cannot run as "+quote(m.Transport), d.where("transport")[0], suggest(m.Transport, l.transports), "allowed: "+strings.Join(l.transports, ", "))
	}
}

// each checks that every element of a list is allowed and named once.
func (d *document) each(key string, got []string, noun string, allowed []string) {
	at := d.where(key)
	for i, g := range got {
		src := diag.Source{File: d.file}
		if i+1 < len(at) {
			src = at[i+1]
		}
		switch {
		case !slices.Contains(allowed, g):
			d.add("P006", "unknown "+noun+" "+quote(g), src, suggest(g, allowed), "allowed: "+strings.Join(allowed, ", "))
		case slices.Contains(got[:i], g):
			d.add("P006", noun+" "+quote(g)+" is named twice", src, "name it once")
		}
	}
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
