// Package chatservertest is the edge at which tests of the OpenAI protocol end: a
// server in memory, and the misdeeds of servers in the wild. Both are for a synctest
// bubble, in which a pause of minutes takes no time and nothing may be left running.
package chatservertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Deed is how a server answers one request.
type Deed func(w http.ResponseWriter, r *http.Request)

// Asked is a request as the server saw it.
type Asked struct {
	Host   string
	Header http.Header
	Body   map[string]any
}

// Server answers chat completions under any host name, without a network.
type Server struct {
	Transport *http.Transport // reaches it

	mu    sync.Mutex
	asked []Asked
	open  int
}

// Start gives a server whose n-th answer, from 1, is what answer says; who asks for the
// models is answered as number 0. It ends with the test.
func Start(t testing.TB, answer func(n int, asked Asked) Deed) *Server {
	t.Helper()
	s := &Server{}
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		a := Asked{Host: r.Host, Header: r.Header}
		if strings.HasSuffix(r.URL.Path, "/v1/models") {
			answer(0, a)(w, r)
			return
		}
		if json.Unmarshal(b, &a.Body) != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/chat/completions") {
			t.Errorf("%s %s: %.200q", r.Method, r.URL, b)
		}
		s.mu.Lock()
		s.asked = append(s.asked, a)
		n := len(s.asked)
		s.mu.Unlock()
		answer(n, a)(w, r)
	}), ConnState: func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.open++
		case http.StateClosed, http.StateHijacked:
			s.open--
		}
	}}
	over := make(chan struct{})
	go func() { h.Serve(l); close(over) }()
	s.Transport = &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		s.Transport.CloseIdleConnections()
		h.Close()
		<-over
	})
	return s
}

// Asked gives all requests so far.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Asked(nil), s.asked...)
}

// Open counts the connections that are open.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// Raw answers with a body of a type.
func Raw(kind, body string) Deed {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
		w.(http.Flusher).Flush()
	}
}

// JSON answers with a body.
func JSON(body string) Deed { return Raw("application/json", body) }

// Status answers with a code, a body and headers, which are names and values in turn.
func Status(code int, body string, header ...string) Deed {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// Says is an ordinary answer in one piece.
func Says(text string) Deed {
	b, _ := json.Marshal(text)
	return JSON(fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, b))
}

// Calls is an answer that calls a tool.
func Calls(tool, arguments string) Deed {
	a, _ := json.Marshal(arguments)
	return JSON(fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":%q,"arguments":%s}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, tool, a))
}

// Streams sends events, a flush each, as server-sent events.
func Streams(events ...string) Deed {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			io.WriteString(w, "data: "+e+"\n\n")
			w.(http.Flusher).Flush()
		}
	}
}

// Piece is an event with a piece of text.
func Piece(text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s}}]}`, b)
}

// The events that end a stream.
const (
	Stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`
	Done = `[DONE]`
)

// Then does one thing after another to a request.
func Then(deeds ...Deed) Deed {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, d := range deeds {
			d(w, r)
		}
	}
}

// Hangs holds the connection until the client goes.
func Hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Cuts ends the connection.
func Cuts(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
