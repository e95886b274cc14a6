package served_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/chatserver/chatservertest"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/served"
	"github.com/valence-rl/valence/sdk"
)

type deed = chatservertest.Deed

// world is a session with a server that answers with one deed after the other, and
// with a final message after them.
type world struct {
	*testing.T
	server  *chatservertest.Server
	client  *chatserver.Client
	session policy.Session
}

func (w *world) next(observation string) policy.Turn {
	w.Helper()
	turn, err := w.session.Next(w.Context(), observation)
	if err != nil {
		w.Fatal(err)
	}
	return turn
}

// messages are those of the n-th request, from 0, a line each.
func (w *world) messages(n int) []string {
	var out []string
	ms, _ := w.server.Asked()[n].Body["messages"].([]any)
	for _, m := range ms {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.Encode(m)
		out = append(out, strings.TrimSpace(b.String()))
	}
	return out
}

type setting struct {
	client chatserver.Options
	policy served.Options
	open   policy.Opening
}

func play(t *testing.T, s setting, deeds []deed, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := chatservertest.Start(t, func(n int, _ chatservertest.Asked) deed {
			if n <= len(deeds) {
				return deeds[n-1]
			}
			return chatservertest.Says("Done.")
		})
		s.client.Endpoints, s.client.Transport = []string{"http://one/v1"}, server.Transport
		client := chatserver.New(s.client)
		if s.policy.Model == "" {
			s.policy.Model = "m"
		}
		if s.open.Task == nil {
			s.open.Task = &sdk.Task{Prompt: "mend it"}
		}
		if s.open.ID == "" {
			s.open.ID = "e1"
		}
		session, err := served.New(client, s.policy).Open(t.Context(), s.open)
		if err != nil {
			t.Fatal(err)
		}
		f(&world{t, server, client, session})
		session.Close()
		client.Close()
		synctest.Wait()
		if n := server.Open(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

var quiet = cmpopts.IgnoreFields(policy.Turn{}, "Usage")

func TestConversation(t *testing.T) {
	tools := []map[string]any{{"type": "function"}}
	s := setting{
		policy: served.Options{Tools: tools, TopP: 0.9, Seed: true, Stream: true, Tokens: true, Extra: map[string]any{"top_k": 20, "seed": 5}},
		open:   policy.Opening{Task: &sdk.Task{System: "be brief", Prompt: "mend it"}, Temperature: 0.5, MaxTokens: 99, Seed: 7},
	}
	play(t, s, []deed{chatservertest.Calls("bash", `{"command":"ls"}`)}, func(w *world) {
		want := policy.Turn{Call: &policy.Call{ID: "c1", Tool: "bash", Arguments: map[string]string{"command": "ls"}}}
		if d := cmp.Diff(want, w.next("ignored"), quiet); d != "" {
			t.Error(d)
		}
		turn := w.next("a.py")
		if d := cmp.Diff(policy.Turn{Text: "Done."}, turn, quiet); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(&policy.Usage{Prompt: 100, Completion: 10, Attempts: 1}, turn.Usage); d != "" {
			t.Error(d)
		}
		first := w.server.Asked()[0]
		delete(first.Body, "messages")
		if d := cmp.Diff(map[string]any{
			"model": "m", "temperature": 0.5, "top_p": 0.9, "max_tokens": 99.0, "stream": true, "stream_options": map[string]any{"include_usage": true},
			"return_token_ids": true, "logprobs": true, "top_k": 20.0, "seed": 5.0, "tools": []any{map[string]any{"type": "function"}},
		}, first.Body); d != "" {
			t.Error(d)
		}
		if got := first.Header.Get("X-Session-ID"); got != "e1" {
			t.Errorf("session %q", got)
		}
		if d := cmp.Diff([]string{
			`{"content":"be brief","role":"system"}`, `{"content":"mend it","role":"user"}`,
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\":\"ls\"}","name":"bash"},"id":"c1","type":"function"}]}`,
			`{"content":"a.py","role":"tool","tool_call_id":"c1"}`,
		}, w.messages(1)); d != "" {
			t.Error(d)
		}
	})
}

// What the model does wrong it is told, in a conversation that every server takes.
func TestMalformed(t *testing.T) {
	call := chatservertest.Calls
	const asText, asCall = "user", "tool"
	for _, tt := range []struct {
		name string
		deed deed
		want string
		told string // role of the message that tells
	}{
		{"unknown tool", call("python", `{"code":"1"}`), `no tool "python"; there are bash and str_replace`, asCall},
		{"no name", call("", `{}`), `no tool ""`, asText},
		{"no JSON", call("bash", `{"command":"l`), "the arguments of bash are no JSON object: unexpected EOF", asText},
		{"more than JSON", call("bash", `{"command":"ls"} {}`), "are no JSON object: something follows it", asText},
		{"JSON in text", call("bash", `"{\"command\":\"ls\"}"`), "the arguments of bash are text; want a JSON object", asText},
		{"a list", call("bash", `["ls"]`), "the arguments of bash are a list; want a JSON object", asText},
		{"wrong type", call("bash", `{"command":["ls","-l"]}`), "argument command of bash is a list; want text", asCall},
		{"a number for text", call("bash", `{"command":5}`), "argument command of bash is a number; want text", asCall},
		{"nothing for text", call("bash", `{"command":null}`), "argument command of bash is missing", asCall},
		{"no arguments", call("bash", ``), "argument command of bash is missing", asCall},
		{"unknown argument", call("bash", `{"command":"ls","timeout":5}`), `bash has no argument "timeout"; it has command`, asCall},
		{"unknown command", call("str_replace", `{"command":"undo","path":"a"}`), `unknown command "undo" of str_replace; want view, create, replace or insert`, asCall},
		{"no path", call("str_replace", `{"command":"view"}`), "argument path of str_replace is missing", asCall},
		{"half a replacement", call("str_replace", `{"command":"replace","path":"a","old_str":"x"}`), "argument new_str of replace is missing", asCall},
		{"true for a line", call("str_replace", `{"command":"insert","path":"a","new_str":"x","insert_line":true}`), "argument insert_line of str_replace is true or false; want text", asCall},
		{"two at once", chatservertest.JSON(`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":"b","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`), "2 tool calls at once, and none was carried out", asCall},
		{"nothing", chatservertest.JSON(`{"choices":[{"message":{"content":null}}]}`), "the answer is empty", asText},
		{"blanks", chatservertest.JSON(`{"choices":[{"message":{"content":" \n"}}]}`), "the answer is empty", asText},
		{"reasoning only", chatservertest.JSON(`{"choices":[{"message":{"content":"","reasoning_content":"hm"}}]}`), "the answer has reasoning only", asText},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, setting{}, []deed{tt.deed}, func(w *world) {
				turn := w.next("")
				if !strings.Contains(turn.Malformed, tt.want) || turn.Call != nil || turn.Full {
					t.Errorf("%+v, want %q", turn, tt.want)
				}
				if got := w.next("Error: " + turn.Malformed); got.Text != "Done." {
					t.Errorf("%+v", got)
				}
				told := w.messages(1)[1:]
				last := told[len(told)-1]
				if !strings.Contains(last, `"role":"`+tt.told+`"`) || !strings.Contains(last, `"content":"Error: `) {
					t.Errorf("told by %s, want a message of role %s", last, tt.told)
				}
				if calls := strings.Count(told[0], `"id":`); tt.told == asCall && len(told) != 1+calls || tt.told == asText && (calls > 0 || len(told) != 2) {
					t.Errorf("%d calls are answered by %d messages", calls, len(told)-1)
				}
			})
		})
	}
}

