package prompt

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var values = []Value{
	{Name: "issue", Text: "it {breaks}"},
	{Name: "files_2", Text: "a.py b.py"},
	{Name: "none", Absent: "the record has none"},
	{Name: "empty"},
}

func TestExpand(t *testing.T) {
	tests := []struct {
		name, text, want string
		err              string // of the error; "" for none
		absent           bool
	}{
		{name: "plain", text: "no braces\n", want: "no braces\n"},
		{name: "two", text: "{issue}: {files_2}", want: "it {breaks}: a.py b.py"},
		{name: "empty text is a text", text: "<{empty}>", want: "<>"},
		{name: "escapes", text: "{{issue}} }}{{", want: "{issue} }{"},
		{name: "escape beside a placeholder", text: "{{{issue}}}", want: "{it {breaks}}"},
		{name: "unknown", text: "a\nb {isue}", err: "fill prompt: t:2: {isue}: unknown placeholder; known are issue, files_2, none, empty"},
		{name: "absent", text: "\n\n{none}", err: "fill prompt: t:3: {none}: the record has none", absent: true},
		{name: "open brace", text: "x { y", err: "fill prompt: t:1: a { that opens no placeholder; write {{ for a brace"},
		{name: "capitals are no name", text: "{Issue}", err: "fill prompt: t:1: a { that opens no placeholder; write {{ for a brace"},
		{name: "unclosed", text: "{issue", err: "fill prompt: t:1: a { that opens no placeholder; write {{ for a brace"},
		{name: "close brace", text: "x } y", err: "fill prompt: t:1: a } that closes nothing; write }} for a brace"},
		{name: "no name", text: "{}", err: "fill prompt: t:1: a { that opens no placeholder; write {{ for a brace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Expand("t", tt.text, values)
			if tt.err == "" {
				if err != nil || got != tt.want {
					t.Fatalf("got %q, error %v; want %q", got, err, tt.want)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || err.Error() != tt.err || e.Absent != tt.absent {
				t.Fatalf("error %v (%+v), want %q", err, e, tt.err)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	tests := []struct {
		choice             string
		name, system, user string
		err                string
	}{
		{choice: "", name: "full", system: strings.TrimSpace(System), user: "FULL {x}"},
		{choice: "full", name: "full", system: strings.TrimSpace(System), user: "FULL {x}"},
		{choice: "brief", name: "brief", user: "BRIEF"},
		{choice: "do {x}", name: "custom", user: "do {x}"},
		{choice: "one\ntwo", name: "custom", user: "one\ntwo"},
		{choice: "be brave\n=== user ===\ndo {x}", name: "custom", system: "be brave", user: "do {x}"},
		{choice: "short", err: "short"},
	}
	for _, tt := range tests {
		got, err := Choose(tt.choice, "FULL {x}\n", "BRIEF\n")
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error %v", tt.choice, err)
			}
			continue
		}
		if err != nil || got.Name != tt.name || got.System != tt.system || got.User != tt.user || got.Brief() != (tt.name == "brief") {
			t.Errorf("%q: %+v, error %v", tt.choice, got, err)
		}
	}
}

func TestFillCountsLinesFromTheTemplatesStart(t *testing.T) {
	tmpl, err := Choose("system\n=== user ===\nfirst\n{nobody}", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = tmpl.Fill(values); err == nil || !strings.Contains(err.Error(), "custom:4: {nobody}") {
		t.Errorf("error %v, want one at custom:4", err)
	}
}

// Doubling every brace of a text and expanding it gives the text.
func TestEscapeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		escaped := strings.NewReplacer("{", "{{", "}", "}}").Replace(text)
		if got, err := Expand("t", escaped, nil); err != nil || got != text {
			t.Fatalf("%q became %q, error %v", text, got, err)
		}
	})
}

func FuzzExpand(f *testing.F) {
	f.Add("{issue} {{ }} {")
	f.Add("a\n{none}\xff{files_2}")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Expand("t", text, values)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 || got != "") {
			t.Fatalf("%q: %q, %v", text, got, err)
		}
	})
}
