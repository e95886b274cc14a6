// Package served is the policy that a model behind an OpenAI-compatible server is.
//
// What a model does wrong is a turn: one that cannot be read is Malformed and says
// why, so that the model can mend it; one that does not fit its context is Full. What
// the server does wrong is tried again and is at last an error of diag.KindPolicy with
// a [*Failure], never a turn.
package served

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/chat"
)

// Options say how a model is spoken to. Model is required.
type Options struct {
	Model      string
	Tools      []map[string]any // offered to the model; not in a brief chat
	Brief      bool             // the model writes the brief chat of package chat as text
	MaxContext int              // tokens of a whole conversation; 0: the server's limit
	TopP       float64          // 0 or 1: all tokens
	Seed       bool             // send a seed, derived from the episode's
	Stream     bool
	Tokens     bool           // ask for token ids and logprobs
	Reasoning  bool           // send the model its reasoning back
	MaxTokens  string         // name of the field; "": max_tokens
	Extra      map[string]any // further fields of the request, which win over the policy's own
	Log        *slog.Logger   // nil is silent
}

// Policy asks a server. It is safe for concurrent use.
type Policy struct {
	server *chatserver.Client
	o      Options
	halved atomic.Bool // it was said that token records come incomplete
}

var _ policy.Policy = (*Policy)(nil)

// New gives the policy. The client stays the caller's to close.
func New(server *chatserver.Client, o Options) *Policy {
	if o.MaxTokens == "" {
		o.MaxTokens = "max_tokens"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Policy{server: server, o: o}
}

// Name implements [policy.Policy]: "openai:" and the model's name.
func (p *Policy) Name() string { return "openai:" + p.o.Model }

// Version implements [policy.Policy]; it is 0, since the server does not tell.
func (p *Policy) Version() int { return 0 }

// Open implements [policy.Policy]. It asks nothing yet.
func (p *Policy) Open(_ context.Context, o policy.Opening) (policy.Session, error) {
	if o.Task == nil {
		return nil, diag.Errorf(diag.KindPolicy, "open session", o.ID, "no task")
	}
	s := &session{p: p, o: o}
	if o.Task.System != "" {
		s.say("system", o.Task.System)
	}
	s.say("user", o.Task.Prompt)
	return s, nil
}

// Failure is what a server did instead of answering.
type Failure struct {
	Fault chatserver.Fault
	Why   string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Fault, f.Why) }

// session is one conversation.
type session struct {
	p        *Policy
	o        policy.Opening
	messages []message
	answers  []string // ids of the calls that the next observation answers; none: see role
	role     string   // of the next observation if it answers no call
	turns    int
	known    int // tokens that the conversation has at least
	full     bool
	closed   bool
}

type message map[string]any

func (s *session) say(role, content string) {
	s.messages = append(s.messages, message{"role": role, "content": content})
}

