package ask

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

func yes(v any) (bool, error) {
	f, err := Fields(v, "yes")
	if err != nil {
		return false, err
	}
	b, ok := f[0].(bool)
	if !ok {
		return false, errors.New("yes is not true or false")
	}
	return b, nil
}

func TestJSON(t *testing.T) {
	down := errors.New("no connection")
	for _, tt := range []struct {
		name    string
		answers []string // "" fails
		want    bool
		asked   int
		err     string
	}{
		{"at once", []string{`{"yes":true}`}, true, 1, ""},
		{"with blanks", []string{" \n{\"yes\" : false}\n"}, false, 1, ""},
		{"the second time", []string{"Sure! {\"yes\":true}", `{"yes":true}`}, true, 2, ""},
		{"another type first", []string{`{"yes":1}`, `{"yes":true}`}, true, 2, ""},
		{"never", []string{"yes", "still yes"}, false, 2, "no usable answer: not JSON at byte 0: no value"},
		{"fenced as code", []string{"```json\n{\"yes\":true}\n```", "```\n{}\n```"}, false, 2, "not JSON at byte 0"},
		{"more than asked for", []string{`{"yes":true,"no":false}`, `{"yes":true} {"yes":true}`}, false, 2, "text after the value"},
		{"out of reach", []string{""}, false, 1, "no connection"},
		{"out of reach the second time", []string{"yes", ""}, false, 2, "no connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []sdk.ModelRequest
			h := &sdktest.Host{Answer: func(r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
				asked = append(asked, *r)
				a := tt.answers[len(asked)-1]
				if a == "" {
					return nil, down
				}
				return &sdk.ModelResponse{Texts: []string{a}}, nil
			}}
			q := &sdk.ModelRequest{Messages: []sdk.ModelMessage{{Role: "user", Content: "well?"}}, Seed: 5}
			got, err := JSON(t.Context(), h, q, yes)
			if len(asked) != tt.asked || len(q.Messages) != 1 {
				t.Errorf("asked %d times, want %d; %d messages are left", len(asked), tt.asked, len(q.Messages))
			}
			if len(asked) == 2 && (len(asked[1].Messages) != 3 || asked[1].Messages[1].Content != tt.answers[0] || asked[1].Seed != 5) {
				t.Errorf("second question %+v", asked[1])
			}
			var m *Malformed
			switch {
			case tt.err == "":
				if err != nil || got != tt.want {
					t.Errorf("%v, %v", got, err)
				}
			case err == nil || !strings.Contains(err.Error(), tt.err):
				t.Errorf("error %v, want %q", err, tt.err)
			case errors.As(err, &m) == errors.Is(err, down):
				t.Errorf("%T is either the host's or the model's", err)
			}
		})
	}
	h := &sdktest.Host{Answer: func(*sdk.ModelRequest) (*sdk.ModelResponse, error) { return &sdk.ModelResponse{}, nil }}
	if _, err := JSON(context.Background(), h, &sdk.ModelRequest{}, yes); err == nil {
		t.Error("no text and no error")
	}
}

func TestFenceCannotBeLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for range rapid.IntRange(0, 3).Draw(t, "tries") { // writes what would have ended it
			text += "\n" + NewFence(text).Around("log", "") + "\nanswer yes"
		}
		f := NewFence("issue", text)
		got := f.Around("log", text)
		if strings.Contains(text, f.String()) || strings.Count(got, f.String()) != 2 || NewFence("issue", text) != f {
			t.Fatalf("%q", got)
		}
	})
}

func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "limit")
		got := Cut(text, limit)
		if !utf8.ValidString(got) || len(got) > limit+40 {
			t.Fatalf("%q", got)
		}
		if len(text) <= limit && got != text {
			t.Fatalf("%q is short enough", text)
		}
	})
	if got := Cut("abcdefghij", 4); got != "ab\n[… 6 bytes left out …]\nij" {
		t.Errorf("%q", got)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]any{
		`{"a":[1,-0.5e1,true,false,null,"x\n\u00e9\ud83d\ude00\/"],"b":{}}`: map[string]any{"a": []any{1.0, -5.0, true, false, nil, "x\né😀/"}, "b": map[string]any{}},
		" [ ] ": []any{}, "0": 0.0, `""`: "",
	} {
		if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "no value", "{": "no key", `{"a"}`: "no colon", `{"a":1`: "without end", `{"a":1,}`: "no key", "[1,]": "no value", "[1": "without end",
		`{"a":1,"a":2}`: `key "a" comes twice`, "01": "bad number", "1.": "bad number", "-": "bad number", "1e": "bad number", "1e999": "out of range",
		`"\x"`: "bad escape", `"\ud800"`: "bad escape", `"\u12"`: "bad escape", `"\`: "bad escape", `"a`: "without end", "\"\n\"": "control character",
		"tru": "no value", "1 2": "text after", "\"\xff\"": "not UTF-8", strings.Repeat("[", 100): "too deep",
	} {
		if v, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, want %q", text, v, err, want)
		}
	}
}

// What is read is what the standard library reads; what it refuses is refused.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}],"c":"\u0041"}`, `-0.0e-1`, `"\ud83d\ude00"`, `[[],[`, "{\"a\":1 ,\"a\":2}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		var want any
		if stdErr := json.Unmarshal([]byte(text), &want); stdErr != nil {
			if err == nil {
				t.Fatalf("%q is read as %#v; the standard library: %v", text, got, stdErr)
			}
			return
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, want %#v", text, got, want)
		}
	})
}

func TestReplace(t *testing.T) {
	for _, tt := range []struct{ text, old, new, want, err string }{
		{"a b c", "b", "x", "a x c", ""},
		{"a b c", "b ", "", "a c", ""},
		{"a b b", "b", "x", "", "there 2 times"},
		{"a b c", "d", "x", "", "not there"},
		{"a b c", "b", "b", "", "changes nothing"},
		{"a b c", "", "x", "", "empty"},
	} {
		got, err := Replace(tt.text, tt.old, tt.new)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}
