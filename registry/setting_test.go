package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk/wire"
)

func withSettings(t *testing.T) *Manifest {
	t.Helper()
	m, err := ParseManifest("plugin.toml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSettings(t *testing.T) {
	m := withSettings(t)
	for _, c := range []struct {
		given map[string]string
		want  string
	}{
		{nil, "mutants=8 partial=false style=short"},
		{map[string]string{"partial": "true", "share": "0.75", "free": ""}, "free= mutants=8 partial=true share=0.75 style=short"},
		{map[string]string{"mutants": "16", "style": "long", "share": "1e3"}, "mutants=16 partial=false share=1e3 style=long"},
	} {
		got, err := m.Settings(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if s := listing(got); s != c.want {
			t.Errorf("%v: %s, want %s", c.given, s, c.want)
		}
	}
}

func listing(pairs []wire.Pair) string {
	var out []string
	for _, p := range pairs {
		out = append(out, p.Key+"="+p.Value)
	}
	return strings.Join(out, " ")
}

func TestSettingsRefuse(t *testing.T) {
	m := withSettings(t)
	for _, c := range []struct{ key, value, reason, hint string }{
		{"mutant", "1", `unknown setting "mutant"`, `did you mean "mutants"?`},
		{"zzz", "1", `unknown setting "zzz"`, ""},
		{"mutants", "many", `setting "mutants" is "many"`, "want an integer from 1 to 16"},
		{"mutants", "17", `setting "mutants" is "17"`, "want an integer from 1 to 16"},
		{"mutants", "08", `setting "mutants" is "08"`, "want an integer from 1 to 16"},
		{"share", "0.4", `setting "share" is "0.4"`, "want a number of at least 0.5"},
		{"share", "NaN", `setting "share" is "NaN"`, "want a number of at least 0.5"},
		{"partial", "yes", `setting "partial" is "yes"`, "want true or false"},
		{"style", "lang", `setting "style" is "lang"`, `did you mean "long"?`},
		{"style", "verbose", `setting "style" is "verbose"`, "want one of short, long"},
	} {
		t.Run(c.key+" "+c.value, func(t *testing.T) {
			_, err := m.Settings(map[string]string{c.key: c.value})
			var e *SettingsError
			if !errors.As(err, &e) || len(e.Wrong) != 1 || e.Wrong[0] != (WrongSetting{c.key, c.reason, c.hint}) {
				t.Errorf("%+v", err)
			}
		})
	}
}

func TestSettingsErrorPointsIntoTheRun(t *testing.T) {
	m := withSettings(t)
	_, err := m.Settings(map[string]string{"mutants": "0", "particle": "true"})
	if want := `plugin my-skill 0.1.0: setting "mutants" is "0", want an integer from 1 to 16; unknown setting "particle", did you mean "partial"?`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	var e *SettingsError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	got := e.At(func(key string) diag.Source {
		return diag.Source{File: "run.toml", Line: 7, Column: 10, Text: key + " = ", Width: len(key)}
	}).Error()
	want := `error[P015]: setting "mutants" is "0"
  --> run.toml:7:10
 7 | mutants = 
   |          ^^^^^^^ want an integer from 1 to 16
plugin my-skill 0.1.0 has the settings: free, mutants, partial, share, style

error[P015]: unknown setting "particle"
  --> run.toml:7:10
 7 | particle = 
   |          ^^^^^^^^ did you mean "partial"?
plugin my-skill 0.1.0 has the settings: free, mutants, partial, share, style`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	_, err = (&Manifest{Name: "bare", Version: "1.0.0"}).Settings(map[string]string{"a": "b"})
	if !errors.As(err, &e) || !strings.HasSuffix(e.At(func(string) diag.Source { return diag.Source{} }).Error(), "plugin bare 1.0.0 has no settings") {
		t.Errorf("%v", err)
	}
}

// Whatever a run sets: what is accepted is complete, in order, and each of it would
// be accepted again.
func TestSettingsProperty(t *testing.T) {
	m := withSettings(t)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.SampledFrom([]string{"", "true", "8", "0.5", "short", "long", "1e9"}),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(-20, 20).Draw(t, "number")) }))
		given := rapid.MapOf(rapid.SampledFrom(m.settingNames()), value).Draw(t, "given")
		got, err := m.Settings(given)
		if err != nil {
			return
		}
		if !slices.IsSortedFunc(got, func(a, b wire.Pair) int { return strings.Compare(a.Key, b.Key) }) {
			t.Errorf("not in order: %v", got)
		}
		all := map[string]string{}
		for _, p := range got {
			all[p.Key] = p.Value
		}
		for k, v := range given {
			if all[k] != v {
				t.Errorf("%s is %q, not %q", k, all[k], v)
			}
		}
		for k, s := range m.Config {
			if _, ok := all[k]; !ok && s.Default != nil {
				t.Errorf("the default of %s is missing", k)
			}
		}
		again, err := m.Settings(all)
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("%v, then %v, %v", got, again, err)
		}
	})
}
