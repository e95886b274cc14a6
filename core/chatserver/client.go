// Package chatserver is the client of servers that speak the OpenAI protocol's chat
// completions: vLLM, SGLang, llama.cpp, transformers serve, and hosted ones. Whoever
// asks a model asks through it: the policy "openai", and evaluators and judges.
//
// One question is put to one of several endpoints, as often as its failures allow,
// under limits on what is under way and on what is asked a minute. What comes back is
// an [Answer] or an [Error] that says whose fault it was.
package chatserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options say where the servers are and what they may be asked.
type Options struct {
	Endpoints         []string      // addresses up to and including /v1, at least one; all serve the same model
	Key               string        // sent as a bearer token; may be empty. It is in no log and no error
	Concurrency       int           // questions under way at once at each endpoint; 0 means 8
	RequestsPerMinute int           // of all endpoints together, attempts counted; 0: no limit
	TokensPerMinute   int           // read and written, of all endpoints together; 0: no limit
	Timeout           time.Duration // of one attempt; 0 means 2 min
	Silence           time.Duration // longest wait for the next piece of a stream; 0: Timeout
	Attempts          int           // at one question; 0 means 4
	Prices            Prices
	Log               *slog.Logger      // nil is silent
	Transport         http.RoundTripper // nil: one of its own, like net/http's default
}

// Prices of a million tokens, in any currency.
type Prices struct {
	Input  float64 // read
	Cached float64 // read and known to the server from before
	Output float64 // written
}

// Of is the cost of u.
func (p Prices) Of(u Usage) float64 {
	return (float64(u.Prompt-u.Cached)*p.Input + float64(u.Cached)*p.Cached + float64(u.Completion)*p.Output) / 1e6
}

// Question is one chat completion to ask for.
type Question struct {
	// Body is the request, without the field stream.
	Body map[string]any
	// Plain, if not nil, is asked in place of Body where a server refuses Body with
	// 400 or 422: the same without fields that not every server knows. A server that
	// answers Plain is asked so from then on.
	Plain map[string]any
	// Session keeps a conversation at one endpoint, for its cache, and is sent as
	// X-Session-ID; "" has none.
	Session string
	// Stream asks for the answer piece by piece. A server that answers in one piece
	// all the same is understood.
	Stream bool
	// Piece gets the text of a stream as it comes, reasoning included and on lines of its
	// own; nil: nobody listens. An attempt that fails in the middle has shown its pieces: Retried tells.
	Piece func(text string)
	// Retried is called before another attempt at an answer of which pieces were
	// shown; nil: nobody listens.
	Retried func()
}

// Client asks. It is safe for concurrent use.
type Client struct {
	o         Options
	http      http.Client
	endpoints []*endpoint
	requests  *rate
	tokens    *rate
	plain     atomic.Bool // the servers refuse what Plain leaves out

	mu     sync.Mutex
	faults map[Fault]int
}

const (
	firstPause = 500 * time.Millisecond // doubled from attempt to attempt
	lastPause  = time.Minute
	maxAnswer  = 16 << 20 // bytes
)

// New gives a client. Nothing is asked yet. It panics without an endpoint.
func New(o Options) *Client {
	if len(o.Endpoints) == 0 {
		panic("chatserver: no endpoint")
	}
	if o.Concurrency == 0 {
		o.Concurrency = 8
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Silence == 0 || o.Silence > o.Timeout {
		o.Silence = o.Timeout
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = o.Concurrency
		o.Transport = t
	}
	c := &Client{
		o: o, faults: map[Fault]int{},
		http: http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a key goes to no place that nobody named
		}},
		requests: perMinute(o.RequestsPerMinute), tokens: perMinute(o.TokensPerMinute),
	}
	for _, url := range o.Endpoints {
		c.endpoints = append(c.endpoints, newEndpoint(url, o.Concurrency))
	}
	return c
}

// Close ends the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Faults counts the attempts that failed, by fault.
func (c *Client) Faults() map[Fault]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[Fault]int, len(c.faults))
	for f, n := range c.faults {
		out[f] = n
	}
	return out
}

