package mutate

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/chatserver/chatservertest"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// writes is a model's answer with mistakes, old and new in turn.
func writes(t *testing.T, pairs ...string) chatservertest.Deed {
	t.Helper()
	list := []map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]string{"old": pairs[i], "new": pairs[i+1], "effect": "it is wrong"})
	}
	b, err := json.Marshal(map[string]any{"mistakes": list})
	if err != nil {
		t.Fatal(err)
	}
	return chatservertest.Says(string(b))
}

// asking gives a bench of the module gauge, whose author is behind a server, and its
// first function. Its sandboxes are never asked for.
func asking(t *testing.T, s *chatservertest.Server, j *trial.Journal, tree *source.Tree) (*Bench, *Function) {
	t.Helper()
	client := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Transport: s.Transport})
	t.Cleanup(client.Close)
	lab := trial.NewLab(nil, runner.Builtin()[2], j, 1)
	m := &Bench{Options: Options{Author: &Author{Model: scoring.OpenAI(client, "m"), Name: "m"}}.settled(), tree: tree, lab: lab}
	return m, &goFunctions(tree.Files)[0]
}

// What a model writes is put into the code where it fits, and counted where it does not.
func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := chatservertest.Start(t, func(int, chatservertest.Asked) chatservertest.Deed {
			return writes(t,
				"v < low", "v <= low+1",
				"v < low", "v <= low + 1", // the same code
				"return v\n}", "return v // wrong\n}", // gives itself away
				"v > high", "v >", // does not parse
				"v", "w", // stands there more than once
				"not there", "x",
				"v > high", "v > low",
				"v > high", "v >  high", // blanks
			)
		})
		j := journal(t, "")
		m, f := asking(t, s, j, gauge(t))
		var w Written
		edits, err := m.written(t.Context(), f, &w)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range edits {
			after := string(e.apply(m.tree.At("gauge.go")))
			at := strings.Index(after, "if ")
			got = append(got, e.Operator+": "+strings.Join(strings.Fields(after[at:]), " "))
		}
		want := []string{
			"model: if v <= low+1 { return low } if v > high { return high } return v }",
			"model: if v < low { return low } if v > low { return high } return v }",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(Written{Functions: 1, Mistakes: 8, Unfit: 6, PromptTokens: 100, CompletionTokens: 10}, w); d != "" {
			t.Error(d)
		}
		question := s.Asked()[0].Body["messages"].([]any)
		if user := question[1].(map[string]any)["content"].(string); !strings.Contains(user, "func Clamp(") || !strings.Contains(user, "gauge.go") || strings.Contains(user, "func TestClamp") {
			t.Errorf("the question: %s", user)
		}

		// Asked again, the journal answers; operators follow, but not with what is there.
		all, err := m.edits(t.Context(), f, new(findings))
		if err != nil || len(s.Asked()) != 1 {
			t.Errorf("%v, asked %d times", err, len(s.Asked()))
		}
		if len(all) <= len(edits) || all[0].Operator != byModel || all[len(all)-1].Operator == byModel {
			t.Errorf("%+v", all)
		}
		m.Author.Alone = true
		if all, err := m.edits(t.Context(), f, new(findings)); err != nil || len(all) != len(edits) {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// A server's fault is tried again and then an error of its own kind; a model's fault is
// counted.
func TestFaultsOfAuthors(t *testing.T) {
	good := writes(t, "v < low", "v <= low+1")
	broken := chatservertest.Status(500, "out of memory")
	for _, tt := range []struct {
		name     string
		deeds    []chatservertest.Deed
		asked    int
		edits    int
		formless int
		kind     diag.Kind
	}{
		{"well", []chatservertest.Deed{good}, 1, 1, 0, ""},
		{"busy", []chatservertest.Deed{chatservertest.Status(429, "", "Retry-After", "30"), good}, 2, 1, 0, ""},
		{"broken, cut and garbled", []chatservertest.Deed{broken, chatservertest.Cuts, chatservertest.JSON("null"), good}, 4, 1, 0, ""},
		{"hanging", []chatservertest.Deed{chatservertest.Hangs, good}, 2, 1, 0, ""},
		{"broken for good", []chatservertest.Deed{broken, broken, broken, broken}, 4, 0, 0, diag.KindPolicy},
		{"another key", []chatservertest.Deed{chatservertest.Status(401, "")}, 1, 0, 0, diag.KindPolicy},
		{"too long for it", []chatservertest.Deed{chatservertest.Overflows[0].Deed}, 1, 0, 1, ""},
		{"words", []chatservertest.Deed{chatservertest.Says("Sure!"), good}, 2, 1, 0, ""},
		{"nothing but words", []chatservertest.Deed{chatservertest.Says("Sure!"), chatservertest.Says("Of course!")}, 2, 0, 1, ""},
		{"another form", []chatservertest.Deed{chatservertest.Says(`{"mistakes":[{"old":1,"new":2,"effect":""}]}`), chatservertest.Says(`{"mistakes":{}}`)}, 2, 0, 1, ""},
		{"none", []chatservertest.Deed{writes(t)}, 1, 0, 0, ""},
		{"a refusal", []chatservertest.Deed{chatservertest.JSON(`{"choices":[{"index":0,"message":{"content":null,"refusal":"I will not"},"finish_reason":"stop"}]}`)}, 1, 0, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := gauge(t)
			synctest.Test(t, func(t *testing.T) {
				s := chatservertest.Start(t, func(n int, _ chatservertest.Asked) chatservertest.Deed { return tt.deeds[n-1] })
				j := journal(t, "")
				m, f := asking(t, s, j, tree)
				var w Written
				edits, err := m.written(t.Context(), f, &w)
				if len(s.Asked()) != tt.asked || len(edits) != tt.edits || w.Formless != tt.formless {
					t.Errorf("asked %d times, %d edits, %+v", len(s.Asked()), len(edits), w)
				}
				switch {
				case tt.kind == "" && err != nil, tt.kind != "" && diag.KindOf(err) != tt.kind:
					t.Errorf("%v is of kind %q", err, diag.KindOf(err))
				case err != nil && !strings.Contains(err.Error(), "gauge.go: Clamp"):
					t.Error(err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := chatservertest.Start(t, func(int, chatservertest.Asked) chatservertest.Deed { return chatservertest.Hangs })
		m, f := asking(t, s, journal(t, ""), gauge(t))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := m.written(ctx, f, new(Written)); diag.KindOf(err) != diag.KindInterrupted {
			t.Error(err)
		}
	})
}

// A record can be made of what a model wrote alone.
func TestAuthor(t *testing.T) {
	s := chatservertest.Start(t, func(_ int, q chatservertest.Asked) chatservertest.Deed {
		b, _ := json.Marshal(q.Body)
		if !strings.Contains(string(b), "faulty versions of shipping as") {
			return writes(t)
		}
		return writes(t, "weight < 1000", "weight < 3000",
			"return 4\n", "return 4  # wrong\n", // gives itself away
			"weight <= 0", "weight <= 0:", // does not compile
			"if weight <= 0:\n        return 0", "if weight <= 0:\n\n        return (0)") // the same code
	})
	client := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Transport: s.Transport})
	defer client.Close()
	o := Options{Author: &Author{Model: scoring.OpenAI(client, "m"), Name: "m", Alone: true}, Repeats: 1, Tries: 4}
	name := filepath.Join(t.TempDir(), "journal")
	sandboxes := boxes(t)
	records, y, err := gather(t, sandboxes, shop(t), "", journal(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Written{Functions: 3, Mistakes: 4, Unfit: 3, Caught: 1, PromptTokens: 300, CompletionTokens: 30}, y.Written); d != "" || len(records) != 1 || y.Tried != 1 {
		t.Fatalf("%+v %s", y, d)
	}
	r := &records[0]
	if !strings.Contains(r.Patch, "+    if weight < 1000:") || r.Meta[0] != (sdk.Pair{Key: "operator", Value: byModel}) || len(r.FailToPass) == 0 {
		t.Errorf("%+v %s", r.Meta, r.Patch)
	}
	asked := len(s.Asked())
	if _, y, err := gather(t, sandboxes, shop(t), "", journal(t, name), o); err != nil || len(s.Asked()) != asked || y.Written.PromptTokens != 0 || y.Records != 1 {
		t.Errorf("%v, asked %d times more, %+v", err, len(s.Asked())-asked, y.Written)
	}
}

// An edit says what it is to say, and no byte more than it must.
func TestNarrowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("aé\n")), 0, 12, -1)
		before, text, version, after := word.Draw(t, "before"), word.Draw(t, "text"), word.Draw(t, "version"), word.Draw(t, "after")
		e := narrowed(len(before), text, version)
		if got := string(e.apply([]byte(before + text + after))); got != before+version+after {
			t.Fatalf("%+v gives %q", e, got)
		}
		if old := text[e.Start-len(before) : e.End-len(before)]; old != "" && e.New != "" && (old[0] == e.New[0] || old[len(old)-1] == e.New[len(e.New)-1]) {
			t.Fatalf("%+v replaces %q", e, old)
		}
	})
}

func TestLinesOfAFunction(t *testing.T) {
	for _, tt := range []struct {
		first, last int
		want        string
	}{{1, 1, "a\n"}, {2, 3, "b\n\n"}, {4, 4, "c"}, {1, 9, ""}, {5, 5, ""}} {
		data := []byte("a\nb\n\nc")
		if from, to := lines(data, tt.first, tt.last); string(data[from:to]) != tt.want {
			t.Errorf("%+v: %q", tt, data[from:to])
		}
	}
}
