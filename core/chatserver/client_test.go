package chatserver_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/chatserver/chatservertest"
)

type (
	deed  = chatservertest.Deed
	asked = chatservertest.Asked
)

// bubble runs f with a client of a server that answers the n-th request with the n-th
// deed, and fine after them. Time is the bubble's: it passes when all wait.
func bubble(t *testing.T, o chatserver.Options, deeds []deed, f func(*testing.T, *chatserver.Client, *chatservertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := chatservertest.Start(t, func(n int, _ asked) deed {
			if n <= len(deeds) {
				return deeds[n-1]
			}
			return chatservertest.Says("fine")
		})
		if o.Endpoints == nil {
			o.Endpoints = []string{"http://one/v1/"}
		}
		o.Transport = s.Transport
		c := chatserver.New(o)
		f(t, c, s)
		c.Close()
		synctest.Wait()
		if n := s.Open(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

func question() *chatserver.Question {
	return &chatserver.Question{Body: map[string]any{"model": "m", "messages": []any{}}}
}

func TestQuestionOnTheWire(t *testing.T) {
	bubble(t, chatserver.Options{Key: "secret", Prices: chatserver.Prices{Input: 2, Output: 10}}, nil, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
		q := question()
		q.Session = "eval-1"
		a, err := c.Ask(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want := &chatserver.Answer{
			Choices: []chatserver.Choice{{Content: "fine", Finish: "stop"}}, Usage: chatserver.Usage{Prompt: 100, Completion: 10},
			Cost: 0.0003, Endpoint: "http://one/v1/chat/completions", Attempts: 1,
		}
		if d := cmp.Diff(want, a); d != "" {
			t.Error(d)
		}
		got := s.Asked()[0]
		if d := cmp.Diff(map[string]any{"model": "m", "messages": []any{}}, got.Body); d != "" {
			t.Error(d)
		}
		if got.Header.Get("Authorization") != "Bearer secret" || got.Header.Get("X-Session-ID") != "eval-1" {
			t.Errorf("header %v", got.Header)
		}
		q.Stream, q.Session = true, "line\nbreak"
		if _, err := c.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		got = s.Asked()[1]
		if got.Body["stream"] != true || got.Header.Get("X-Session-ID") != "line_break" {
			t.Errorf("%v, %v", got.Body, got.Header)
		}
	})
}

// Every misdeed is seen as the fault it is, tried again if that may help, and answered
// in the end.
func TestMisdeeds(t *testing.T) {
	passing := map[string]bool{"busy": true, "broken": true, "slow": true, "cut": true, "garbled": true}
	for _, m := range chatservertest.Misdeeds() {
		t.Run(m.Name, func(t *testing.T) {
			bubble(t, chatserver.Options{Key: "secret"}, []deed{m.Deed}, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
				q := question()
				q.Stream = true
				a, err := c.Ask(t.Context(), q)
				faults := map[chatserver.Fault]int{}
				if m.Fault != "" {
					faults[chatserver.Fault(m.Fault)] = 1
				}
				if d := cmp.Diff(faults, c.Faults()); d != "" {
					t.Errorf("%v: %s", err, d)
				}
				requests := 1
				if passing[m.Fault] {
					requests = 2
				}
				if n := len(s.Asked()); n != requests {
					t.Errorf("asked %d times, want %d", n, requests)
				}
				if m.Fault == "" || passing[m.Fault] {
					if err != nil || a.Attempts != requests {
						t.Errorf("%+v, %v", a, err)
					}
					return
				}
				var no *chatserver.Error
				if a != nil || !errors.As(err, &no) || string(no.Fault) != m.Fault || no.Attempts != 1 || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "http://one/v1/chat/completions: ") {
					t.Errorf("%+v, %v", a, err)
				}
			})
		})
	}
}

func TestOverflows(t *testing.T) {
	for _, o := range chatservertest.Overflows {
		t.Run(o.Name, func(t *testing.T) {
			bubble(t, chatserver.Options{}, []deed{o.Deed}, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
				q := question()
				q.Stream, q.Plain = true, question().Body
				_, err := c.Ask(t.Context(), q)
				var no *chatserver.Error
				if !errors.As(err, &no) || no.Fault != chatserver.TooLong || len(s.Asked()) != 1 {
					t.Fatalf("%v after %d requests", err, len(s.Asked()))
				}
				if d := cmp.Diff(chatserver.Room{Limit: o.Limit, Prompt: o.Prompt}, no.Room); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// What is no overflow must not be taken for one: it would end an episode as if the
// model had filled its context.
func TestNoOverflow(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"temperature exceeds the maximum of 2"}}`,
		`{"error":{"message":"the maximum number of requests is exceeded"}}`,
		`{"detail":"Unexpected fields in the request: {'return_token_ids'}"}`,
		`{"error":{"message":"context deadline exceeded"}}`,
		`{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","code":"insufficient_quota"}}`,
		`{"error":{"message":"max_tokens must be at least 1, got 0"}}`,
	} {
		for _, code := range []int{400, 422, 500} {
			bubble(t, chatserver.Options{Attempts: 1}, []deed{chatservertest.Status(code, body)}, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
				var no *chatserver.Error
				if _, err := c.Ask(t.Context(), question()); !errors.As(err, &no) || no.Fault == chatserver.TooLong {
					t.Errorf("%s: %v", body, err)
				}
			})
		}
	}
}

// Pauses double, are scattered below themselves, and are never shorter than the server
// asks for.
func TestPauses(t *testing.T) {
	const half, second = 500 * time.Millisecond, time.Second
	busy := func(header ...string) deed { return chatservertest.Status(429, "", header...) }
	for _, tt := range []struct {
		name     string
		deeds    []deed
		from, to time.Duration
		err      string
	}{
		{"none", nil, 0, 0, ""},
		{"one", []deed{busy()}, half / 2, half, ""},
		{"three", []deed{busy(), busy(), busy()}, (half + second + 2*second) / 2, half + second + 2*second, ""},
		{"with a time", []deed{busy("Retry-After", "7")}, 7 * second, 7 * second, ""},
		{"a time shorter than ours", []deed{busy("Retry-After", "0")}, half / 2, half, ""},
		{"the last has none", []deed{busy(), busy(), busy(), busy("Retry-After", "9")}, (half + second + 2*second) / 2, half + second + 2*second, "(attempt 4 of 4)"},
		{"a time beyond the deadline", []deed{busy("Retry-After", "7200")}, 0, 0, "no time is left to try again in 2h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, chatserver.Options{}, tt.deeds, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun := time.Now()
				_, err := c.Ask(ctx, question())
				if took := time.Since(begun); took < tt.from || took > tt.to {
					t.Errorf("%v, want %v to %v", took, tt.from, tt.to)
				}
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Error(err)
				}
			})
		})
	}
}