func TestGoodCalls(t *testing.T) {
	for arguments, want := range map[string]map[string]string{
		`{"command":"view","path":"a"}`:                                                {"command": "view", "path": "a"},
		`{"command":"insert","path":"a","insert_line":3,"new_str":"x"}`:                {"command": "insert", "path": "a", "insert_line": "3", "new_str": "x"},
		`{"command":"insert","path":"a","insert_line":"3","new_str":"x"}`:              {"command": "insert", "path": "a", "insert_line": "3", "new_str": "x"},
		`{"command":"create","path":"a","file_text":"","old_str":null,"new_str":null}`: {"command": "create", "path": "a", "file_text": ""},
	} {
		play(t, setting{}, []deed{chatservertest.Calls("str_replace", arguments)}, func(w *world) {
			turn := w.next("")
			if turn.Call == nil {
				t.Fatalf("%s: %+v", arguments, turn)
			}
			if d := cmp.Diff(want, turn.Call.Arguments); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestContextIsFull(t *testing.T) {
	for _, o := range chatservertest.Overflows {
		t.Run(o.Name, func(t *testing.T) {
			play(t, setting{policy: served.Options{Stream: true, Tokens: true}}, []deed{o.Deed}, func(w *world) {
				for range 2 {
					if d := cmp.Diff(policy.Turn{Full: true}, w.next("")); d != "" {
						t.Error(d)
					}
				}
				if n := len(w.server.Asked()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// A bound of a turn that is larger than what is left is no full context.
func TestBoundBeyondTheContext(t *testing.T) {
	large := chatservertest.Status(400, `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 100. This model's maximum context length is 512 tokens and your request has 450 input tokens (100 > 512 - 450)."}}`)
	cut := chatservertest.JSON(`{"choices":[{"message":{"content":"on and on"},"finish_reason":"length"}],"usage":{"prompt_tokens":450,"completion_tokens":62}}`)
	play(t, setting{open: policy.Opening{MaxTokens: 100}}, []deed{large}, func(w *world) {
		if got := w.next(""); got.Text != "Done." {
			t.Errorf("%+v", got)
		}
		if got := w.server.Asked()[1].Body["max_tokens"]; got != 62.0 {
			t.Errorf("asked for %v, want the 62 that are left", got)
		}
	})
	play(t, setting{open: policy.Opening{MaxTokens: 100}}, []deed{large, cut}, func(w *world) {
		if got := w.next(""); !got.Full {
			t.Errorf("%+v", got)
		}
	})
}

func TestCutTurns(t *testing.T) {
	cut := func(prompt, completion int) deed {
		return chatservertest.JSON(fmt.Sprintf(`{"choices":[{"message":{"content":"on and on"},"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, completion))
	}
	whole := func(prompt, completion int) deed {
		return chatservertest.JSON(fmt.Sprintf(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, completion))
	}
	for _, tt := range []struct {
		name            string
		context, tokens int // bounds
		deed            deed
		want            policy.Turn
	}{
		{"by its bound", 0, 10, cut(100, 10), policy.Turn{Text: "on and on", Malformed: "cut at 10 tokens"}},
		{"by the server", 0, 0, cut(100, 10), policy.Turn{Text: "on and on", Full: true}},
		{"by our limit", 128, 0, cut(100, 28), policy.Turn{Text: "on and on", Full: true}},
		{"by its bound, below our limit", 128, 10, cut(100, 10), policy.Turn{Text: "on and on", Malformed: "cut at 10 tokens"}},
		{"by our limit, below its bound", 128, 64, cut(100, 28), policy.Turn{Text: "on and on", Full: true}},
		{"up to our limit", 128, 0, whole(100, 28), policy.Turn{Text: "x"}},
		{"beyond our limit", 128, 0, whole(100, 29), policy.Turn{Text: "x", Full: true}},
		{"a prompt that leaves no room", 128, 0, whole(121, 2), policy.Turn{Full: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, setting{policy: served.Options{MaxContext: tt.context}, open: policy.Opening{MaxTokens: tt.tokens}}, []deed{tt.deed}, func(w *world) {
				if d := cmp.Diff(tt.want, w.next(""), quiet); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// The bound of a turn is what is left, as far as that is known.
func TestRoomShrinks(t *testing.T) {
	play(t, setting{policy: served.Options{MaxContext: 140}}, []deed{chatservertest.Calls("bash", `{"command":"ls"}`)}, func(w *world) {
		w.next("")
		w.next("a.py")
		if a, b := w.server.Asked()[0].Body["max_tokens"], w.server.Asked()[1].Body["max_tokens"]; a != 140.0 || b != 30.0 {
			t.Errorf("bounds %v and %v", a, b)
		}
	})
}

func TestBriefChat(t *testing.T) {
	play(t, setting{policy: served.Options{Brief: true, Tools: []map[string]any{{}}}}, []deed{
		chatservertest.Says("<|str_replace|>view<|arg|>a.py<|end|>"), chatservertest.Says("<|bash|>ls<|arg|>"), chatservertest.Says(""),
	}, func(w *world) {
		want := policy.Turn{Call: &policy.Call{ID: "call_1", Tool: "str_replace", Arguments: map[string]string{"command": "view", "path": "a.py"}}}
		if d := cmp.Diff(want, w.next(""), quiet); d != "" {
			t.Error(d)
		}
		if got := w.next("x = 1"); got.Malformed != "<|arg|> in the command of bash" {
			t.Errorf("%+v", got)
		}
		if d := cmp.Diff(policy.Turn{}, w.next("Error"), quiet); d != "" {
			t.Errorf("an empty text is a final message there: %s", d)
		}
		if d := cmp.Diff([]string{
			`{"content":"mend it","role":"user"}`,
			`{"content":"<|str_replace|>view<|arg|>a.py<|end|>","role":"assistant"}`, `{"content":"x = 1","role":"tool"}`,
			`{"content":"<|bash|>ls<|arg|>","role":"assistant"}`, `{"content":"Error","role":"tool"}`,
		}, w.messages(2)); d != "" {
			t.Error(d)
		}
		if w.server.Asked()[0].Body["tools"] != nil {
			t.Error("tools were offered")
		}
	})
}

func TestReasoning(t *testing.T) {
	thinks := chatservertest.JSON(`{"choices":[{"message":{"content":null,"reasoning_content":"hm","tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}`)
	for _, back := range []bool{false, true} {
		play(t, setting{policy: served.Options{Reasoning: back}}, []deed{thinks}, func(w *world) {
			if turn := w.next(""); turn.Reasoning != "hm" || turn.Call == nil {
				t.Errorf("%+v", turn)
			}
			w.next("")
			if got := strings.Contains(strings.Join(w.messages(1), ""), `"reasoning_content":"hm"`); got != back {
				t.Errorf("sent back: %v", got)
			}
		})
	}
}

func TestTokenRecord(t *testing.T) {
	answer := func(prompt, ids, logprobs string) deed {
		return chatservertest.JSON(`{` + prompt + `"choices":[{"message":{"content":"x"}` + ids + logprobs + `}]}`)
	}
	const prompt, ids, logprobs = `"prompt_token_ids":[1,2],`, `,"token_ids":[3,4]`, `,"logprobs":{"content":[{"logprob":-1},{"logprob":-2}]}`
	play(t, setting{}, []deed{answer(prompt, ids, logprobs)}, func(w *world) {
		if d := cmp.Diff(policy.Turn{Text: "x", Context: []int{1, 2}, Tokens: []int{3, 4}, Logprobs: []float32{-1, -2}, Versions: []int{0, 0}}, w.next(""), quiet); d != "" {
			t.Error(d)
		}
	})
	for _, d := range []deed{answer("", ids, logprobs), answer(prompt, "", logprobs), answer(prompt, ids, ""), answer("", "", "")} {
		play(t, setting{}, []deed{d}, func(w *world) {
			if d := cmp.Diff(policy.Turn{Text: "x"}, w.next(""), quiet); d != "" {
				t.Errorf("all or none: %s", d)
			}
		})
	}
}

// The server's fault is an error with a kind, and the session goes on after it.
func TestServerFails(t *testing.T) {
	broken := chatservertest.Status(500, "")
	play(t, setting{client: chatserver.Options{Key: "secret", Attempts: 2}}, []deed{chatservertest.Calls("bash", `{"command":"ls"}`), broken, broken}, func(w *world) {
		w.next("")
		_, err := w.session.Next(w.Context(), "a.py")
		var f *served.Failure
		if !errors.As(err, &f) || f.Fault != chatserver.Broken || diag.KindOf(err) != diag.KindPolicy || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		if got := w.next("a.py"); got.Text != "Done." {
			t.Errorf("%+v", got)
		}
		if d := cmp.Diff(w.messages(1), w.messages(3)); d != "" {
			t.Error(d)
		}
	})
	withheld := chatservertest.JSON(`{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`)
	play(t, setting{}, []deed{withheld}, func(w *world) {
		if _, err := w.session.Next(w.Context(), ""); diag.KindOf(err) != diag.KindPolicy {
			t.Error(err)
		}
	})
}

// An episode's time that ends while the server is silent is the server's fault and no
// end of the episode; while the model writes, it is the policy's.
func TestTimeIsUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		deeds []deed
		ours  bool
	}{
		{"silent", []deed{chatservertest.Hangs}, false},
		{"writing", []deed{chatservertest.Then(chatservertest.Streams(chatservertest.Piece("x")), chatservertest.Hangs)}, true},
		{"refusing", []deed{chatservertest.Status(429, "", "Retry-After", "7200")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, setting{policy: served.Options{Stream: true}}, tt.deeds, func(w *world) {
				ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
				defer cancel()
				_, err := w.session.Next(ctx, "")
				if got := errors.Is(err, context.DeadlineExceeded); got != tt.ours || !tt.ours && diag.KindOf(err) != diag.KindPolicy {
					t.Error(err)
				}
			})
		})
	}
	play(t, setting{}, []deed{chatservertest.Hangs}, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := w.session.Next(ctx, ""); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestPieces(t *testing.T) {
	var got []string
	s := setting{policy: served.Options{Stream: true}, open: policy.Opening{Piece: func(s string) { got = append(got, s) }}}
	play(t, s, []deed{
		chatservertest.Then(chatservertest.Streams(chatservertest.Piece("wro")), chatservertest.Cuts),
		chatservertest.Streams(chatservertest.Piece("fi"), chatservertest.Piece("ne"), chatservertest.Stop),
	}, func(w *world) {
		w.next("")
		if d := cmp.Diff([]string{"wro", "", "fi", "ne"}, got); d != "" {
			t.Error(d)
		}
	})
}

// Whatever a server does, a turn comes or a typed error, within the deadlines, and
// nothing is left running: a bubble with a goroutine left does not end.
func TestWhateverTheServerDoes(t *testing.T) {
	misdeeds := chatservertest.Misdeeds()
	for _, o := range chatservertest.Overflows {
		misdeeds = append(misdeeds, chatservertest.Misdeed{Name: o.Name, Deed: o.Deed})
	}
	misdeeds = append(misdeeds,
		chatservertest.Misdeed{Name: "a call", Deed: chatservertest.Calls("bash", `{"command":"ls"}`)},
		chatservertest.Misdeed{Name: "a message", Deed: chatservertest.Says("Done.")})
	names := make([]string, len(misdeeds))
	for i, m := range misdeeds {
		names[i] = m.Name
	}
	const attempts, timeout = 3, time.Minute
	// Each attempt, and the pause after it: a server's own of at most 3 s, or one of ours.
	const longest = 2 * attempts * (timeout + 3*time.Second)
	rapid.Check(t, func(r *rapid.T) {
		plan := rapid.SliceOfN(rapid.IntRange(0, len(misdeeds)-1), 1, 24).Draw(r, "deeds")
		s := setting{
			client: chatserver.Options{Key: "secret", Attempts: attempts, Timeout: timeout, Silence: timeout / 2},
			policy: served.Options{Stream: rapid.Bool().Draw(r, "stream"), Tokens: rapid.Bool().Draw(r, "tokens"), Brief: rapid.Bool().Draw(r, "brief"), MaxContext: rapid.SampledFrom([]int{0, 105, 128, 4096}).Draw(r, "context")},
			open:   policy.Opening{MaxTokens: rapid.SampledFrom([]int{0, 5, 512}).Draw(r, "tokens of a turn")},
		}
		var deeds []deed
		var did []string
		for _, i := range plan {
			deeds, did = append(deeds, misdeeds[i].Deed), append(did, names[i])
		}
		bad := ""
		play(t, s, deeds, func(w *world) {
			for range len(plan) + 2 {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
				turn, err := w.session.Next(ctx, "answer")
				cancel()
				if took := time.Since(begun); took > longest {
					bad = fmt.Sprintf("it took %v", took)
				}
				if err != nil {
					var f *served.Failure
					if !errors.As(err, &f) || f.Fault == "" || diag.KindOf(err) != diag.KindPolicy || strings.Contains(err.Error(), "secret") {
						bad = fmt.Sprintf("error %v", err)
					}
					if !cmp.Equal(turn, policy.Turn{}) {
						bad = fmt.Sprintf("a turn with an error: %+v", turn)
					}
					continue
				}
				is := 0
				for _, yes := range []bool{turn.Call != nil, turn.Malformed != "", turn.Full} {
					if yes {
						is++
					}
				}
				if is > 1 || len(turn.Tokens) != len(turn.Logprobs) || len(turn.Tokens) != len(turn.Versions) {
					bad = fmt.Sprintf("%+v", turn)
				}
			}
		})
		if bad != "" {
			r.Fatalf("%v: %s", did, bad)
		}
	})
}
