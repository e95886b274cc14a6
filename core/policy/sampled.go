package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
)

// MinTurn is the least room for a turn, in tokens: with less the context counts as full.
const MinTurn = 8

// SampledOptions bound and shape what a [Sampled] policy samples. The zero value
// leaves everything to the engine and the opening.
type SampledOptions struct {
	MaxTurnTokens int     // most tokens of one turn; 0: what the context leaves. Opening.MaxTokens bounds it further
	MaxContext    int     // tokens of a whole conversation; 0, or above the engine's: the engine's
	TopK          int     // 0: all tokens
	TopP          float64 // 0 or 1: all tokens
	Tokenizer     string  // digest of the chat's tokenizer, for the record; "": not told
}

// Sampled is the policy that an engine's weights are, spoken to through a chat. It
// keeps each conversation as the very tokens that were rendered and sampled; no text
// is ever tokenised twice.
type Sampled struct {
	name   string
	engine engine.Engine
	chat   Chat
	o      SampledOptions

	mu   sync.Mutex
	open map[string]bool // sessions by Opening.ID
}

var _ Policy = (*Sampled)(nil)

// NewSampled gives a policy over e. The engine stays the caller's to close.
func NewSampled(name string, e engine.Engine, c Chat, o SampledOptions) *Sampled {
	return &Sampled{name: name, engine: e, chat: c, o: o, open: map[string]bool{}}
}

// Name implements [Policy].
func (p *Sampled) Name() string { return p.name }

// Version implements [Policy].
func (p *Sampled) Version() int { return p.engine.Info().Version }

// Tokenizer is the digest of the tokenizer that made the turns' ids.
func (p *Sampled) Tokenizer() string { return p.o.Tokenizer }

// Open implements [Policy]. It samples nothing yet. An ID that is open already is an
// error of diag.KindPolicy, since two conversations would share one KV cache; the
// empty ID may be open any number of times and keeps no cache.
func (p *Sampled) Open(_ context.Context, o Opening) (Session, error) {
	const op = "open session"
	if o.Task == nil {
		return nil, diag.Errorf(diag.KindPolicy, op, o.ID, "no task")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.ID != "" {
		if p.open[o.ID] {
			return nil, diag.Errorf(diag.KindPolicy, op, o.ID, "a session with this ID is open")
		}
		p.open[o.ID] = true
	}
	return &sampledSession{p: p, o: o, room: p.context(), tokens: p.chat.Start(o.Task.System, o.Task.Prompt)}, nil
}

// context is the most tokens that a conversation may have.
func (p *Sampled) context() int {
	most := p.engine.Info().MaxContext
	if p.o.MaxContext > 0 {
		most = min(most, p.o.MaxContext)
	}
	return most
}

// sampledSession is one conversation.
type sampledSession struct {
	p      *Sampled
	o      Opening
	room   int   // tokens that the conversation may have
	tokens []int // the conversation; only ever appended to, so turns share its array
	turns  int   // sampled so far
	full   bool
	closed bool
}

// Next implements [Session]. After an error the session stands as before the call.
func (s *sampledSession) Next(ctx context.Context, observation string) (Turn, error) {
	const op = "sample turn"
	if s.closed {
		return Turn{}, diag.Errorf(diag.KindPolicy, op, s.o.ID, "the session is closed")
	}
	if s.full {
		return Turn{Full: true}, nil
	}
	prompt := s.tokens
	if s.turns > 0 {
		prompt = append(prompt, s.p.chat.Observe(observation)...)
	}
	room := s.room - len(prompt)
	if room < MinTurn {
		s.full = true
		return Turn{Full: true}, nil
	}
	most := room
	for _, bound := range []int{s.p.o.MaxTurnTokens, s.o.MaxTokens} {
		if bound > 0 {
			most = min(most, bound)
		}
	}
	got, err := s.p.engine.Sample(ctx, engine.SampleRequest{
		Session:     s.o.ID,
		Prompt:      slices.Clip(prompt),
		MaxTokens:   most,
		Temperature: s.o.Temperature,
		TopK:        s.p.o.TopK,
		TopP:        s.p.o.TopP,
		Stop:        s.p.chat.Stop(),
		Seed:        TurnSeed(s.o.Seed, s.turns),
	})
	if err != nil {
		s.tokens = slices.Clip(s.tokens) // the engine may still be reading the prompt behind them
		if ctx.Err() != nil {
			return Turn{}, ctx.Err()
		}
		return Turn{}, diag.Wrap(diag.KindPolicy, op, s.o.ID, err)
	}
	if err := s.check(got, most); err != nil {
		return Turn{}, diag.Wrap(diag.KindPolicy, op, s.o.ID, err)
	}
	turn := s.p.chat.Parse(got.Tokens)
	switch {
	case got.Stop == engine.StopContext || got.Stop == engine.StopLength && len(got.Tokens) >= room:
		turn = Turn{Text: turn.Text, Full: true}
		s.full = true
	case got.Stop == engine.StopLength:
		turn = Turn{Text: turn.Text, Malformed: fmt.Sprintf("cut at %d tokens", len(got.Tokens))}
	}
	s.turns++
	if turn.Call != nil && turn.Call.ID == "" {
		turn.Call.ID = CallID(s.turns)
	}
	turn.Context = slices.Clip(prompt)
	turn.Tokens, turn.Logprobs, turn.Versions = got.Tokens, got.Logprobs, got.Versions
	s.tokens = append(prompt, got.Tokens...)
	return turn, nil
}

// check refuses an answer that breaks the engine's contract, before it becomes
// training data.
func (s *sampledSession) check(got engine.Sampled, most int) error {
	n := len(got.Tokens)
	switch {
	case len(got.Logprobs) != n || len(got.Versions) != n:
		return fmt.Errorf("the engine gave %d tokens, %d logprobs and %d versions", n, len(got.Logprobs), len(got.Versions))
	case n > most:
		return fmt.Errorf("the engine gave %d tokens; at most %d were asked for", n, most)
	}
	switch got.Stop {
	case engine.StopToken:
		if n == 0 || !slices.Contains(s.p.chat.Stop(), got.Tokens[n-1]) {
			return fmt.Errorf("the engine stopped at a stop token, but the last token is none")
		}
	case engine.StopLength, engine.StopContext:
	default:
		return fmt.Errorf("the engine gave the stop reason %q", got.Stop)
	}
	return nil
}

// Close implements [Session]. It may be called again.
func (s *sampledSession) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if s.o.ID == "" {
		return
	}
	s.p.engine.Release(s.o.ID)
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	delete(s.p.open, s.o.ID)
}

// CallID names the call of a conversation's n-th turn, counted from 1.
func CallID(n int) string { return fmt.Sprintf("call_%d", n) }

// TurnSeed gives each turn of a conversation a seed of its own: output number turn+1
// of the SplitMix64 generator with the conversation's seed as its state (Steele, Lea
// and Flood 2014).
func TurnSeed(seed uint64, turn int) uint64 {
	z := seed + uint64(turn+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