// A server that wants to be left alone is left alone by everybody.
func TestStorm(t *testing.T) {
	var mu sync.Mutex
	var times []time.Duration
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := chatservertest.Start(t, func(n int, _ asked) deed {
			mu.Lock()
			times = append(times, time.Since(begun))
			mu.Unlock()
			if n == 1 {
				return chatservertest.Status(429, "", "Retry-After", "30")
			}
			return chatservertest.Says("fine")
		})
		c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Concurrency: 64, Transport: s.Transport})
		defer c.Close()
		var wg sync.WaitGroup
		for i := range 41 {
			wg.Go(func() {
				if i > 0 {
					time.Sleep(time.Duration(i) * time.Second / 10) // of the bubble
				}
				if _, err := c.Ask(t.Context(), question()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	if len(times) != 42 {
		t.Fatalf("%d requests, want 42", len(times))
	}
	for _, at := range times[1:] {
		if at < 30*time.Second {
			t.Errorf("asked at %v", at)
		}
	}
}

// An answer to an earlier question does not end a pause.
func TestPauseOutlastsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var last atomic.Int64
		s := chatservertest.Start(t, func(n int, _ asked) deed {
			last.Store(int64(time.Since(begun)))
			switch n {
			case 1:
				return func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(2 * time.Second) // of the bubble
					chatservertest.Says("fine")(w, r)
				}
			case 2:
				return chatservertest.Status(429, "", "Retry-After", "30")
			}
			return chatservertest.Says("fine")
		})
		c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Attempts: 1, Transport: s.Transport})
		defer c.Close()
		var wg sync.WaitGroup
		for _, at := range []time.Duration{0, time.Second, 3 * time.Second} {
			wg.Go(func() {
				time.Sleep(at) // of the bubble
				c.Ask(t.Context(), question())
			})
		}
		wg.Wait()
		if at := time.Duration(last.Load()); at < 31*time.Second {
			t.Errorf("asked again after %v", at)
		}
	})
}