// Next implements [policy.Session]. After an error the session stands as before the
// call. The time that ctx gives may end while the model writes, which is the policy's
// doing and gives the context's error; if it ends while the server is silent, or after
// it failed, that is the server's doing and a [*Failure].
func (s *session) Next(ctx context.Context, observation string) (policy.Turn, error) {
	const op = "ask server"
	if s.closed {
		return policy.Turn{}, diag.Errorf(diag.KindPolicy, op, s.o.ID, "the session is closed")
	}
	if s.full {
		return policy.Turn{Full: true}, nil
	}
	before := len(s.messages)
	if s.turns > 0 {
		s.observe(observation)
	}
	undo := func() { s.messages = s.messages[:before:before] }

	most, roomy := s.most()
	if roomy && most < policy.MinTurn {
		s.full = true
		return policy.Turn{Full: true}, nil
	}
	a, err := s.p.server.Ask(ctx, s.question(most))
	var no *chatserver.Error
	if errors.As(err, &no) && no.Fault == chatserver.TooLong && most > 0 {
		// Many servers refuse a bound that is larger than what is left, instead of
		// taking it for a bound.
		if left, ok := no.Room.Left(); ok && left >= policy.MinTurn && left < most {
			most, roomy = left, true
			a, err = s.p.server.Ask(ctx, s.question(most))
		}
	}
	if errors.As(err, &no) {
		switch {
		case no.Fault == chatserver.TooLong:
			s.full = true
			return policy.Turn{Full: true}, nil
		case no.Fault == chatserver.Ended, errors.Is(ctx.Err(), context.Canceled):
			undo()
			return policy.Turn{}, ctx.Err()
		}
		undo()
		return policy.Turn{}, &diag.Error{Kind: diag.KindPolicy, Op: op, Subject: s.o.ID, Err: &Failure{no.Fault, no.Error()}}
	}
	if err != nil {
		undo()
		return policy.Turn{}, diag.Wrap(diag.KindPolicy, op, s.o.ID, err)
	}
	c := &a.Choices[0]
	if c.Finish == "content_filter" {
		undo()
		return policy.Turn{}, &diag.Error{Kind: diag.KindPolicy, Op: op, Subject: s.o.ID, Err: &Failure{chatserver.Refused, "the server withholds the answer (content_filter)"}}
	}
	s.turns++
	turn := s.read(c)
	s.bound(&turn, a, most, roomy)
	turn.Reasoning = c.Reasoning
	turn.Usage = &policy.Usage{
		Prompt: a.Usage.Prompt, Cached: a.Usage.Cached, Completion: a.Usage.Completion,
		Cost: a.Cost, Attempts: a.Attempts, Seconds: a.Took.Seconds(),
	}
	s.record(&turn, a)
	return turn, nil
}

// observe appends what the last turn's call is answered with.
func (s *session) observe(text string) {
	for _, id := range s.answers {
		s.messages = append(s.messages, message{"role": "tool", "tool_call_id": id, "content": text})
	}
	if len(s.answers) == 0 {
		s.say(s.role, text)
	}
}

// most is the bound of the next turn, 0 for none; roomy says that it is what is left of
// the context.
func (s *session) most() (n int, roomy bool) {
	n = s.o.MaxTokens
	if s.p.o.MaxContext > 0 {
		if left := max(0, s.p.o.MaxContext-s.known); n == 0 || left < n {
			return left, true
		}
	}
	return n, false
}

// question is the request for the next turn.
func (s *session) question(most int) *chatserver.Question {
	o := &s.p.o
	body := map[string]any{"model": o.Model, "messages": s.messages, "temperature": s.o.Temperature}
	if !o.Brief && len(o.Tools) > 0 {
		body["tools"] = o.Tools
	}
	if most > 0 {
		body[o.MaxTokens] = most
	}
	if o.TopP > 0 && o.TopP < 1 {
		body["top_p"] = o.TopP
	}
	if o.Seed {
		body["seed"] = chatserver.Seed(policy.TurnSeed(s.o.Seed, s.turns))
	}
	plain := maps.Clone(body)
	if o.Stream {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	if o.Tokens {
		body["return_token_ids"], body["logprobs"] = true, true
	}
	maps.Copy(body, o.Extra)
	maps.Copy(plain, o.Extra)
	q := &chatserver.Question{Body: body, Session: s.o.ID, Stream: o.Stream, Piece: s.o.Piece}
	if len(plain) < len(body) {
		q.Plain = plain
	}
	if s.o.Piece != nil {
		q.Retried = func() { s.o.Piece("") }
	}
	return q
}

// read makes a turn of what the model wrote, and keeps the message that the model will
// see of itself.
func (s *session) read(c *chatserver.Choice) policy.Turn {
	if s.p.o.Brief {
		s.answers, s.role = nil, "tool"
		s.keep(c, message{"role": "assistant", "content": c.Content})
		t := chat.ParseText(c.Content)
		if t.Call != nil {
			t.Call.ID = policy.CallID(s.turns)
		}
		return t
	}
	calls, err := readCalls(c.Calls)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("%s_%d", policy.CallID(s.turns), i+1)
		}
	}
	t := policy.Turn{Text: c.Content}
	said := message{"role": "assistant", "content": c.Content}
	s.answers, s.role = nil, "user"
	switch {
	case len(calls) > 0 && whole(calls):
		var sent []map[string]any
		for _, k := range calls {
			s.answers = append(s.answers, k.ID)
			sent = append(sent, map[string]any{"id": k.ID, "type": "function", "function": map[string]any{"name": k.Name, "arguments": k.Arguments}})
		}
		said["tool_calls"] = sent
		if c.Content == "" {
			said["content"] = nil
		}
	case len(calls) > 0: // a server that is sent arguments that are no JSON may fail on them
		said["content"] = written(c)
	}
	s.keep(c, said)
	switch {
	case err != nil:
		t.Text = written(c)
		t.Malformed = err.Error()
	case len(calls) == 1:
		t.Call = &policy.Call{ID: calls[0].ID, Tool: calls[0].Name, Arguments: calls[0].arguments}
	case strings.TrimSpace(c.Content) != "":
	case c.Refusal != "":
		t.Text = c.Refusal
	case c.Reasoning != "":
		t.Malformed = "the answer has reasoning only; call a tool, or write the final message"
	default:
		t.Malformed = "the answer is empty; call a tool, or write the final message"
	}
	return t
}

