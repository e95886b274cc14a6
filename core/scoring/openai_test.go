package scoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring/modeltest"
	"github.com/valence-rl/valence/sdk"
)

// unpaused is the model at s that notes its pauses and does not make them.
func unpaused(s *modeltest.Server, e Endpoint) (*OpenAIModel, *[]time.Duration) {
	e.BaseURL, e.Name = s.URL+"/", "m"
	m := OpenAI(e)
	var pauses []time.Duration
	m.pause = func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}
	return m, &pauses
}

func question(r sdk.ModelRequest) *sdk.ModelRequest {
	r.Messages = []sdk.ModelMessage{{Role: "system", Content: "be brief"}, {Role: "user", Content: "well?"}}
	return &r
}

func TestQuestionOnTheWire(t *testing.T) {
	s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) { modeltest.Says(w, "one", "two", "three") })
	m, _ := unpaused(s, Endpoint{Key: "secret", InputPrice: 2, OutputPrice: 10})
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

func TestAttempts(t *testing.T) {
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, "not now", code)
		}
	}
	cut := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("{"))
	}
	raw := func(s string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { io.WriteString(w, s) }
	}
	const half = 500 * time.Millisecond
	for _, tt := range []struct {
		name    string
		replies []func(http.ResponseWriter) // then "fine"
		asked   int
		pauses  []time.Duration
		err     string // "" for an answer
	}{
		{"at once", nil, 1, nil, ""},
		{"busy, then fine", []func(http.ResponseWriter){status(429)}, 2, []time.Duration{half}, ""},
		{"busy, with a time", []func(http.ResponseWriter){status(429, "Retry-After", "7"), status(503)}, 3, []time.Duration{7 * time.Second, 2 * half}, ""},
		{"a time shorter than ours", []func(http.ResponseWriter){status(429, "Retry-After", "0")}, 2, []time.Duration{half}, ""},
		{"a time beyond the deadline", []func(http.ResponseWriter){status(429, "Retry-After", "7200")}, 1, nil, "no time is left to try again in 2h0m0s"},
		{"cut off", []func(http.ResponseWriter){cut, cut}, 3, []time.Duration{half, 2 * half}, ""},
		{"slow request", []func(http.ResponseWriter){status(408)}, 2, []time.Duration{half}, ""},
		{"broken for good", slices.Repeat([]func(http.ResponseWriter){status(500)}, 9), 4, []time.Duration{half, 2 * half, 4 * half}, "500 Internal Server Error: not now (attempt 4 of 4)"},
		{"no such model", []func(http.ResponseWriter){status(404)}, 1, nil, "404 Not Found: not now"},
		{"wrong key", []func(http.ResponseWriter){status(401)}, 1, nil, "401 Unauthorized"},
		{"no choice", []func(http.ResponseWriter){raw(`{"choices":[]}`)}, 1, nil, "0 choices of 1"},
		{"no choices", []func(http.ResponseWriter){raw(`{"error":{"message":"overloaded"}}`)}, 1, nil, `0 choices of 1: {"error":{"message":"overloaded"}}`},
		{"another shape", []func(http.ResponseWriter){raw(`{"choices":[{"message":["yes"]}]}`)}, 1, nil, "not a chat completion"},
		{"a list", []func(http.ResponseWriter){raw(`[1,2]`)}, 1, nil, "not a chat completion"},
		{"nothing", []func(http.ResponseWriter){raw(``)}, 1, nil, "not a chat completion"},
		{"too much", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"message":{"content":"`)
			io.Copy(w, io.LimitReader(endless{}, maxAnswer))
			io.WriteString(w, `"}}]}`)
		}}, 1, nil, "the answer is longer than 16 MiB"},
		{"another protocol", []func(http.ResponseWriter){raw(`<html>`)}, 1, nil, "not a chat completion"},
		{"refusal", []func(http.ResponseWriter){raw(`{"choices":[{"message":{"content":null,"refusal":"I will not"}}]}`)}, 1, nil, "the model refuses: I will not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := modeltest.Recorded(t, func(n int, w http.ResponseWriter, _ map[string]any) {
				if n <= len(tt.replies) {
					tt.replies[n-1](w)
					return
				}
				modeltest.Says(w, "fine")
			})
			m, pauses := unpaused(s, Endpoint{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			a, err := m.Complete(ctx, question(sdk.ModelRequest{}))
			if got := len(s.Requests()); got != tt.asked {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
			if !slices.Equal(*pauses, tt.pauses) {
				t.Errorf("pauses %v, want %v", *pauses, tt.pauses)
			}
			if tt.err == "" {
				if err != nil || a.Texts[0] != "fine" {
					t.Errorf("%+v, %v", a, err)
				}
				return
			}
			if a != nil || err == nil || diag.KindOf(err) != diag.KindJudge || !strings.HasPrefix(err.Error(), "ask model: m: "+s.URL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, error %v, want one of kind judge with %q", a, err, tt.err)
			}
		})
	}
}

