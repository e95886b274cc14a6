package registry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

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

// Setting is one key of a plugin's config.
type Setting struct {
	Type    string   `toml:"type"`    // string, integer, number, boolean
	Default any      `toml:"default"` // of that type; absent: the plugin's own
	Min     *float64 `toml:"min"`     // inclusive, of integer and number
	Max     *float64 `toml:"max"`
	Enum    []string `toml:"enum"` // the accepted texts of a string
	Doc     string   `toml:"doc"`  // one line
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
	l := &locator{file: file, text: text}
	m := new(Manifest)
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(m)
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		for i := range unknown.Errors {
			e := &unknown.Errors[i]
			key := strings.Join(e.Key(), ".")
			line, column := e.Position()
			l.unknown(key, l.at(line, column, len(key)))
		}
		return nil, l.list.Err()
	case errors.As(err, &bad):
		code, what := "P002", "not TOML"
		if l.parses() {
			code, what = "P004", "wrong type"
		}
		line, column := bad.Position()
		l.add(code, what+": "+strings.TrimPrefix(bad.Error(), "toml: "), l.at(line, column, 1), "")
		return nil, l.list.Err()
	case err != nil:
		l.add("P002", "not TOML: "+err.Error(), diag.Source{File: file}, "")
		return nil, l.list.Err()
	}
	l.check(m)
	slices.SortStableFunc(l.list, func(a, b *diag.Diagnostic) int {
		return cmp.Or(a.Source.Line-b.Source.Line, a.Source.Column-b.Source.Column, strings.Compare(a.Summary, b.Summary))
	})
	if len(l.list) > 0 {
		return nil, l.list
	}
	return m, nil
}

func keys() []string {
	return []string{"name", "version", "abi", "roles", "capabilities", "description", "licence", "source", "language", "transport", "config"}
}

func (l *locator) check(m *Manifest) {
	where := l.values()
	for key, at := range where {
		if !slices.Contains(keys(), key) { // the decoder takes a key in any case
			l.unknown(key, at[0])
		}
	}
	missing := func(key, example string) {
		if _, ok := where[key]; !ok {
			l.add("P005", "key "+quote(key)+" is missing", diag.Source{File: l.file}, "add "+example)
		}
	}
	wrong := func(at diag.Source, summary, hint string) { l.add("P006", summary, at, hint) }

	missing("name", `name = "my-skill"`)
	if at, ok := where["name"]; ok && !nameForm.MatchString(m.Name) {
		wrong(at[0], "name "+quote(m.Name)+" is not a plugin's name", "lower-case letters, digits and single hyphens")
	}
	missing("version", `version = "0.1.0"`)
	if at, ok := where["version"]; ok && !versionForm.MatchString(m.Version) {
		wrong(at[0], "version "+quote(m.Version)+" is not a semantic version", `like "0.1.0"`)
	}
	missing("abi", fmt.Sprintf("abi = %d", wire.ABI))
	if at, ok := where["abi"]; ok && m.ABI != wire.ABI {
		l.add("P013", fmt.Sprintf("the plugin wants ABI skill_v%d, this build speaks skill_v%d", m.ABI, wire.ABI), at[0],
			"rebuild the plugin with the SDK of this build")
	}
	missing("roles", `roles = ["build", "evaluate"]`)
	if at, ok := where["roles"]; ok && len(m.Roles) == 0 {
		wrong(at[0], "a plugin has at least one role", strings.Join(roles, ", "))
	}
	l.each(where["roles"], m.Roles, "role", roles)
	l.each(where["capabilities"], m.Capabilities, "capability", capabilities())
	l.origin(m, where)
	if at, ok := where["description"]; ok && strings.Contains(m.Description, "\n") {
		wrong(at[0], "the description has several lines", "one line")
	}
}

