package registry

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
)

const good = `name = "my-skill"
version = "0.1.0"
abi = 1
roles = ["build", "evaluate"]
capabilities = ["sandbox"]
description = "what it is for"
licence = "Apache-2.0"
`

func TestParseManifest(t *testing.T) {
	m, err := ParseManifest("plugin.toml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{Name: "my-skill", Version: "0.1.0", ABI: 1, Roles: []string{"build", "evaluate"}, Capabilities: []string{"sandbox"},
		Description: "what it is for", Licence: "Apache-2.0", Language: Go, Transport: WASM}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v", m)
	}
	if _, err := ParseManifest("x", []byte("name='a'\nversion='1.0.0-rc.1+b'\nabi=1\nroles=['judge']")); err != nil {
		t.Errorf("the least that is needed: %v", err)
	}
}

func TestManifestDiagnostics(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown key", `licence =`, `license =`, `error[P003]: unknown key "license"
  --> d/plugin.toml:7:1
 7 | license = "Apache-2.0"
   | ^^^^^^^ did you mean "licence"?
plugin.toml accepts: name, version, abi, roles, capabilities, description, licence`},
		{"key in capitals", `abi =`, `ABI =`, `error[P005]: key "abi" is missing`},
		{"unknown table", `licence = "Apache-2.0"`, "[limits]\nmemory = 1", `error[P003]: unknown key "limits"
  --> d/plugin.toml:7:2
 7 | [limits]
   |  ^^^^^^
plugin.toml accepts: name, version, abi, roles, capabilities, description, licence`},
		{"not TOML", `abi = 1`, `abi = `, `error[P002]: not TOML: `},
		{"wrong type", `abi = 1`, `abi = "1"`, `error[P004]: wrong type: `},
		{"no name", `name = "my-skill"`, ``, `error[P005]: key "name" is missing
  --> d/plugin.toml
  add name = "my-skill"`},
		{"bad name", `"my-skill"`, `"My_Skill"`, `error[P006]: name "My_Skill" is not a plugin's name
  --> d/plugin.toml:1:8
 1 | name = "My_Skill"
   |        ^^^^^^^^^^ lower-case letters, digits and single hyphens`},
		{"bad version", `"0.1.0"`, `"v0.1"`, `error[P006]: version "v0.1" is not a semantic version`},
		{"other ABI", `abi = 1`, `abi = 2`, `error[P013]: the plugin wants ABI skill_v2, this build speaks skill_v1`},
		{"no role", `["build", "evaluate"]`, `[]`, `error[P006]: a plugin has at least one role`},
		{"unknown role", `"evaluate"`, `"evalute"`, `error[P006]: unknown role "evalute"
  --> d/plugin.toml:4:19
 4 | roles = ["build", "evalute"]
   |                   ^^^^^^^^^ did you mean "evaluate"?
allowed: build, evaluate, judge`},
		{"role twice", `"evaluate"`, `"build"`, `error[P006]: role "build" is named twice`},
		{"unknown capability", `"sandbox"`, `"network"`, `error[P006]: unknown capability "network"
  --> d/plugin.toml:5:17
 5 | capabilities = ["network"]
   |                 ^^^^^^^^^
allowed: sandbox, model, judge, log`},
		{"language", "licence", "language = \"pyton\"\nlicence", `error[P006]: unknown language "pyton"
  --> d/plugin.toml:7:12
 7 | language = "pyton"
   |            ^^^^^^^ did you mean "python"?
allowed: assemblyscript, c, go, python, rust`},
		{"transport", "licence", "transport = \"proces\"\nlicence", `error[P006]: a plugin in go cannot run as "proces"
  --> d/plugin.toml:7:13
 7 | transport = "proces"
   |             ^^^^^^^^ did you mean "process"?
allowed: wasm, process`},
		{"transport of the language", "licence", "language = \"python\"\ntransport = \"wasm\"\nlicence", `error[P006]: a plugin in python cannot run as "wasm"`},
		{"source", "licence", "source = \"here\"\nlicence", `error[P006]: source "here" is no address`},
		{"description in capitals", "description = \"what it is for\"", "Description = \"a\\nb\"", `error[P003]: unknown key "Description"`},
		{"description of two lines", `"what it is for"`, `"a\nb"`, `error[P006]: the description has several lines`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseManifest("d/plugin.toml", []byte(strings.Replace(good, c.from, c.to, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got\n%v\nwant\n%s", err, c.want)
			}
			if k := diag.KindOf(err); k != diag.KindPlugin {
				t.Errorf("kind %s", k)
			}
		})
	}
}

const settings = good + `
[config.partial]
type = "boolean"
default = false
doc = "count parts"
[config.mutants]
type = "integer"
default = 8
min = 1
max = 16
[config]
share = {type = "number", min = 0.5}
style.type = "string"
style.enum = ["short", "long"]
style.default = "short"
free.type = "string"
`

func TestSettingDiagnostics(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown key", `doc =`, `dok =`, `error[P003]: unknown key "dok"
  --> d/plugin.toml:12:1
 12 | dok = "count parts"
    | ^^^ did you mean "doc"?
[config.partial] accepts: type, default, min, max, enum, doc`},
		{"unknown key inline", `{type = "number", min`, `{type = "number", mim`, `error[P003]: unknown key "mim"`},
		{"key in capitals", `style.type`, `style.Type`, `error[P005]: key "type" is missing
  --> d/plugin.toml
  add type = "string"

error[P003]: unknown key "Type"
  --> d/plugin.toml:20:7`},
		{"no type", `type = "boolean"`, ``, `error[P005]: key "type" is missing
  --> d/plugin.toml:9:9
 9 | [config.partial]
   |         ^^^^^^^ add type = "string"`},
		{"bad type", `"boolean"`, `"bolean"`, `error[P006]: unknown type "bolean"
  --> d/plugin.toml:10:8
 10 | type = "bolean"
    |        ^^^^^^^^ did you mean "boolean"?
allowed: string, integer, number, boolean`},
		{"bad name", `[config.partial]`, `[config.Partial]`, `error[P006]: setting "Partial": this is not a setting's name`},
		{"default of another type", `default = 8`, `default = "8"`, `error[P004]: setting "mutants": the default is no integer
  --> d/plugin.toml:15:11
 15 | default = "8"
    |           ^^^ want an integer`},
		{"default of a strange type", `default = 8`, `default = [8]`, `error[P004]: setting "mutants": the default is no integer`},
		{"default out of range", `default = 8`, `default = 17`, `error[P006]: setting "mutants": the default is not allowed
  --> d/plugin.toml:15:11
 15 | default = 17
    |           ^^ want an integer from 1 to 16`},
		{"default not in enum", `default = "short"`, `default = "shor"`, `error[P006]: setting "style": the default is not allowed`},
		{"min above max", `min = 1`, `min = 17`, `error[P006]: setting "mutants": max is below min`},
		{"fraction", `min = 1`, `min = 0.5`, `error[P006]: setting "mutants": "min" of an integer has a fraction`},
		{"infinite", `min = 0.5`, `min = inf`, `error[P006]: setting "share": "min" is not a finite number`},
		{"range of a boolean", `doc =`, "min = 1\ndoc =", `error[P006]: setting "partial": "min" is for numbers`},
		{"enum of an integer", `max = 16`, `enum = ["1"]`, `error[P006]: setting "mutants": "enum" is for strings`},
		{"empty enum", `["short", "long"]`, `[]`, `error[P006]: setting "style": "enum" is empty`},
		{"enum twice", `"long"`, `"short"`, `error[P006]: setting "style": text "short" is named twice`},
		{"doc of two lines", `"count parts"`, `"count\nparts"`, `error[P006]: setting "partial": the doc has several lines`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseManifest("d/plugin.toml", []byte(strings.Replace(settings, c.from, c.to, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

func TestManifestReportsEverything(t *testing.T) {
	_, err := ParseManifest("plugin.toml", []byte("roles = ['a', 'b']\nname = 'X'\n"))
	var l diag.List
	if !errors.As(err, &l) {
		t.Fatal(err)
	}
	var codes []string
	for _, d := range l {
		codes = append(codes, d.Code)
	}
	// What is missing has no line and comes first.
	if got := strings.Join(codes, " "); got != "P005 P005 P006 P006 P006" {
		t.Errorf("%s\n%v", got, err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(settings))
	f.Add([]byte("a.b = [1, [2]]\n[c]\nd = {e = 1}"))
	f.Add([]byte("name = \"\"\"\nx\"\"\"\nroles = [\n\"build\", # c\n'x']"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseManifest("plugin.toml", b); (m == nil) == (err == nil) {
			t.Errorf("%+v, %v", m, err)
		} else if err != nil && (err.Error() == "" || diag.KindOf(err) != diag.KindPlugin) {
			t.Errorf("%q of kind %s", err, diag.KindOf(err))
		}
	})
}

func TestSection(t *testing.T) {
	empty := []byte("\x00asm\x01\x00\x00\x00")
	code := WithSection(WithSection(empty, "a", []byte("first")), "b", make([]byte, 300))
	if got, found, err := Section(code, "a"); err != nil || !found || string(got) != "first" {
		t.Errorf("%q %v %v", got, found, err)
	}
	if got, found, err := Section(code, "b"); err != nil || !found || len(got) != 300 {
		t.Errorf("%d %v %v", len(got), found, err)
	}
	if _, found, err := Section(code, "c"); err != nil || found {
		t.Errorf("%v %v", found, err)
	}
	for _, bad := range []string{"", "x", "\x00asm\x02\x00\x00\x00", string(empty) + "\x00", string(empty) + "\x00\x05a", string(empty) + "\x00\x01\x05", string(code[:len(code)-1])} {
		if _, found, err := Section([]byte(bad), "b"); err == nil || found {
			t.Errorf("%q: found %v, error %v", bad, found, err)
		}
	}
}

func FuzzSection(f *testing.F) {
	f.Add(WithSection([]byte("\x00asm\x01\x00\x00\x00"), ManifestSection, []byte(good)))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, found, err := Section(b, ManifestSection)
		if found && err != nil {
			t.Error("both found and an error")
		}
		if err != nil || found && !bytes.Contains(b, text) {
			return
		}
		more, also, err := Section(WithSection(b, ManifestSection, []byte("more")), ManifestSection)
		if err != nil || !also || found && !bytes.Equal(more, text) || !found && string(more) != "more" {
			t.Errorf("with a section more: %q, %v, %v", more, also, err)
		}
	})
}

func TestSuggest(t *testing.T) {
	for word, want := range map[string]string{"evalute": "evaluate", "jugde": "judge", "zzz": "", "": "", "buildd": "build"} {
		got := suggest(word, roles)
		if want == "" && got != "" || want != "" && got != `did you mean "`+want+`"?` {
			t.Errorf("%q: %q", word, got)
		}
	}
}