// endless reads as one letter over and over.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestNoServer(t *testing.T) {
	s := modeltest.Recorded(t, nil)
	m, pauses := unpaused(s, Endpoint{})
	s.Close()
	_, err := m.Complete(t.Context(), question(sdk.ModelRequest{}))
	if diag.KindOf(err) != diag.KindJudge || len(*pauses) != attempts-1 {
		t.Errorf("%v after pauses %v", err, *pauses)
	}
}

func TestAnAttemptEnds(t *testing.T) {
	over := make(chan struct{})
	s := modeltest.Recorded(t, func(n int, w http.ResponseWriter, _ map[string]any) {
		if n == 1 {
			<-over // later than any limit: the client has gone
			return
		}
		modeltest.Says(w, "fine")
	})
	defer close(over)
	m, pauses := unpaused(s, Endpoint{Timeout: 50 * time.Millisecond})
	m.pause = func(context.Context, time.Duration) error {
		*pauses = append(*pauses, 0)
		m.Timeout = time.Minute
		return nil
	}
	if a, err := m.Complete(t.Context(), question(sdk.ModelRequest{})); err != nil || a.Texts[0] != "fine" || len(*pauses) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestGivingUpEndsAnAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	over := make(chan struct{})
	s := modeltest.Recorded(t, func(int, http.ResponseWriter, map[string]any) {
		cancel(why)
		<-over
	})
	defer close(over)
	m, _ := unpaused(s, Endpoint{})
	if _, err := m.Complete(ctx, question(sdk.ModelRequest{})); !errors.Is(err, why) || len(s.Requests()) != 1 {
		t.Errorf("%v after %d requests", err, len(s.Requests()))
	}
}

func TestPlaces(t *testing.T) {
	const places = 3
	var mu sync.Mutex
	under, most := 0, 0
	full, free := make(chan struct{}), make(chan struct{})
	s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) {
		mu.Lock()
		under++
		if most = max(most, under); under == places && most == places {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-free
		mu.Lock()
		under--
		mu.Unlock()
		modeltest.Says(w, "fine")
	})
	m, _ := unpaused(s, Endpoint{Concurrency: places})
	var wg sync.WaitGroup
	for range 4 * places {
		wg.Go(func() {
			if _, err := m.Complete(t.Context(), question(sdk.ModelRequest{})); err != nil {
				t.Error(err)
			}
		})
	}
	<-full
	// All places are taken: whoever gives up while waiting does not hang.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Complete(gone, question(sdk.ModelRequest{})); !errors.Is(err, context.Canceled) || diag.KindOf(err) != diag.KindJudge {
		t.Error(err)
	}
	close(free)
	wg.Wait()
	if most != places {
		t.Errorf("%d at once, want %d", most, places)
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
			m, pauses := unpaused(s, Endpoint{})
			for range 2 {
				if a, err := m.Complete(t.Context(), question(sdk.ModelRequest{Schema: "{}"})); err != nil || a.Texts[0] != "fine" {
					t.Fatal(a, err)
				}
			}
			if n := len(s.Requests()); n != 3 || len(*pauses) != 0 {
				t.Errorf("asked %d times with pauses %v, want 3: the server's way is remembered", n, *pauses)
			}
		})
	}
}

// A question that is refused with and without its schema says nothing about schemas.
func TestRefusalOfAQuestionIsNotOneOfSchemas(t *testing.T) {
	long := true
	s := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) {
		if long {
			http.Error(w, "too many tokens", 400)
			return
		}
		modeltest.Says(w, "{}")
	})
	m, _ := unpaused(s, Endpoint{})
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
	m, _ := unpaused(s, Endpoint{})
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

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-3": 0, "2": 2 * time.Second, "99999999999": 24 * time.Hour, "100000": 24 * time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1}}`), int64(1))
	f.Add([]byte(`{"choices":[{"message":{"refusal":"x"}}]}`), int64(2))
	m := OpenAI(Endpoint{})
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		n = max(1, n)
		if a, err := m.read(b, n); (a == nil) == (err == nil) || a != nil && int64(len(a.Texts)) != n {
			t.Fatalf("%+v, %v", a, err)
		}
	})
}
