package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
)

// engineServer is a chat-completions server on loopback around the embedded engine. It
// does what an inference server does with the quickstart's policy: it renders messages
// as the policy's chat template does, samples greedily, and hands text on with its
// markers. It knows nothing of turns or tools. (bench/served has a real server.)
type engineServer struct {
	url    string
	engine *gorgonia.Engine
	tokens *bpe.Tokenizer

	mu    sync.Mutex
	asked int
	keys  map[string]bool
	fails func(n int, w http.ResponseWriter) bool // instead of the n-th answer; nil: never
}

func newEngineServer(t *testing.T, folder string) *engineServer {
	t.Helper()
	e, err := gorgonia.Open(folder, gorgonia.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	tokens, err := bpe.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := &engineServer{engine: e, tokens: tokens, keys: map[string]bool{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL + "/v1"
	return s
}

func (s *engineServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Role, Content string }
		Stream   bool
		Max      int   `json:"max_tokens"`
		IDs      *bool `json:"return_token_ids"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	if q.IDs != nil {
		http.Error(w, "Unexpected fields in the request: {'return_token_ids'}", http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	s.asked++
	n := s.asked
	s.keys[r.Header.Get("Authorization")] = true
	fails := s.fails
	s.mu.Unlock()
	if fails != nil && fails(n, w) {
		return
	}
	var prompt []int
	for _, m := range q.Messages {
		prompt = append(prompt, s.encode("<|"+m.Role+"|>"+m.Content+chat.End)...)
	}
	prompt = append(prompt, s.encode(chat.Assistant)...)
	most := s.engine.Info().MaxContext - len(prompt)
	if most <= 0 {
		http.Error(w, fmt.Sprintf(`{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":%d,"n_ctx":%d}}`, len(prompt), s.engine.Info().MaxContext), http.StatusBadRequest)
		return
	}
	if q.Max > 0 {
		most = min(most, q.Max)
	}
	end, _ := s.tokens.Special(chat.End)
	got, err := s.engine.Sample(r.Context(), engine.SampleRequest{Prompt: prompt, MaxTokens: most, Stop: []int{end}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	finish := "length"
	text := got.Tokens
	if got.Stop == engine.StopToken {
		finish, text = "stop", text[:len(text)-1]
	}
	message := map[string]any{"role": "assistant", "content": s.tokens.Decode(text)}
	choice := map[string]any{"index": 0, "message": message, "finish_reason": finish}
	usage := map[string]int{"prompt_tokens": len(prompt), "completion_tokens": len(got.Tokens)}
	if !q.Stream {
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{choice}, "usage": usage})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(v any) {
		b, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", b)
		w.(http.Flusher).Flush()
	}
	for from := 0; from < len(text); from++ {
		event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": s.tokens.Decode(text[from : from+1])}}}})
	}
	event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}, "usage": usage})
}

// fail has the server fail by f until the test t ends.
func (s *engineServer) fail(t *testing.T, f func(n int, w http.ResponseWriter) bool) {
	set := func(f func(int, http.ResponseWriter) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fails = f
	}
	set(f)
	t.Cleanup(func() { set(nil) })
}

// key says whether a request came with this authorization.
func (s *engineServer) key(authorization string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[authorization]
}

// encode tokenizes text as the Hugging Face libraries do: a marker that the text spells
// is that marker.
func (s *engineServer) encode(text string) []int {
	var out []int
	for text != "" {
		at, marker := len(text), ""
		for _, name := range chat.Specials() {
			if i := strings.Index(text[:at], name); i >= 0 {
				at, marker = i, name
			}
		}
		out = append(out, s.tokens.Encode(text[:at])...)
		if id, ok := s.tokens.Special(marker); ok {
			out = append(out, id)
		}
		text = text[at+len(marker):]
	}
	return out
}

// verdict is what two evaluations of one policy must agree on.
type verdict struct {
	Outcome, End string
	Score        float64
	Turns        int
}

func verdicts(t *testing.T, dir string) map[string]verdict {
	t.Helper()
	out := map[string]verdict{}
	for e, err := range journal.Dir(dir).EvalEpisodes(0, "eval") {
		if err != nil {
			t.Fatal(err)
		}
		out[e.ID] = verdict{e.Outcome, e.End, e.Score, e.Turns}
	}
	return out
}

