package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/ask"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// variants is a recorded answer with pairs of old and new.
func variants(t *testing.T, pairs ...string) string {
	t.Helper()
	type item struct {
		Old string `json:"old"`
		New string `json:"new"`
		Why string `json:"why"`
	}
	list := []item{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, item{pairs[i], pairs[i+1], "clamp(3, 0, 2)"})
	}
	b, err := json.Marshal(map[string]any{"mutants": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// model answers with recorded texts in order, the last one for ever.
func model(asked *[]sdk.ModelRequest, texts ...string) *sdktest.Host {
	return &sdktest.Host{Answer: func(r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
		*asked = append(*asked, *r)
		t := texts[min(len(*asked), len(texts))-1]
		if t == "" {
			return nil, errors.New("ask model: m: no connection")
		}
		return &sdk.ModelResponse{Texts: []string{t}}, nil
	}}
}

func from(word string, more ...sdk.Pair) []sdk.Pair {
	return append(more, sdk.Pair{Key: "mutants_from", Value: word})
}

const right = "max(low, min(x, high))" // the body of clamp

func TestMutantsByAModel(t *testing.T) {
	good := variants(t,
		right, "max(low, max(x, high))",
		right, "max(low, min(high, x))", // no other behaviour: the tests catch nothing
		right, "max(low, min(x, high)", // does not compile
		"somewhere else", "x", // is not in the function
		"low", "high", // is there several times
		right, right, // changes nothing
		"return "+right, "return max(low, max(x, high))", // the first one again
		right, "min(low, min(x, high))",
	)
	for _, tt := range []struct {
		name   string
		config []sdk.Pair
		change func(*sdk.Record)
		texts  []string
		want   []string // contents of clamp's body in the mutants
		asked  int
		skip   string
		err    string
	}{
		{name: "model", config: from("model"), texts: []string{good}, want: []string{"max(low, max(x, high))", "min(low, min(x, high))"}, asked: 1},
		{name: "at most two", config: from("model", sdk.Pair{Key: "mutants", Value: "1"}), texts: []string{good}, want: []string{"max(low, max(x, high))"}, asked: 1},
		{name: "record", config: from("record"), texts: []string{""}, want: []string{"a", "b", "c"}},
		{name: "both", config: from("both"), texts: []string{good}, want: []string{"a", "b", "c", "d", "e"}, asked: 1},
		{name: "both, with a record that has none", config: from("both"), change: func(r *sdk.Record) { r.Mutants = nil }, texts: []string{good}, want: []string{"a", "b"}, asked: 1},
		{name: "second try", config: from("model"), texts: []string{"Here are some", good}, want: []string{"a", "b"}, asked: 2},
		{name: "no form", config: from("model"), texts: []string{"Here are some"}, asked: 2, skip: "the golden tests catch none; the model gave no usable answer: not JSON at byte 0"},
		{name: "no form, but a record", config: from("both"), texts: []string{"Here are some"}, want: []string{"a", "b", "c"}, asked: 2},
		{name: "none left", config: from("model"), texts: []string{variants(t, right, "max(low, min(high, x))", right, "max(", "x y", "z")}, asked: 1,
			skip: "of 3 variants by the model 2 fit into the code, 1 of these compile, and the golden tests catch none"},
		{name: "out of reach", config: from("both"), texts: []string{""}, asked: 1, err: "no connection"},
		{name: "another language", config: from("model"), change: func(r *sdk.Record) { r.Language = "cobol" }, texts: []string{good}, skip: `in the language "cobol"`},
		{name: "no golden tests", config: from("model"), change: func(r *sdk.Record) { r.FailToPass, r.PassToPass = nil, nil }, texts: []string{good}, skip: "no golden tests"},
		{name: "golden tests that fail", config: from("model"), change: func(r *sdk.Record) { r.Patch = "" }, texts: []string{good}, skip: "the golden tests do not pass on the correct code"},
		{name: "no such function", config: from("model"), change: func(r *sdk.Record) { r.Targets[0].Name, r.Targets[0].Line = "clip", 0 }, texts: []string{good}, skip: "of 0 variants"},
		{name: "no such place", config: from("web"), texts: []string{good}, err: `mutants_from: "web" is none of record, model, both`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := sdktest.Records()[0]
			if tt.change != nil {
				tt.change(&rec)
			}
			var asked []sdk.ModelRequest
			h := model(&asked, tt.texts...)
			b, err := sdktest.Build(t.Context(), skill{}, h, &sdk.BuildRequest{Record: rec, Config: tt.config, Seed: 3})
			if len(asked) != tt.asked {
				t.Errorf("asked %d times, want %d", len(asked), tt.asked)
			}
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%+v, error %v, want %q", b, err, tt.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			case tt.skip != "":
				if len(b.Tasks) != 0 || !strings.Contains(b.Skipped, tt.skip) {
					t.Errorf("%d tasks, skipped %q, want %q", len(b.Tasks), b.Skipped, tt.skip)
				}
				return
			}
			hidden, err := grade.Reveal(&b.Tasks[0])
			if err != nil {
				t.Fatal(err)
			}
			if len(hidden.Mutants) != len(tt.want) {
				t.Fatalf("%d mutants, want %d", len(hidden.Mutants), len(tt.want))
			}
			if tt.name != "model" {
				return
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(hidden.Mutants, func(m sdk.Mutant) bool {
					return m.Target == "clamp" && strings.HasPrefix(m.ID, "model-") && strings.Contains(string(m.Files[0].Data), "return "+want+"\n")
				}) {
					t.Errorf("no mutant with %s in %+v", want, hidden.Mutants)
				}
			}
			// The reference, which knows nothing of these mutants, is judged by them.
			v, err := sdktest.Evaluate(t.Context(), skill{}, h, &sdk.EvaluateRequest{Task: b.Tasks[0], Config: tt.config, Output: sdk.Output{Changes: b.Tasks[0].Reference.Changes}})
			if err != nil || v.Score != 1 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

func TestQuestionForMutants(t *testing.T) {
	var asked []sdk.ModelRequest
	h := model(&asked, variants(t, right, "min(low, min(x, high))"))
	for range 2 {
		if _, err := sdktest.Build(t.Context(), skill{}, h, &sdk.BuildRequest{Record: sdktest.Records()[0], Config: from("model"), Seed: 3}); err != nil {
			t.Fatal(err)
		}
	}
	q := asked[0]
	if q.Temperature != 0 || q.Seed == 0 || q.Seed != asked[1].Seed || q.Schema != mutantsSchema || len(q.Messages) != 2 {
		t.Errorf("%+v", q)
	}
	if u := q.Messages[1].Content; !strings.Contains(u, "def clamp") || !strings.Contains(u, right) || !strings.Contains(u, "Give 16 variants of clamp") || strings.Contains(u, "min(low, min(x, high))") {
		t.Errorf("asked %s", u)
	}
	var v any
	if err := json.Unmarshal([]byte(mutantsSchema), &v); err != nil {
		t.Error(err)
	}
}

func TestFunction(t *testing.T) {
	const source = `import x


class A:
    def run(self,
            n):
        if n:
            return 1

        # note
# far left
        return 2

    async def stop(self): pass


def run(
    n,
):
    return n


def runs(): pass
VALUE = 1
`
	for _, tt := range []struct {
		target     sdk.Target
		begin, end string
	}{
		{sdk.Target{Name: "A.run", Line: 5}, "    def run(self,\n", "        return 2\n"},
		{sdk.Target{Name: "run", Line: 17}, "def run(\n", "    return n\n"},
		{sdk.Target{Name: "run", Line: 0}, "", ""}, // there are two
		{sdk.Target{Name: "A.stop"}, "    async def stop", "pass\n"},
		{sdk.Target{Name: "runs", Line: 99}, "def runs", "pass\n"},
		{sdk.Target{Name: "walk", Line: 5}, "", ""},
	} {
		from, to, ok := function(source, tt.target)
		if got := source[from:to]; ok != (tt.end != "") || !strings.HasPrefix(got, tt.begin) || !strings.HasSuffix(got, tt.end) || strings.Count(got, "def ") > 1 {
			t.Errorf("%+v: %q, %t", tt.target, got, ok)
		}
	}
}

func FuzzFunction(f *testing.F) {
	f.Add("def f():\n    pass\n", "f", int64(1))
	f.Add("class A:\n\tdef f(self): pass", "A.f", int64(0))
	f.Fuzz(func(t *testing.T, source, name string, line int64) {
		from, to, ok := function(source, sdk.Target{Name: name, Line: line})
		if from < 0 || to < from || to > len(source) || ok && !strings.Contains(source[from:to], "def ") {
			t.Fatalf("%d to %d, %t", from, to, ok)
		}
	})
}

func FuzzReadEdits(f *testing.F) {
	f.Add(`{"mutants":[{"old":"a","new":"b","why":"c"}]}`)
	f.Add(`{"mutants":[{"old":1,"new":"b","why":"c"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ask.Parse(text)
		if err != nil {
			return
		}
		if edits, err := readEdits(v); err != nil && edits != nil {
			t.Fatal("edits beside an error")
		}
	})
}
