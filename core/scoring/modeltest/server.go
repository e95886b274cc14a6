// Package modeltest is the edge at which tests of the capability "model" end: a
// server that speaks the OpenAI protocol on loopback with answers that a test wrote
// down.
package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Reply answers a request; n is its number, from 1, and asked its body. It is called
// for several requests at once.
type Reply func(n int, w http.ResponseWriter, asked map[string]any)

// Server keeps what it was asked. It is closed when the test ends.
type Server struct {
	URL   string // up to and including /v1
	Close func()

	mu     sync.Mutex
	asked  []map[string]any
	header []http.Header
}

// Recorded starts a server whose answers are recorded in reply.
func Recorded(t testing.TB, reply Reply) *Server {
	t.Helper()
	s := &Server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var asked map[string]any
		if err != nil || json.Unmarshal(b, &asked) != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %s: %q, %v", r.Method, r.URL, b, err)
		}
		s.mu.Lock()
		s.asked, s.header = append(s.asked, asked), append(s.header, r.Header)
		n := len(s.asked)
		s.mu.Unlock()
		reply(n, w, asked)
	}))
	s.URL, s.Close = h.URL+"/v1", h.Close
	t.Cleanup(h.Close)
	return s
}

// Requests gives the bodies of all requests so far.
func (s *Server) Requests() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Headers gives the headers of all requests so far.
func (s *Server) Headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.header)
}

// Tokens that [Says] claims to have read and written.
const (
	PromptTokens     = 1000
	CompletionTokens = 20
)

// Says answers with a choice for each text.
func Says(w http.ResponseWriter, texts ...string) {
	type message struct {
		Content string `json:"content"`
	}
	type choice struct {
		Index   int     `json:"index"`
		Message message `json:"message"`
	}
	var cs []choice
	for i, t := range texts {
		cs = append(cs, choice{i, message{t}})
	}
	json.NewEncoder(w).Encode(map[string]any{
		"choices": cs, "usage": map[string]int{"prompt_tokens": PromptTokens, "completion_tokens": CompletionTokens},
	})
}

// Content is the text of a message of a request, from 0.
func Content(asked map[string]any, message int) string {
	ms, _ := asked["messages"].([]any)
	if message >= len(ms) {
		return ""
	}
	m, _ := ms[message].(map[string]any)
	s, _ := m["content"].(string)
	return s
}