// count counts what is somebody's fault.
func (c *Client) count(f Fault) {
	if f == TooLong || f == Ended {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[f]++
}

// rest waits for d, or for the end of ctx, whose error it gives.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// scatter gives a pause between the half of d and d, so that those who failed
// together do not come back together.
func scatter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Ask puts q and waits its turn first. What a server cannot answer for the moment is
// asked for again, after a growing pause or the one that the server names, at another
// endpoint if there is one, unless ctx ends before that. Every failure is an [*Error];
// one whose Fault is [Yours] says that q cannot be sent, and one with [Ended] that
// ctx ended while a server was answering and nothing had gone wrong.
func (c *Client) Ask(ctx context.Context, q *Question) (*Answer, error) {
	full, err := encode(q.Body, q.Stream)
	if err != nil {
		return nil, &Error{Fault: Yours, Err: err}
	}
	lean := full
	if q.Plain != nil {
		if lean, err = encode(q.Plain, q.Stream); err != nil {
			return nil, &Error{Fault: Yours, Err: err}
		}
	}
	leaner := q.Plain != nil && c.plain.Load()
	fellBack := false
	pause := firstPause
	begun := time.Now()
	for try := 1; ; try++ {
		body := full
		if leaner {
			body = lean
		}
		at := c.choose(q.Session)
		a, shown, no := c.attempt(ctx, at, q, body)
		if no == nil {
			a.Attempts, a.Took = try, time.Since(begun)
			a.Cost = c.o.Prices.Of(a.Usage)
			if fellBack && !c.plain.Swap(true) {
				c.o.Log.Warn("the server refuses optional fields; it is asked without", "server", at.url, "fields", missing(q))
			}
			return a, nil
		}
		if q.Plain != nil && !leaner && no.Fault == Refused && (no.Status == http.StatusBadRequest || no.Status == http.StatusUnprocessableEntity) {
			leaner, fellBack = true, true
			try--
			continue
		}
		no.Attempts = try
		if try > 1 && no.Fault == Ended {
			no.Fault = Slow // the time went to what failed before
		}
		c.count(no.Fault)
		if !no.Fault.passing() {
			return nil, no
		}
		wait := max(scatter(min(pause, lastPause)), no.After)
		deadline, limited := ctx.Deadline()
		switch {
		case try == c.o.Attempts:
			no.Err = fmt.Errorf("%w (attempt %d of %d)", no.Err, try, c.o.Attempts)
			return nil, no
		case limited && time.Until(deadline) < wait:
			no.Err = fmt.Errorf("%w (no time is left to try again in %v)", no.Err, wait.Round(time.Millisecond))
			return nil, no
		}
		c.o.Log.Info("the server failed, trying again", "fault", no.Fault, "attempt", try, "pause", wait, "error", no.Err)
		if shown && q.Retried != nil {
			q.Retried()
		}
		if rest(ctx, wait) != nil {
			return nil, no
		}
		pause *= 2
	}
}

// encode writes a request.
func encode(body map[string]any, stream bool) ([]byte, error) {
	if !stream {
		return json.Marshal(body)
	}
	with := make(map[string]any, len(body)+1)
	for k, v := range body {
		with[k] = v
	}
	with["stream"] = true
	return json.Marshal(with)
}

// missing lists the fields that q's Plain leaves out.
func missing(q *Question) []string {
	var out []string
	for k := range q.Body {
		if _, ok := q.Plain[k]; !ok {
			out = append(out, k)
		}
	}
	return out
}

// attempt puts a request to one endpoint once. shown says whether pieces of an answer
// were handed on.
func (c *Client) attempt(ctx context.Context, at *endpoint, q *Question, body []byte) (a *Answer, shown bool, no *Error) {
	ended := func(what string) *Error {
		return &Error{Fault: Slow, URL: at.url, Err: fmt.Errorf("%s: %w", what, over(ctx))}
	}
	if err := at.enter(ctx); err != nil {
		return nil, false, ended(fmt.Sprintf("waiting for one of %d places", cap(at.places)))
	}
	defer at.leave()
	if no := at.hold(ctx); no != nil {
		return nil, false, no
	}
	if err := c.requests.take(ctx, 1); err != nil {
		return nil, false, ended("waiting for requests_per_minute")
	}
	guess := len(body) / 4
	if err := c.tokens.take(ctx, guess); err != nil {
		return nil, false, ended("waiting for tokens_per_minute")
	}
	a, shown, no = c.post(ctx, at, q, body)
	used := guess
	if a != nil && a.Usage.Prompt+a.Usage.Completion > 0 {
		used = a.Usage.Prompt + a.Usage.Completion
	}
	c.tokens.give(guess - used)
	switch {
	case no == nil:
		at.well()
	case no.Fault.passing():
		at.restUntil(time.Now().Add(no.After))
		at.failed()
	}
	return a, shown, no
}
