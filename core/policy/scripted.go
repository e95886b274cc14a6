package policy

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Scripted is a policy without weights: a program answers. Its turns have no tokens.
type Scripted struct {
	name  string
	begin func(task *sdk.Task, seed uint64) (Script, error)
}

var _ Policy = (*Scripted)(nil)

// Script answers one conversation. It gets the answer to its last call, "" the first
// time, and returns the next turn. It is called by one goroutine at a time.
type Script func(observation string) (Turn, error)

// NewScripted gives a policy that plays the turns that plan returns, whatever is
// answered to them. To go on after the last one is an error. plan must be safe for
// concurrent use and should depend on its arguments alone.
func NewScripted(name string, plan func(task *sdk.Task, seed uint64) []Turn) *Scripted {
	return NewExpert(name, func(task *sdk.Task, seed uint64) (Script, error) {
		return play(plan(task, seed)), nil
	})
}

// NewExpert gives a policy whose turns may depend on what the tools answered. begin
// is called once a conversation, must be safe for concurrent use and should depend
// on its arguments alone; its error, and a Script's, becomes one of diag.KindPolicy
// unless it has a kind.
func NewExpert(name string, begin func(task *sdk.Task, seed uint64) (Script, error)) *Scripted {
	return &Scripted{name: name, begin: begin}
}

// play is the script of turns that are known beforehand.
func play(turns []Turn) Script {
	next := 0
	return func(string) (Turn, error) {
		if next == len(turns) {
			return Turn{}, diag.Errorf(diag.KindPolicy, "play script", "", "it has no turn after the %d it was given", len(turns))
		}
		next++
		return turns[next-1], nil
	}
}

// Name implements [Policy].
func (p *Scripted) Name() string { return p.name }

// Version implements [Policy]; it is 0.
func (p *Scripted) Version() int { return 0 }

// Open implements [Policy].
func (p *Scripted) Open(_ context.Context, o Opening) (Session, error) {
	if o.Task == nil {
		return nil, diag.Errorf(diag.KindPolicy, "open "+p.name, o.ID, "no task")
	}
	script, err := p.begin(o.Task, o.Seed)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open "+p.name, o.Task.Key, err)
	}
	return &scriptedSession{p: p, key: o.Task.Key, script: script}, nil
}

type scriptedSession struct {
	p      *Scripted
	key    string
	script Script
	turns  int
}

// Next implements [Session].
func (s *scriptedSession) Next(ctx context.Context, observation string) (Turn, error) {
	if err := ctx.Err(); err != nil {
		return Turn{}, err
	}
	if s.turns == 0 {
		observation = ""
	}
	t, err := s.script(observation)
	if err != nil {
		return Turn{}, diag.Wrap(diag.KindPolicy, "ask "+s.p.name, s.key, err)
	}
	s.turns++
	if t.Call != nil && t.Call.ID == "" {
		c := *t.Call // the script's own stays as it is
		c.ID = CallID(s.turns)
		t.Call = &c
	}
	return t, nil
}

// Close implements [Session].
func (s *scriptedSession) Close() {}

// Noop is the policy that submits an empty message at once: the floor of every
// evaluation, and the check that an evaluator gives nothing for nothing.
func Noop() *Scripted {
	return NewScripted("noop", func(*sdk.Task, uint64) []Turn { return []Turn{{}} })
}