// origin checks where the plugin comes from and how it is to be run.
func (l *locator) origin(m *Manifest, where map[string][]diag.Source) {
	if at, ok := where["language"]; ok {
		if _, ok := languages[m.Language]; !ok {
			l.add("P006", "unknown language "+quote(m.Language), at[0], suggest(m.Language, languageNames()), "allowed: "+strings.Join(languageNames(), ", "))
			return
		}
	}
	m.Language = cmp.Or(m.Language, Go)
	can := languages[m.Language].transports
	if at, ok := where["transport"]; ok && !slices.Contains(can, m.Transport) {
		l.add("P006", fmt.Sprintf("transport %q is not one that %s has", m.Transport, m.Language), at[0], suggest(m.Transport, can), "allowed: "+strings.Join(can, ", "))
	}
	m.Transport = cmp.Or(m.Transport, can[0])
	if at, ok := where["source"]; ok {
		if u, err := url.Parse(m.Source); err != nil || u.Scheme == "" || u.Host == "" {
			l.add("P006", "source "+quote(m.Source)+" is no address", at[0], `like "https://example.org/skill"`)
		}
	}
}

// each checks that every element is allowed and named once. at holds the place of
// the list and then that of each element.
func (l *locator) each(at []diag.Source, got []string, noun string, allowed []string) {
	for i, g := range got {
		src := diag.Source{File: l.file}
		if i+1 < len(at) {
			src = at[i+1]
		}
		switch {
		case !slices.Contains(allowed, g):
			l.add("P006", "unknown "+noun+" "+quote(g), src, suggest(g, allowed), "allowed: "+strings.Join(allowed, ", "))
		case slices.Contains(got[:i], g):
			l.add("P006", noun+" "+quote(g)+" is named twice", src, "name it once")
		}
	}
}

// locator collects diagnostics on one manifest.
type locator struct {
	file string
	text []byte
	list diag.List
}

func (l *locator) add(code, summary string, at diag.Source, hint string, detail ...string) {
	l.list = append(l.list, &diag.Diagnostic{Kind: diag.KindPlugin, Code: code, Summary: summary, Source: at, Hint: hint, Detail: detail})
}

func (l *locator) unknown(key string, at diag.Source) {
	l.add("P003", "unknown key "+quote(key), at, suggest(key, keys()), ManifestFile+" accepts: "+strings.Join(keys(), ", "))
}

// at is the place of width bytes at line and column, which count from 1.
func (l *locator) at(line, column, width int) diag.Source {
	s := diag.Source{File: l.file, Line: line, Column: column, Width: width}
	if lines := bytes.Split(l.text, []byte("\n")); line >= 1 && line <= len(lines) {
		s.Text = strings.TrimRight(string(lines[line-1]), "\r")
	}
	return s
}

// parses tells whether the text is TOML, whatever its values are.
func (l *locator) parses() bool {
	var any map[string]any
	return toml.Unmarshal(l.text, &any) == nil
}

// values finds, for each key of the top level, the place of its value, followed by
// those of the elements if it is a list.
func (l *locator) values() map[string][]diag.Source {
	found := map[string][]diag.Source{}
	var p unstable.Parser
	p.Reset(l.text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue {
			continue
		}
		k := e.Key()
		k.Next()
		name := k.Node()
		place := func(n *unstable.Node) diag.Source {
			if n.Raw.Length == 0 {
				n = name // the parser keeps no place for some kinds of value
			}
			s := p.Shape(n.Raw).Start
			return l.at(s.Line, s.Column, int(n.Raw.Length))
		}
		v := e.Value()
		at := []diag.Source{place(v)}
		if v.Kind == unstable.Array {
			for c := v.Children(); c.Next(); {
				at = append(at, place(c.Node()))
			}
		}
		found[string(name.Data)] = at
	}
	return found
}

// suggest finds the word of a few that is at most two edits away.
func suggest(word string, among []string) string {
	best, at := "", 3
	for _, w := range among {
		if d := distance(word, w); d < at && d < len(w) {
			best, at = w, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + quote(best) + "?"
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
