package registry

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk/wire"
)

// Setting is one key of a plugin's config.
type Setting struct {
	Type    string   `toml:"type"`    // string, integer, number, boolean
	Default any      `toml:"default"` // of that type and in range; absent: the plugin is not told
	Min     *float64 `toml:"min"`     // inclusive, of integer and number
	Max     *float64 `toml:"max"`
	Enum    []string `toml:"enum"` // the accepted texts of a string
	Doc     string   `toml:"doc"`  // one line
}

var (
	settingTypes = []string{"string", "integer", "number", "boolean"}
	settingKeys  = []string{"type", "default", "min", "max", "enum", "doc"}
	settingForm  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// Settings checks what a run's TOML sets against the manifest's [config] and adds
// the defaults of what it does not set. They come in the order of their keys, as
// text: an integer in decimal, a boolean as true or false. The error is a
// [SettingsError].
func (m *Manifest) Settings(given map[string]string) ([]wire.Pair, error) {
	failed := &SettingsError{Plugin: m.Name + " " + m.Version, Accepts: m.settingNames()}
	var out []wire.Pair
	for _, key := range sortedKeys(m.Config) {
		s := m.Config[key]
		text, ok := given[key]
		if !ok {
			if s.Default != nil {
				out = append(out, wire.Pair{Key: key, Value: settingText(s.Default)})
			}
			continue
		}
		if reason := s.refuses(text); reason != "" {
			failed.Wrong = append(failed.Wrong, WrongSetting{Key: key, Reason: fmt.Sprintf("setting %q is %q", key, text), Hint: reason})
			continue
		}
		out = append(out, wire.Pair{Key: key, Value: text})
	}
	for _, key := range sortedKeys(given) {
		if _, ok := m.Config[key]; !ok {
			failed.Wrong = append(failed.Wrong, WrongSetting{Key: key, Reason: fmt.Sprintf("unknown setting %q", key), Hint: suggest(key, failed.Accepts)})
		}
	}
	if len(failed.Wrong) > 0 {
		return nil, failed
	}
	return out, nil
}

func (m *Manifest) settingNames() []string { return sortedKeys(m.Config) }

// SettingsError says which of a run's settings a plugin does not take.
type SettingsError struct {
	Plugin  string   // name and version
	Accepts []string // names of its settings
	Wrong   []WrongSetting
}

// WrongSetting is one of them.
type WrongSetting struct {
	Key    string
	Reason string // what is wrong
	Hint   string // the remedy, or ""
}

func (e *SettingsError) Error() string {
	var all []string
	for _, w := range e.Wrong {
		s := w.Reason
		if w.Hint != "" {
			s += ", " + w.Hint
		}
		all = append(all, s)
	}
	return "plugin " + e.Plugin + ": " + strings.Join(all, "; ")
}

// At makes diagnostics of it; where gives the place at which the run's TOML sets a key.
func (e *SettingsError) At(where func(key string) diag.Source) diag.List {
	var l diag.List
	accepts := "plugin " + e.Plugin + " has no settings"
	if len(e.Accepts) > 0 {
		accepts = "plugin " + e.Plugin + " has the settings: " + strings.Join(e.Accepts, ", ")
	}
	for _, w := range e.Wrong {
		l = append(l, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P015", Summary: w.Reason, Source: where(w.Key), Hint: w.Hint, Detail: []string{accepts}})
	}
	return l
}

// refuses says what a text would have to be, or "" if it will do.
func (s Setting) refuses(text string) string {
	switch s.Type {
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || strconv.FormatInt(n, 10) != text || !s.within(float64(n)) {
			return "want an integer" + s.span()
		}
	case "number":
		if x, err := strconv.ParseFloat(text, 64); err != nil || math.IsNaN(x) || math.IsInf(x, 0) || !s.within(x) {
			return "want a number" + s.span()
		}
	case "boolean":
		if text != "true" && text != "false" {
			return "want true or false"
		}
	default:
		if s.Enum != nil && !slices.Contains(s.Enum, text) {
			if near := suggest(text, s.Enum); near != "" {
				return near
			}
			return "want one of " + strings.Join(s.Enum, ", ")
		}
	}
	return ""
}

func (s Setting) within(x float64) bool {
	return (s.Min == nil || x >= *s.Min) && (s.Max == nil || x <= *s.Max)
}

// span puts the range in words, with a blank in front; "" for none.
func (s Setting) span() string {
	switch {
	case s.Min != nil && s.Max != nil:
		return " from " + settingText(*s.Min) + " to " + settingText(*s.Max)
	case s.Min != nil:
		return " of at least " + settingText(*s.Min)
	case s.Max != nil:
		return " of at most " + settingText(*s.Max)
	}
	return ""
}

// settingText is how a value crosses the border.
func settingText(v any) string {
	if x, ok := v.(float64); ok {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// settings checks [config].
func (d *document) settings(m *Manifest) {
	for _, key := range sortedKeys(m.Config) {
		d.setting(key, m.Config[key])
	}
}

func (d *document) setting(key string, s Setting) {
	path := "config." + key
	at := func(field string) diag.Source {
		for _, p := range []string{path + "." + field, path} {
			if at := d.where(p); at != nil {
				return at[0]
			}
		}
		return diag.Source{File: d.file}
	}
	wrong := func(field, summary, hint string) {
		d.add("P006", "setting "+quote(key)+": "+summary, at(field), hint)
	}
	if !settingForm.MatchString(key) {
		wrong("", "this is not a setting's name", "lower-case letters, digits and single underscores")
	}
	switch {
	case d.where(path+".type") == nil:
		d.missing(path+".type", at(""), `type = "string"`)
		return
	case !slices.Contains(settingTypes, s.Type):
		d.add("P006", "unknown type "+quote(s.Type), at("type"), suggest(s.Type, settingTypes), "allowed: "+strings.Join(settingTypes, ", "))
		return
	}
	number := s.Type == "integer" || s.Type == "number"
	fine := true
	for field, bound := range map[string]*float64{"min": s.Min, "max": s.Max} {
		switch {
		case bound == nil:
			continue
		case !number:
			wrong(field, quote(field)+" is for numbers", "leave it out")
		case math.IsNaN(*bound) || math.IsInf(*bound, 0):
			wrong(field, quote(field)+" is not a finite number", "leave it out for no bound")
		case s.Type == "integer" && *bound != math.Trunc(*bound):
			wrong(field, quote(field)+" of an integer has a fraction", "a whole number")
		default:
			continue
		}
		fine = false
	}
	if fine && s.Min != nil && s.Max != nil && *s.Min > *s.Max {
		wrong("max", "max is below min", "swap them")
		fine = false
	}
	if enum := d.where(path + ".enum"); enum != nil {
		switch {
		case s.Type != "string":
			wrong("enum", `"enum" is for strings`, "leave it out")
			fine = false
		case len(s.Enum) == 0:
			wrong("enum", `"enum" is empty`, "name the accepted texts")
			fine = false
		}
		for i, text := range s.Enum {
			if slices.Contains(s.Enum[:i], text) {
				d.add("P006", "setting "+quote(key)+": text "+quote(text)+" is named twice", enum[min(i+1, len(enum)-1)], "name it once")
			}
		}
	}
	if strings.Contains(s.Doc, "\n") {
		wrong("doc", "the doc has several lines", "one line")
	}
	if !fine || d.where(path+".default") == nil {
		return
	}
	if got := settingType(s.Default); got != s.Type && (got != "integer" || s.Type != "number") {
		d.add("P004", fmt.Sprintf("setting %q: the default is no %s", key, s.Type), at("default"), "want "+article(s.Type))
		return
	}
	if reason := s.refuses(settingText(s.Default)); reason != "" {
		wrong("default", "the default is not allowed", reason)
	}
}

// settingType is the type of a decoded value, or "" for one that no setting has.
func settingType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case int64:
		return "integer"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return ""
}

func article(noun string) string {
	if noun == "integer" {
		return "an " + noun
	}
	return "a " + noun
}
