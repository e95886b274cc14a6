package scoring

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Endpoint is a model behind an OpenAI-compatible server.
type Endpoint struct {
	BaseURL     string        // up to and including /v1
	Name        string        // of the model
	Key         string        // may be empty
	Concurrency int           // questions under way at once; 0 means 8
	Timeout     time.Duration // of one attempt at a question; 0 means 2 min
	InputPrice  float64       // of a million tokens read
	OutputPrice float64       // of a million tokens written
	Log         *slog.Logger  // nil is silent
}

// OpenAIModel asks one server for chat completions. It is safe for concurrent use.
type OpenAIModel struct {
	Endpoint
	client http.Client
	places chan struct{}
	plain  atomic.Bool // the server refuses schemas
	// pause waits between two attempts and gives the context's error if it ends.
	pause func(context.Context, time.Duration) error
}

// OpenAI gives the Model at an endpoint. Nothing is asked yet.
func OpenAI(e Endpoint) *OpenAIModel {
	if e.Concurrency == 0 {
		e.Concurrency = 8
	}
	if e.Timeout == 0 {
		e.Timeout = 2 * time.Minute
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = e.Concurrency
	return &OpenAIModel{Endpoint: e, client: http.Client{Transport: t}, places: make(chan struct{}, e.Concurrency), pause: rest}
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

const (
	attempts   = 4
	firstPause = 500 * time.Millisecond // doubled from attempt to attempt
	maxAnswer  = 16 << 20               // bytes
)

// Complete asks for q.N answers and waits its turn first. What the server cannot
// answer for the moment (429, 408, 5xx, no connection, no end within Timeout) is
// asked for again, after a growing pause or the one that Retry-After names, unless
// ctx ends before that. A schema is handed on as response_format; a server that
// refuses it with 400 or 422 and answers without is asked without from then on.
// Every failure is a diag.Error of KindJudge, since it is evaluators and judges who
// ask; a question that cannot be sent, such as one whose schema is not JSON, is one of
// KindPlugin.
func (m *OpenAIModel) Complete(ctx context.Context, q *sdk.ModelRequest) (*Answer, error) {
	free, err := m.body(q, false)
	if err != nil {
		return nil, diag.Wrap(diag.KindPlugin, "ask model", m.Name, err)
	}
	strict, err := m.body(q, q.Schema != "")
	if err != nil {
		return nil, diag.Errorf(diag.KindPlugin, "ask model", m.Name, "the schema of the answer: %w", err)
	}
	select {
	case m.places <- struct{}{}:
		defer func() { <-m.places }()
	case <-ctx.Done():
		return nil, m.failed(fmt.Errorf("waiting for one of %d places: %w", m.Concurrency, context.Cause(ctx)))
	}
	structured := q.Schema != "" && !m.plain.Load()
	fellBack := false
	pause := firstPause
	for try := 1; ; try++ {
		body := free
		if structured {
			body = strict
		}
		a, no := m.post(ctx, body, max(1, q.N))
		if no == nil {
			if fellBack && !m.plain.Swap(true) {
				m.Log.Warn("the model's server takes no JSON schema; answers are asked for without", "model", m.Name, "server", m.BaseURL)
			}
			return a, nil
		}
		if structured && (no.status == http.StatusBadRequest || no.status == http.StatusUnprocessableEntity) {
			structured, fellBack = false, true
			try--
			continue
		}
		wait := max(pause, no.after)
		deadline, limited := ctx.Deadline()
		switch {
		case !no.again:
			return nil, m.failed(no.err)
		case try == attempts:
			return nil, m.failed(fmt.Errorf("%w (attempt %d of %d)", no.err, try, attempts))
		case limited && time.Until(deadline) < wait:
			return nil, m.failed(fmt.Errorf("%w (no time is left to try again in %v)", no.err, wait.Round(time.Millisecond)))
		}
		if m.pause(ctx, wait) != nil {
			return nil, m.failed(no.err)
		}
		pause *= 2
	}
}

func (m *OpenAIModel) failed(err error) error {
	return &diag.Error{Kind: diag.KindJudge, Op: "ask model", Subject: m.Name, Err: err}
}

// body is the request for one attempt.
func (m *OpenAIModel) body(r *sdk.ModelRequest, structured bool) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type schema struct {
		Name   string          `json:"name"`
		Strict bool            `json:"strict"`
		Schema json.RawMessage `json:"schema"`
	}
	type format struct {
		Type   string `json:"type"`
		Schema schema `json:"json_schema"`
	}
	b := struct {
		Model       string    `json:"model"`
		Messages    []message `json:"messages"`
		Temperature float64   `json:"temperature"`
		MaxTokens   int64     `json:"max_tokens,omitempty"`
		Seed        uint64    `json:"seed,omitempty"`
		N           int64     `json:"n,omitempty"`
		Format      *format   `json:"response_format,omitempty"`
	}{Model: m.Name, Temperature: r.Temperature, MaxTokens: r.MaxTokens}
	for _, t := range r.Messages {
		b.Messages = append(b.Messages, message(t))
	}
	if r.Seed != 0 {
		b.Seed = max(1, (r.Seed^r.Seed>>32)&(1<<31-1)) // every server takes 31 bits
	}
	if r.N > 1 {
		b.N = r.N
	}
	if structured {
		b.Format = &format{"json_schema", schema{"answer", true, json.RawMessage(r.Schema)}}
	}
	return json.Marshal(b)
}

// refusal is an attempt without an answer.
type refusal struct {
	err    error
	status int           // of HTTP; 0 if there was none
	again  bool          // another attempt may help
	after  time.Duration // that the server wants to be left alone
}

// post makes one attempt at n answers.
func (m *OpenAIModel) post(ctx context.Context, body []byte, n int64) (*Answer, *refusal) {
	attempt, cancel := context.WithTimeoutCause(ctx, m.Timeout, fmt.Errorf("no answer after %v", m.Timeout))
	defer cancel()
	url := strings.TrimRight(m.BaseURL, "/") + "/chat/completions"
	lost := func(err error) *refusal {
		if attempt.Err() != nil {
			err = fmt.Errorf("%s: %w", url, context.Cause(attempt))
		}
		return &refusal{err: err, again: ctx.Err() == nil}
	}
	req, err := http.NewRequestWithContext(attempt, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, &refusal{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if m.Key != "" {
		req.Header.Set("Authorization", "Bearer "+m.Key)
	}
	res, err := m.client.Do(req)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, lost(fmt.Errorf("%s: %w", url, err))
	}
	if res.StatusCode != http.StatusOK {
		again := res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500
		return nil, &refusal{
			err:    fmt.Errorf("%s answers %s: %.200s", url, res.Status, bytes.TrimSpace(b)),
			status: res.StatusCode, again: again, after: retryAfter(res.Header.Get("Retry-After"), time.Now()),
		}
	}
	if len(b) > maxAnswer {
		return nil, &refusal{err: fmt.Errorf("%s: the answer is longer than %d MiB", url, maxAnswer>>20)}
	}
	a, err := m.read(b, n)
	if err != nil {
		return nil, &refusal{err: fmt.Errorf("%s: %w", url, err)}
	}
	return a, nil
}

// read takes n texts out of a server's answer.
func (m *OpenAIModel) read(b []byte, n int64) (*Answer, error) {
	var got struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		return nil, fmt.Errorf("the answer is not a chat completion: %w: %.200s", err, b)
	}
	a := &Answer{PromptTokens: got.Usage.Prompt, CompletionTokens: got.Usage.Completion}
	a.Cost = (float64(a.PromptTokens)*m.InputPrice + float64(a.CompletionTokens)*m.OutputPrice) / 1e6
	for _, c := range got.Choices {
		if c.Message.Content == "" && c.Message.Refusal != "" {
			return nil, fmt.Errorf("the model refuses: %.200s", c.Message.Refusal)
		}
		a.Texts = append(a.Texts, c.Message.Content)
	}
	if int64(len(a.Texts)) < n {
		return nil, fmt.Errorf("the answer has %d choices of %d: %.200s", len(a.Texts), n, b)
	}
	a.Texts = a.Texts[:n]
	return a, nil
}

// retryAfter reads the header of that name: seconds, or a date. Anything else is 0.
func retryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(s, 0), 86_400)) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