// written is what the model wrote as text, calls included.
func written(c *chatserver.Choice) string {
	lines := make([]string, 0, 1+len(c.Calls))
	if c.Content != "" {
		lines = append(lines, c.Content)
	}
	for _, k := range c.Calls {
		lines = append(lines, k.Name+"("+k.Arguments+")")
	}
	return strings.Join(lines, "\n")
}

func (s *session) keep(c *chatserver.Choice, said message) {
	if s.p.o.Reasoning && c.Reasoning != "" {
		said["reasoning_content"] = c.Reasoning
	}
	s.messages = append(s.messages, said)
}

// bound settles what a turn is that ran into a limit.
func (s *session) bound(t *policy.Turn, a *chatserver.Answer, most int, roomy bool) {
	u := a.Usage
	if u.Prompt > 0 {
		s.known = u.Prompt + u.Completion
	}
	if limit := s.p.o.MaxContext; limit > 0 && u.Prompt > 0 {
		most = limit - u.Prompt // what the embedded policy would have had
		if s.o.MaxTokens > 0 && s.o.MaxTokens < most {
			most = s.o.MaxTokens
		} else {
			roomy = true
			if most < policy.MinTurn {
				*t, s.full = policy.Turn{Full: true}, true
				return
			}
		}
		if u.Completion > most {
			a.Choices[0].Finish = "length"
		}
	}
	if a.Choices[0].Finish != "length" {
		return
	}
	switch {
	case most == 0, roomy:
		*t, s.full = policy.Turn{Text: t.Text, Full: true}, true
	default:
		*t = policy.Turn{Text: t.Text, Malformed: fmt.Sprintf("cut at %d tokens", most)}
	}
}

// record keeps the token-exact record of a turn if the server gave all of it.
func (s *session) record(t *policy.Turn, a *chatserver.Answer) {
	c := &a.Choices[0]
	switch {
	case len(a.PromptTokenIDs) > 0 && len(c.TokenIDs) > 0 && len(c.Logprobs) == len(c.TokenIDs):
		t.Context, t.Tokens, t.Logprobs = a.PromptTokenIDs, c.TokenIDs, c.Logprobs
		t.Versions = make([]int, len(c.TokenIDs))
	case len(c.TokenIDs) > 0 && !s.p.halved.Swap(true):
		s.p.o.Log.Warn("the server gives token ids without the prompt's or without logprobs; none are kept", "server", a.Endpoint)
	}
}

// Close implements [policy.Session]. It may be called again.
func (s *session) Close() { s.closed = true }