// Nobody waits for a server that asks for more time than there is.
func TestPauseBeyondTheDeadline(t *testing.T) {
	bubble(t, chatserver.Options{}, []deed{chatservertest.Status(503, "", "Retry-After", "3600")}, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, want := range []chatserver.Fault{chatserver.Broken, chatserver.Busy} {
			_, err := c.Ask(ctx, question())
			var no *chatserver.Error
			if !errors.As(err, &no) || no.Fault != want || !strings.Contains(err.Error(), "no time is left to try again in 1h0m0s") {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took != 0 || len(s.Asked()) != 1 {
			t.Errorf("%d requests in %v", len(s.Asked()), took)
		}
	})
}

func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Transport: &http.Transport{DialContext: refuse}})
		var no *chatserver.Error
		if _, err := c.Ask(t.Context(), question()); !errors.As(err, &no) || no.Fault != chatserver.Cut || no.Attempts != 4 {
			t.Error(err)
		}
	})
}

func TestReach(t *testing.T) {
	for _, tt := range []struct {
		name  string
		there map[string]deed // by host
		fault chatserver.Fault
	}{
		{"both", map[string]deed{"one": chatservertest.JSON(`{"data":[]}`), "two": chatservertest.JSON(`{"data":[]}`)}, ""},
		{"no list of models", map[string]deed{"one": chatservertest.Status(404, ""), "two": chatservertest.Status(500, "")}, ""},
		{"one of them", map[string]deed{"one": chatservertest.Cuts, "two": chatservertest.JSON(`{}`)}, ""},
		{"none", map[string]deed{"one": chatservertest.Cuts, "two": chatservertest.Hangs}, chatserver.Cut},
		{"silent", map[string]deed{"one": chatservertest.Hangs, "two": chatservertest.Hangs}, chatserver.Slow},
		{"one refuses the key", map[string]deed{"one": chatservertest.JSON(`{}`), "two": chatservertest.Status(401, "who are you?")}, chatserver.Denied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := chatservertest.Start(t, func(_ int, a asked) deed { return tt.there[a.Host] })
				c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1", "http://two/v1"}, Key: "secret", Transport: s.Transport})
				defer c.Close()
				err := c.Reach(t.Context())
				var no *chatserver.Error
				if tt.fault == "" && err != nil || tt.fault != "" && (!errors.As(err, &no) || no.Fault != tt.fault || strings.Contains(err.Error(), "secret")) {
					t.Error(err)
				}
			})
		})
	}
}

func TestGivingUp(t *testing.T) {
	why := errors.New("enough")
	for _, tt := range []struct {
		name  string
		deeds []deed
		fault chatserver.Fault
	}{
		{"silent", []deed{chatservertest.Hangs}, chatserver.Slow},
		{"writing", []deed{chatservertest.Then(chatservertest.Streams(chatservertest.Piece("x")), chatservertest.Hangs)}, chatserver.Ended},
		{"writing after a failure", []deed{chatservertest.Status(500, ""), chatservertest.Then(chatservertest.Streams(chatservertest.Piece("x")), chatservertest.Hangs)}, chatserver.Slow},
		{"between attempts", []deed{chatservertest.Status(503, "", "Retry-After", "60")}, chatserver.Broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, chatserver.Options{}, tt.deeds, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(5*time.Second, func() { cancel(why) })
				q := question()
				q.Stream = true
				_, err := c.Ask(ctx, q)
				var no *chatserver.Error
				if !errors.As(err, &no) || no.Fault != tt.fault || len(s.Asked()) != len(tt.deeds) {
					t.Errorf("%v after %d requests", err, len(s.Asked()))
				}
				if tt.fault != chatserver.Broken && !errors.Is(err, why) {
					t.Error(err)
				}
				cancel(nil)
			})
		})
	}
}