// A served policy has the scores that the embedded engine gives it, also where its
// server fails now and then; a server that is not there is no score.
func TestServedPolicy(t *testing.T) {
	tasks := 2
	if testing.Short() {
		tasks = 1
	}
	q := newQuickstart(t, "policy.temperature=0", fmt.Sprintf("eval.tasks=%d", tasks))
	server := newEngineServer(t, policyFolder(t))
	q.sets = append(q.sets, "server.model=m", "server.chat=brief", `server.base_urls=["`+server.url+`"]`, "async.retries=1")
	saved := func(name string) string { return filepath.Join(q.runs, name) }

	q.run(t, 0, "eval", "--policy", "engine", "--save", saved("engine"))
	want := verdicts(t, saved("engine"))
	if len(want) != 5*tasks {
		t.Fatalf("%d episodes", len(want))
	}

	t.Run("same scores", func(t *testing.T) {
		for _, stream := range []string{"true", "false"} {
			q.run(t, 0, "eval", "--policy", "openai", "--save", saved("served"+stream), "--set", "server.stream="+stream)
			if d := cmp.Diff(want, verdicts(t, saved("served"+stream))); d != "" {
				t.Errorf("stream %s: %s", stream, d)
			}
		}
	})
	t.Run("a server that fails now and then", func(t *testing.T) {
		server.fail(t, func(n int, w http.ResponseWriter) bool {
			switch n % 5 {
			case 1:
				w.Header().Set("Retry-After", "0")
				http.Error(w, "slow down", http.StatusTooManyRequests)
			case 2:
				http.Error(w, "<html>", http.StatusBadGateway)
			case 3:
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<|ba\"}}]}\n\n")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			default:
				return false
			}
			return true
		})
		p := q.run(t, 0, "eval", "--policy", "openai", "--save", saved("failing"), "--set", "server.attempts=20", "-o", "json")
		if d := cmp.Diff(want, verdicts(t, saved("failing"))); d != "" {
			t.Error(d)
		}
		var got struct {
			Splits []struct{ Server journal.ServerUse }
		}
		if err := json.Unmarshal(p.stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if f := got.Splits[0].Server.Faults; f["busy"] == 0 || f["broken"] == 0 || f["cut"] == 0 {
			t.Errorf("faults %v", f)
		}
	})
	t.Run("a server that only fails", func(t *testing.T) {
		server.fail(t, func(_ int, w http.ResponseWriter) bool {
			http.Error(w, "no", http.StatusInternalServerError)
			return true
		})
		p := q.run(t, 3, "eval", "--policy", "openai", "--save", saved("broken"), "--set", "server.attempts=1", "-o", "json")
		if !bytes.Contains(p.stdout.Bytes(), fmt.Appendf(nil, `"excluded": %d`, 5*tasks)) || !bytes.Contains(p.stdout.Bytes(), []byte(`"avg": null`)) {
			t.Errorf("%s", &p.stdout)
		}
		for id, v := range verdicts(t, saved("broken")) {
			if v.Outcome != "policy" {
				t.Errorf("%s: %+v", id, v)
			}
		}
	})
	t.Run("no server", func(t *testing.T) {
		p := q.run(t, 13, "eval", "--policy", "openai", "--set", `server.base_urls=["http://127.0.0.1:1/v1"]`)
		if !strings.Contains(p.stderr.String(), "open policy: openai: http://127.0.0.1:1/v1/models: dial tcp") {
			t.Errorf("%s", &p.stderr)
		}
	})
	t.Run("the key stays out of everything", func(t *testing.T) {
		q.env = append(q.env, "SERVER_KEY=sesame-street")
		server.fail(t, func(_ int, w http.ResponseWriter) bool {
			http.Error(w, "no", http.StatusInternalServerError)
			return true
		})
		p := q.run(t, 3, "eval", "-v", "--policy", "openai", "--save", saved("key"), "--set", "server.attempts=2", "--set", "server.api_key_env=SERVER_KEY", "-n", "1")
		all := p.stdout.String() + p.stderr.String()
		filepath.WalkDir(saved("key"), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, _ := os.ReadFile(path)
				all += string(b)
			}
			return err
		})
		if strings.Contains(all, "sesame") || !server.key("Bearer sesame-street") {
			t.Error("the key is there")
		}
		p = q.run(t, 10, "eval", "--policy", "openai", "--set", "server.api_key_env=NO_SUCH_KEY")
		if !strings.Contains(p.stderr.String(), `environment variable "NO_SUCH_KEY"`) {
			t.Errorf("%s", &p.stderr)
		}
	})
	t.Run("replayed", func(t *testing.T) {
		q.run(t, 0, "eval", "--policy", "replay", "--path", saved("servedtrue"), "--save", saved("replayed"))
		if d := cmp.Diff(want, verdicts(t, saved("replayed"))); d != "" {
			t.Error(d)
		}
		p := q.run(t, 13, "rollout", "--policy", "replay", "--path", saved("servedtrue"), "--skill", "editing", "--set", "eval.tasks=0", "--task", "editing/pocket-eval-module-300-5")
		if !strings.Contains(p.stderr.String(), "open replay: editing/pocket-eval-module-300-5: ") || !strings.Contains(p.stderr.String(), "no recording of this task; it has editing/") {
			t.Errorf("%s", &p.stderr)
		}
	})
	t.Run("shown live", func(t *testing.T) {
		p := q.run(t, 0, "rollout", "--policy", "openai", "--skill", "review")
		engine := q.run(t, 0, "rollout", "--policy", "engine", "--skill", "review")
		cut := func(b bytes.Buffer) string { s, _, _ := strings.Cut(b.String(), "\nend "); return s }
		if d := cmp.Diff(cut(engine.stdout), cut(p.stdout)); d != "" {
			t.Error(d)
		}
		if !strings.Contains(p.stdout.String(), "\nagent says\n") || !strings.Contains(p.stdout.String(), "\nverdict score ") || !strings.Contains(p.stdout.String(), "\nserver ") {
			t.Errorf("%s", &p.stdout)
		}
		p = q.run(t, 0, "rollout", "--policy", "openai", "--skill", "review", "-o", "jsonl")
		if !strings.Contains(p.stdout.String(), `{"type":"turn",`) || !strings.Contains(p.stdout.String(), `{"type":"summary",`) {
			t.Errorf("%s", &p.stdout)
		}
	})
}
