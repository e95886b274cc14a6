package scoring

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring/modeltest"
	"github.com/valence-rl/valence/sdk"
)

// model is the model "m" at s.
func model(s *modeltest.Server, o chatserver.Options) *OpenAIModel {
	o.Endpoints = []string{s.URL + "/"}
	return OpenAI(chatserver.New(o), "m")
}

func question(r sdk.ModelRequest) *sdk.ModelRequest {
	r.Messages = []sdk.ModelMessage{{Role: "system", Content: "be brief"}, {Role: "user", Content: "well?"}}
	return &r
}

func TestQuestionOnTheWire(t *testing.T) {
	s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) { modeltest.Says(w, "one", "two", "three") })
	m := model(s, chatserver.Options{Key: "secret", Prices: chatserver.Prices{Input: 2, Output: 10}})
	a, err := m.Complete(t.Context(), question(sdk.ModelRequest{Temperature: 0.5, MaxTokens: 7, Seed: 1<<33 + 5, N: 2, Schema: `{"type":"object"}`}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Answer{Texts: []string{"one", "two"}, PromptTokens: 1000, CompletionTokens: 20, Cost: 0.0022}, a); d != "" {
		t.Error(d)
	}
	messages := []any{map[string]any{"role": "system", "content": "be brief"}, map[string]any{"role": "user", "content": "well?"}}
	want := map[string]any{
		"model": "m", "messages": messages, "temperature": 0.5, "max_tokens": 7.0, "seed": 7.0, "n": 2.0,
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true, "schema": map[string]any{"type": "object"}}},
	}
	if d := cmp.Diff(want, s.Requests()[0]); d != "" {
		t.Error(d)
	}
	if got := s.Headers()[0].Get("Authorization"); got != "Bearer secret" {
		t.Errorf("authorization %q", got)
	}
	if _, err := m.Complete(t.Context(), question(sdk.ModelRequest{})); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"model": "m", "messages": messages, "temperature": 0.0}, s.Requests()[1]); d != "" {
		t.Error(d)
	}
}

// What the server does instead of answering is a failure of the judge's, and no answer.
func TestNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		reply func(http.ResponseWriter)
		err   string
	}{
		"wrong key": {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusUnauthorized) }, "401 Unauthorized"},
		"no model":  {func(w http.ResponseWriter) { http.Error(w, "not here", http.StatusNotFound) }, "404 Not Found: not here"},
		"too long": {func(w http.ResponseWriter) {
			http.Error(w, "maximum context length is 5 tokens", http.StatusBadRequest)
		}, "maximum context length"},
		"broken":      {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) }, "500 Internal Server Error: no (attempt 1 of 1)"},
		"other shape": {func(w http.ResponseWriter) { io.WriteString(w, "<html>") }, "not a chat completion"},
		"too few":     {func(w http.ResponseWriter) { modeltest.Says(w, "one") }, "1 choices of 2"},
		"refusal": {func(w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"message":{"content":null,"refusal":"I will not"}},{"index":1,"message":{"content":"x"}}]}`)
		}, "the model refuses: I will not"},
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) { tt.reply(w) })
			m := model(s, chatserver.Options{Attempts: 1})
			a, err := m.Complete(t.Context(), question(sdk.ModelRequest{N: 2}))
			if a != nil || err == nil || diag.KindOf(err) != diag.KindJudge || !strings.HasPrefix(err.Error(), "ask model: m: "+s.URL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, error %v, want one of kind judge with %q", a, err, tt.err)
			}
		})
	}
}

func TestServerWithoutSchemas(t *testing.T) {
	for _, code := range []int{400, 422} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, asked map[string]any) {
				if asked["response_format"] != nil {
					http.Error(w, "unknown field", code)
					return
				}
				modeltest.Says(w, "fine")
			})
			m := model(s, chatserver.Options{})
			for range 2 {
				if a, err := m.Complete(t.Context(), question(sdk.ModelRequest{Schema: "{}"})); err != nil || a.Texts[0] != "fine" {
					t.Fatal(a, err)
				}
			}
			if n := len(s.Requests()); n != 3 {
				t.Errorf("asked %d times, want 3: the server's way is remembered", n)
			}
		})
	}
}

// A question that is refused with and without its schema says nothing about schemas.
func TestRefusalOfAQuestionIsNotOneOfSchemas(t *testing.T) {
	long := true
	s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) {
		if long {
			http.Error(w, "too many tokens", http.StatusBadRequest)
			return
		}
		modeltest.Says(w, "{}")
	})
	m := model(s, chatserver.Options{})
	if _, err := m.Complete(t.Context(), question(sdk.ModelRequest{Schema: "{}"})); err == nil || !strings.Contains(err.Error(), "too many tokens") {
		t.Error(err)
	}
	long = false
	if _, err := m.Complete(t.Context(), question(sdk.ModelRequest{Schema: "{}"})); err != nil {
		t.Error(err)
	}
	if got := s.Requests(); len(got) != 3 || got[2]["response_format"] == nil {
		t.Errorf("%v", got)
	}
}

func TestQuestionThatCannotBeSent(t *testing.T) {
	s := modeltest.Recorded(t, nil)
	m := model(s, chatserver.Options{})
	for _, r := range []sdk.ModelRequest{{Schema: "{"}, {Temperature: nan()}} {
		if _, err := m.Complete(t.Context(), question(r)); diag.KindOf(err) != diag.KindPlugin || len(s.Requests()) != 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