func TestPlaces(t *testing.T) {
	const places = 3
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under, most := 0, 0
		s := chatservertest.Start(t, func(int, asked) deed {
			return func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				under++
				most = max(most, under)
				mu.Unlock()
				time.Sleep(time.Second) // of the bubble
				mu.Lock()
				under--
				mu.Unlock()
				chatservertest.Says("fine")(w, r)
			}
		})
		c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Concurrency: places, Transport: s.Transport})
		defer c.Close()
		var wg sync.WaitGroup
		for range 4 * places {
			wg.Go(func() {
				if _, err := c.Ask(t.Context(), question()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		// All places are taken: whoever gives up while waiting does not hang.
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Ask(gone, question()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		wg.Wait()
		if most != places {
			t.Errorf("%d at once, want %d", most, places)
		}
	})
}

func TestRequestsAMinute(t *testing.T) {
	bubble(t, chatserver.Options{RequestsPerMinute: 30}, nil, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
		begun := time.Now()
		for range 30 + 15 {
			if _, err := c.Ask(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); math.Abs(took.Seconds()-30) > 0.1 {
			t.Errorf("%v, want 30 s for the 15 beyond the first minute's", took)
		}
	})
}

// An answer is 110 tokens, and what a question takes before is settled by it.
func TestTokensAMinute(t *testing.T) {
	bubble(t, chatserver.Options{TokensPerMinute: 1100}, nil, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
		begun := time.Now()
		for range 10 + 10 + 1 {
			if _, err := c.Ask(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 55*time.Second || took > 61*time.Second {
			t.Errorf("%v, want about a minute", took)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for range 20 {
			if _, err := c.Ask(gone, question()); err != nil {
				return
			}
		}
		t.Error("a limit beyond the deadline is not an error")
	})
}

func TestSessionsStay(t *testing.T) {
	three := []string{"http://one/v1", "http://two/v1", "http://three/v1"}
	bubble(t, chatserver.Options{Endpoints: three}, nil, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
		hosts := map[string]int{}
		for i := range 60 {
			at := map[string]bool{}
			for range 3 {
				q := question()
				q.Session = fmt.Sprintf("episode-%d", i)
				a, err := c.Ask(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				at[a.Endpoint] = true
			}
			if len(at) != 1 {
				t.Errorf("session %d is at %v", i, at)
			}
			for h := range at {
				hosts[h]++
			}
		}
		if len(hosts) != 3 {
			t.Errorf("sessions are at %v", hosts)
		}
		for h, n := range hosts {
			if n < 8 {
				t.Errorf("%s has %d of 60 sessions", h, n)
			}
		}
	})
}

// Sessions of an endpoint that fails go on elsewhere, and those of others stay.
func TestAnEndpointFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := "two"
		s := chatservertest.Start(t, func(_ int, a asked) deed {
			if a.Host == dead {
				return chatservertest.Cuts
			}
			return chatservertest.Says("fine")
		})
		c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1", "http://two/v1"}, Transport: s.Transport})
		defer c.Close()
		for i := range 20 {
			q := question()
			q.Session = fmt.Sprintf("episode-%d", i)
			a, err := c.Ask(t.Context(), q)
			if err != nil || !strings.HasPrefix(a.Endpoint, "http://one/") {
				t.Errorf("%+v, %v", a, err)
			}
		}
	})
}

func TestServersWithoutOptionalFields(t *testing.T) {
	for _, code := range []int{400, 422} {
		synctest.Test(t, func(t *testing.T) {
			s := chatservertest.Start(t, func(_ int, a asked) deed {
				if a.Body["logprobs"] != nil {
					return chatservertest.Status(code, "unknown field")
				}
				return chatservertest.Says("fine")
			})
			c := chatserver.New(chatserver.Options{Endpoints: []string{"http://one/v1"}, Transport: s.Transport})
			defer c.Close()
			for range 2 {
				q := question()
				q.Plain = question().Body
				q.Body["logprobs"] = true
				if _, err := c.Ask(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(s.Asked()); n != 3 || len(c.Faults()) != 0 {
				t.Errorf("asked %d times, faults %v; want 3: the server's way is remembered", n, c.Faults())
			}
		})
	}
}

// A question that is refused with and without its optional fields says nothing about
// them.
func TestRefusalOfAQuestionIsNotOneOfItsFields(t *testing.T) {
	no := chatservertest.Status(400, "no")
	bubble(t, chatserver.Options{}, []deed{no, no}, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
		q := question()
		q.Plain = question().Body
		q.Body["logprobs"] = true
		if _, err := c.Ask(t.Context(), q); err == nil {
			t.Error("no error")
		}
		if _, err := c.Ask(t.Context(), q); err != nil {
			t.Error(err)
		}
		if got := s.Asked(); len(got) != 3 || got[2].Body["logprobs"] != true {
			t.Errorf("%v", got)
		}
	})
}

func TestPieces(t *testing.T) {
	half := chatservertest.Then(chatservertest.Streams(chatservertest.Piece("wro")), chatservertest.Cuts)
	whole := chatservertest.Streams(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm "}}]}`, chatservertest.Piece("fi"), chatservertest.Piece("ne"), chatservertest.Stop, chatservertest.Done)
	bubble(t, chatserver.Options{}, []deed{half, whole}, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
		var got []string
		q := question()
		q.Stream = true
		q.Piece = func(s string) { got = append(got, s) }
		q.Retried = func() { got = append(got, "again") }
		a, err := c.Ask(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"wro", "again", "hm ", "\nfi", "ne"}, got); d != "" {
			t.Error(d)
		}
		if x := a.Choices[0]; x.Content != "fine" || x.Reasoning != "hm " {
			t.Errorf("%+v", x)
		}
	})
}

func TestCallsAreRead(t *testing.T) {
	want := map[string][]chatserver.Call{
		"calls out of order":         {{ID: "a", Name: "bash", Arguments: `{"command":"pwd"}`}, {ID: "b", Name: "bash", Arguments: `{"command":"ls"}`}},
		"fragments without an index": {{ID: "a", Name: "bash", Arguments: `{"command":"ls"}`}},
		"name in every fragment":     {{ID: "a", Name: "bash", Arguments: `{"command":"ls"}`}},
		"an object for arguments":    {{ID: "a", Name: "bash", Arguments: `{"command":"ls"}`}},
		"arguments cut short":        {{ID: "a", Name: "bash", Arguments: `{"command":"l`}},
	}
	for _, m := range chatservertest.Misdeeds() {
		calls, ok := want[m.Name]
		if !ok {
			continue
		}
		delete(want, m.Name)
		bubble(t, chatserver.Options{}, []deed{m.Deed}, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
			a, err := c.Ask(t.Context(), question())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(calls, a.Choices[0].Calls); d != "" {
				t.Errorf("%s: %s", m.Name, d)
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("not looked at: %v", want)
	}
}

// Token ids as vLLM streams them, and as it and SGLang give them whole.
func TestTokens(t *testing.T) {
	vllm := chatservertest.JSON(`{"prompt_token_ids":[1,2,3],"choices":[{"index":0,"message":{"content":"ab"},"token_ids":[7,8],"logprobs":{"content":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-0.25}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}}`)
	stream := chatservertest.Streams(
		`{"prompt_token_ids":[1,2,3],"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[7],"logprobs":{"content":[{"logprob":-0.5}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"b"},"token_ids":[8],"logprobs":{"content":[{"logprob":-0.25}]},"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}}`, chatservertest.Done)
	sglang := chatservertest.JSON(`{"choices":[{"index":0,"message":{"content":"ab"},"finish_reason":"stop","prompt_token_ids":[1,2,3],"meta_info":{"output_token_logprobs":[[-0.5,7,"a"],[-0.25,8,null]]}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}}`)
	bubble(t, chatserver.Options{Prices: chatserver.Prices{Input: 10, Cached: 1, Output: 100}}, []deed{vllm, stream, sglang}, func(t *testing.T, c *chatserver.Client, _ *chatservertest.Server) {
		for _, name := range []string{"vLLM", "vLLM, streaming", "SGLang"} {
			a, err := c.Ask(t.Context(), question())
			if err != nil {
				t.Fatal(name, err)
			}
			a.Took, a.Endpoint = 0, ""
			want := &chatserver.Answer{
				Choices:        []chatserver.Choice{{Content: "ab", Finish: "stop", TokenIDs: []int{7, 8}, Logprobs: []float32{-0.5, -0.25}}},
				PromptTokenIDs: []int{1, 2, 3}, Usage: chatserver.Usage{Prompt: 3, Cached: 2, Completion: 2}, Cost: (10 + 2*1 + 2*100) / 1e6, Attempts: 1,
			}
			if d := cmp.Diff(want, a); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	})
}

func TestQuestionThatCannotBeSent(t *testing.T) {
	bubble(t, chatserver.Options{}, nil, func(t *testing.T, c *chatserver.Client, s *chatservertest.Server) {
		q := question()
		q.Body["temperature"] = math.NaN()
		var no *chatserver.Error
		if _, err := c.Ask(t.Context(), q); !errors.As(err, &no) || no.Fault != chatserver.Yours || len(s.Asked()) != 0 {
			t.Error(err)
		}
	})
}
