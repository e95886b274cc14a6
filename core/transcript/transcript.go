// Package transcript is a conversation that happened, in the forms in which it is kept
// and exchanged: stored episodes, ATIF, the messages of OpenAI's chat as JSON lines, and
// the same as Parquet. One reader gives all of them to whoever learns from them or plays
// them again.
package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/policy"
)

// Transcript is one agent's conversation about one task. What the form it was read from
// does not say is empty.
type Transcript struct {
	ID     string // of the episode
	Task   string // key
	Skill  string
	Policy string
	Score  *float64 // nil: it has no verdict, or the form does not tell
	End    string   // why it ended, as a rollout says; "": not told
	Stored bool     // it is an episode, of which a run keeps good and bad ones

	System, Prompt string
	Turns          []Turn
	Tools          []map[string]any // that the agent was offered

	// Sequences are the tokens that were read and sampled, of the tokenizer with the
	// digest Tokenizer. Without a record of every turn there are none.
	Tokenizer string
	Sequences []Sequence

	// Lost says why there is nothing to play or to learn from; "" if there is.
	Lost string
}

// Turn is a policy's turn, without its tokens, and what it was answered with.
type Turn struct {
	policy.Turn
	Observation string
}

// Learnt says whether the turn is one to learn from: it could be read, and was not cut.
func (t *Turn) Learnt() bool { return t.Malformed == "" && !t.Full }

// Sequence is a run of tokens, with those marked that the policy sampled in turns to
// learn from. A turn whose context does not extend the turn before begins a new one.
type Sequence struct {
	Tokens []int
	Learnt []bool // per token
}

// FieldError says what in a trajectory is not as it should be, and where.
type FieldError struct {
	Field string // such as messages[3].role; "" for the whole
	Text  string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Text
	}
	return e.Field + ": " + e.Text
}

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// ends that a rollout gives to what was cut for want of room; see rollout.MaxContext.
const maxContext = "max_context"

// FromATIF reads a trajectory. An error is a [*FieldError].
func FromATIF(a *atif.Trajectory) (*Transcript, error) {
	t := &Transcript{ID: a.SessionID, Policy: a.Agent.ModelName, Tools: a.Agent.ToolDefinitions}
	t.Task, _ = a.Extra["task"].(string)
	t.Skill, _ = a.Extra["skill"].(string)
	t.End, _ = a.Extra["end"].(string)
	if x, ok := a.Extra["score"].(float64); ok {
		t.Score = &x
	}
	if !strings.HasPrefix(a.SchemaVersion, "ATIF-v1.") {
		return nil, wrong("schema_version", "%q, want %s", a.SchemaVersion, atif.SchemaVersion)
	}
	var b builder
	for i := range a.Steps {
		s := &a.Steps[i]
		at := fmt.Sprintf("steps[%d]", i)
		var err error
		switch s.Source {
		case "system":
			err = b.system(at, s.Message)
		case "user":
			err = b.user(at, s.Message)
		case "agent":
			err = b.step(at, s)
		default:
			err = wrong(at+".source", "%q, want system, user or agent", s.Source)
		}
		if err != nil {
			return nil, err
		}
	}
	b.finish(t)
	if t.Tokenizer, _ = a.Agent.Extra["tokenizer"].(string); t.Tokenizer != "" {
		t.Sequences = sequences(a, t.Turns)
	}
	return t, nil
}

// builder puts a transcript together, message by message.
type builder struct {
	t    Transcript
	told bool // the task was
}

func (b *builder) system(at, text string) error {
	if b.told || b.t.System != "" {
		return wrong(at, "a system message that is not the first message")
	}
	b.t.System = text
	return nil
}

func (b *builder) user(at, text string) error {
	if b.told {
		return wrong(at, "a second message of the user; a conversation is of one task")
	}
	b.t.Prompt, b.told = text, true
	return nil
}

// turn adds a turn of the agent; its answer comes later.
func (b *builder) turn(at string, t policy.Turn) error {
	if !b.told {
		return wrong(at, "the agent speaks before the user")
	}
	if n := len(b.t.Turns); n > 0 {
		if last := &b.t.Turns[n-1]; last.Call == nil && last.Malformed == "" {
			return wrong(at, "a turn after the final message, which calls no tool")
		}
	}
	b.t.Turns = append(b.t.Turns, Turn{Turn: t})
	return nil
}

func (b *builder) last() *Turn {
	if len(b.t.Turns) == 0 {
		return nil
	}
	return &b.t.Turns[len(b.t.Turns)-1]
}

// finish hands over what was put together.
func (b *builder) finish(t *Transcript) {
	t.System, t.Prompt, t.Turns = b.t.System, b.t.Prompt, b.t.Turns
	switch last := b.last(); {
	case last == nil:
		t.Lost = "it has no turn"
	case t.End == maxContext && last.Call == nil:
		last.Turn = policy.Turn{Text: last.Text, Reasoning: last.Reasoning, Full: true}
	}
}

func (b *builder) step(at string, s *atif.Step) error {
	turn := policy.Turn{Text: s.Message, Reasoning: s.Reasoning}
	if why, ok := s.Extra["malformed"].(string); ok {
		turn.Malformed = why
	} else if n := len(s.ToolCalls); n > 1 {
		return wrong(at+".tool_calls", "%d calls; a turn has one", n)
	} else if n == 1 {
		c := &s.ToolCalls[0]
		at := at + ".tool_calls[0]"
		var err error
		if turn.Call, err = readCall(at+".function_name", at+".arguments", c.ID, c.Function, c.Arguments); err != nil {
			return err
		}
	}
	if err := b.turn(at, turn); err != nil {
		return err
	}
	if s.Observation != nil {
		for i, r := range s.Observation.Results {
			if i > 0 {
				b.last().Observation += "\n"
			}
			b.last().Observation += r.Content
		}
	}
	return nil
}

// readCall makes a call of a tool's name and arguments, which stand at two places.
func readCall(atName, atArguments, id, name string, arguments map[string]any) (*policy.Call, error) {
	if name != policy.ToolBash && name != policy.ToolStrReplace {
		return nil, wrong(atName, "no tool %q; there are %s and %s", name, policy.ToolBash, policy.ToolStrReplace)
	}
	c := &policy.Call{ID: id, Tool: name, Arguments: map[string]string{}}
	for key, v := range arguments {
		switch x := v.(type) {
		case string:
			c.Arguments[key] = x
		case float64:
			c.Arguments[key] = fmt.Sprint(x)
		case json.Number:
			c.Arguments[key] = x.String()
		case nil: // as if it were not there
		default:
			return nil, wrong(atArguments+"."+key, "neither text nor a number")
		}
	}
	return c, nil
}

// prompt is the whole prompt of a step, after the tokens seen so far.
func prompt(m *atif.Metrics, seen []int) []int {
	if m.Extra["prompt_token_ids"] == atif.AddedTokens {
		return slices.Concat(seen, m.PromptTokenIDs)
	}
	return m.PromptTokenIDs
}

// sequences gives the tokens of a trajectory with the turns; nil unless each turn has
// its own.
func sequences(a *atif.Trajectory, turns []Turn) []Sequence {
	var out []Sequence
	var seen []int
	n := 0
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Source != "agent" {
			continue
		}
		turn := &turns[n]
		n++
		if s.Metrics == nil || len(s.Metrics.CompletionTokenIDs) == 0 {
			if turn.Full {
				continue // nothing was sampled
			}
			return nil
		}
		context := prompt(s.Metrics, seen)
		k := len(out) - 1
		if k < 0 || len(context) < len(out[k].Tokens) || !slices.Equal(out[k].Tokens, context[:len(out[k].Tokens)]) {
			out = append(out, Sequence{})
			k++
		}
		q := &out[k]
		q.add(context[len(q.Tokens):], false)
		q.add(s.Metrics.CompletionTokenIDs, turn.Learnt())
		seen = slices.Clip(q.Tokens)
	}
	return out
}

func (q *Sequence) add(ids []int, learnt bool) {
	q.Tokens = append(q.Tokens, ids...)
	for range ids {
		q.Learnt = append(q.Learnt, learnt)
	}
}

// check holds a sequence to what its fields promise.
func (q *Sequence) check() error {
	if len(q.Tokens) != len(q.Learnt) {
		return fmt.Errorf("%d tokens and %d marks", len(q.Tokens), len(q.Learnt))
	}
	if i := slices.IndexFunc(q.Tokens, func(id int) bool { return id < 0 }); i >= 0 {
		return errors.New("a negative token id")
	}
	return nil
}
