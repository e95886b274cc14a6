// Package rollout is the agent loop: a policy and a sandbox, two tools between
// them, and a typed reason for the end.
//
// A policy that answers nonsense gets an answer saying so and goes on: a bad
// rollout is data. Only a sandbox or a policy that fails is an error.
package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// End says why a rollout ended.
type End string

// The reasons. Only Submitted is the agent's own decision; compact filtering
// (ALGORITHMS 3) may mask each of the others.
const (
	Submitted  End = "submitted"
	MaxContext End = "max_context"
	MaxSteps   End = "max_steps"
	Timeout    End = "timeout"
	Failed     End = "error" // an infrastructure failure; there is no output
)

// Options bound a rollout.
type Options struct {
	MaxSteps         int           // turns; default 50
	Timeout          time.Duration // of the whole rollout; default 30 min
	ObservationLimit int           // bytes of one tool's answer, head and tail kept; default 16 KiB
	LineNumbers      bool          // number the lines of a viewed file
	Temperature      float64
	MaxTurnTokens    int     // 0: what the context leaves
	Watch            Watcher // sees the rollout as it happens; nil: nobody does
}

// Watcher sees a rollout as it happens. It is called by the rollout's goroutine, which
// waits for it.
type Watcher interface {
	// Piece is text of a turn that is being written, "" if what was written so far is
	// thrown away; only some policies have it.
	Piece(text string)
	// Turned is a whole turn, before its call is carried out.
	Turned(t *policy.Turn)
	// Answered is what the last turn is answered with.
	Answered(observation string)
}

func (o Options) withDefaults() Options {
	if o.MaxSteps == 0 {
		o.MaxSteps = 50
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Minute
	}
	if o.ObservationLimit == 0 {
		o.ObservationLimit = 16 << 10
	}
	return o
}

// Trajectory is what happened, token by token, and what it left.
type Trajectory struct {
	ID        string
	Task      *sdk.Task
	Policy    string
	Tokenizer string // digest of what made the turns' token ids; "": not known
	Turns     []Turn
	End       End
	Output    sdk.Output
	Tools     map[string]int // calls by bash, view, create, replace, insert
	TestRuns  int            // bash calls that ran tests or scripts
	Took      time.Duration
}

// Turn is a policy's turn with the answer that it got.
type Turn struct {
	policy.Turn
	Observation string
}

// Run plays one rollout in box, which holds the task's workspace, and collects
// the output from the file system. It blocks until the end; box stays open. The
// error, if any, has the kind of what failed and comes with the trajectory so far.
func Run(ctx context.Context, box sandbox.Sandbox, p policy.Policy, open policy.Opening, o Options) (*Trajectory, error) {
	o = o.withDefaults()
	started := time.Now()
	tr := &Trajectory{ID: open.ID, Task: open.Task, Policy: p.Name(), Tools: map[string]int{}, End: Failed}
	if t, ok := p.(interface{ Tokenizer() string }); ok {
		tr.Tokenizer = t.Tokenizer()
	}
	defer func() { tr.Took = time.Since(started) }()

	open.Temperature, open.MaxTokens = o.Temperature, o.MaxTurnTokens
	if o.Watch != nil {
		open.Piece = o.Watch.Piece
	}
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	session, err := p.Open(limited, open)
	if err != nil {
		return tr, err
	}
	defer session.Close()

	t := &tools{box: box, opts: o, used: tr.Tools}
	end, message, err := loop(limited, tr, session, t, o)
	tr.TestRuns = t.runs
	if err != nil {
		if limited.Err() == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return tr, err
		}
		end = Timeout
	}
	out, err := Collect(ctx, box, open.Task.Collect)
	if err != nil {
		return tr, err
	}
	out.Message, out.End = message, string(end)
	tr.Output, tr.End = out, end
	return tr, nil
}

func loop(ctx context.Context, tr *Trajectory, session policy.Session, t *tools, o Options) (End, string, error) {
	observation := ""
	for len(tr.Turns) < o.MaxSteps {
		turn, err := session.Next(ctx, observation)
		if err != nil {
			return Failed, "", err
		}
		tr.Turns = append(tr.Turns, Turn{Turn: turn})
		last := &tr.Turns[len(tr.Turns)-1]
		if o.Watch != nil {
			o.Watch.Turned(&turn)
		}
		switch {
		case turn.Full:
			return MaxContext, "", nil
		case turn.Malformed != "":
			last.Observation = "Error: " + turn.Malformed
		case turn.Call != nil:
			if last.Observation, err = t.call(ctx, turn.Call); err != nil {
				return Failed, "", err
			}
		default:
			return Submitted, turn.Text, nil
		}
		observation = last.Observation
		if o.Watch != nil {
			o.Watch.Answered(observation)
		}
	}
	return MaxSteps, "", nil
}

// Collect reads what was changed in a sandbox and sorts it by a task's globs. A
// tree too large to read is an output without changes that says so in Outside, and a
// file whose name, or a link whose target, is no UTF-8 is Outside too: no plugin could
// be told its name.
func Collect(ctx context.Context, box sandbox.Sandbox, globs []string) (sdk.Output, error) {
	var out sdk.Output
	changes, err := box.Diff(ctx, 0)
	if errors.Is(err, sandbox.ErrTooLarge) {
		out.Outside = []string{"(the workspace grew beyond what is collected)"}
		return out, nil
	}
	if err != nil {
		return out, err
	}
	for _, c := range changes {
		switch {
		case generated(c.Path):
		case !utf8.ValidString(c.Path) || !utf8.ValidString(c.Symlink):
			out.Outside = append(out.Outside, strings.ToValidUTF8(c.Path, "�"))
		case sdk.Collects(globs, c.Path):
			out.Changes = append(out.Changes, c)
		default:
			out.Outside = append(out.Outside, c.Path)
		}
	}
	return out, nil
}

// generated says whether a tool makes the file as a by-product, or it belongs to version
// control, which workspaces have none of.
func generated(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "__pycache__" || part == ".pytest_cache" || part == ".git" {
			return true
		}
	}
	return strings.HasSuffix(p, ".pyc")
}

// Sequence is a run of tokens to train on: the conversation's tokens with those
// the policy sampled marked. A turn whose context does not extend the turn before
// starts a new sequence.
type Sequence struct {
	Tokens   []int
	Sampled  []bool    // per token
	Logprobs []float32 // per token; 0 where not sampled
	Version  int       // oldest that sampled a token of it
}

// Sequences gives the token-exact training sequences; none for policies without tokens.
func (tr *Trajectory) Sequences() []Sequence {
	var out []Sequence
	for i := range tr.Turns {
		t := &tr.Turns[i]
		if len(t.Tokens) == 0 {
			continue
		}
		var s *Sequence
		if n := len(out); n > 0 && extends(t.Context, out[n-1].Tokens) {
			s = &out[n-1]
		} else {
			out = append(out, Sequence{Version: t.Versions[0]})
			s = &out[len(out)-1]
		}
		for _, id := range t.Context[len(s.Tokens):] {
			s.Tokens = append(s.Tokens, id)
			s.Sampled = append(s.Sampled, false)
			s.Logprobs = append(s.Logprobs, 0)
		}
		for j, id := range t.Tokens {
			s.Tokens = append(s.Tokens, id)
			s.Sampled = append(s.Sampled, true)
			s.Logprobs = append(s.Logprobs, t.Logprobs[j])
			s.Version = min(s.Version, t.Versions[j])
		}
	}
	return out
}

// extends says whether ids begins with head.
func extends(ids, head []int) bool {
	return len(head) <= len(ids) && slices.Equal(head, ids[:len(head)])
}

// SampledTokens counts what the policy sampled; where there is no record of the tokens,
// as its server says.
func (tr *Trajectory) SampledTokens() (n int) {
	for i := range tr.Turns {
		switch t := &tr.Turns[i]; {
		case len(t.Tokens) > 0:
			n += len(t.Tokens)
		case t.Usage != nil:
			n += t.Usage.Completion
		}
	}
	return n
}

// PromptTokens is the length of the last turn's context; where there is no record of
// the tokens, as its server says.
func (tr *Trajectory) PromptTokens() int {
	if len(tr.Turns) == 0 {
		return 0
	}
	last := &tr.Turns[len(tr.Turns)-1]
	if len(last.Context) == 0 && last.Usage != nil {
		return last.Usage.Prompt
	}
	return len(last.Context)
}

// Version is the oldest policy version that sampled a token; fallback if none did.
func (tr *Trajectory) Version(fallback int) int {
	v, seen := fallback, false
	for i := range tr.Turns {
		for _, x := range tr.Turns[i].Versions {
			if !seen || x < v {
				v, seen = x, true
			}
		}
	}
	return v
}

// ATIF gives the trajectory in the exchange format. Prompt token ids are stored
// as what each turn added to the turn before, so that a file does not grow with
// the square of the conversation; extra.prompt_token_ids says so. A turn whose
// context does not extend the turn before has its whole context.
func (tr *Trajectory) ATIF() *atif.Trajectory {
	a := &atif.Trajectory{
		SchemaVersion: atif.SchemaVersion,
		SessionID:     tr.ID,
		TrajectoryID:  tr.ID,
		Agent:         atif.Agent{Name: "valence", Version: "1", ModelName: tr.Policy, ToolDefinitions: ToolDefinitions()},
		FinalMetrics:  &atif.FinalMetrics{TotalCompletionTokens: tr.SampledTokens()},
		Extra:         map[string]any{"end": string(tr.End), "task": tr.Task.Key},
	}
	if tr.Tokenizer != "" {
		a.Agent.Extra = map[string]any{"tokenizer": tr.Tokenizer}
	}
	add := func(s atif.Step) {
		s.StepID = len(a.Steps) + 1
		a.Steps = append(a.Steps, s)
	}
	if tr.Task.System != "" {
		add(atif.Step{Source: "system", Message: tr.Task.System})
	}
	add(atif.Step{Source: "user", Message: tr.Task.Prompt})
	var seen []int
	for i := range tr.Turns {
		t := &tr.Turns[i]
		s := atif.Step{Source: "agent", Message: t.Text, Reasoning: t.Reasoning}
		if t.Call != nil {
			id := t.Call.ID
			if id == "" {
				id = "call-" + string(rune('a'+i%26))
			}
			args := map[string]any{}
			for k, v := range t.Call.Arguments {
				args[k] = v
			}
			s.ToolCalls = []atif.ToolCall{{ID: id, Function: t.Call.Tool, Arguments: args}}
			s.Observation = &atif.Observation{Results: []atif.ObservationResult{{SourceCallID: id, Content: t.Observation}}}
		} else if t.Malformed != "" {
			s.Extra = map[string]any{"malformed": t.Malformed}
			s.Observation = &atif.Observation{Results: []atif.ObservationResult{{Content: t.Observation}}}
		}
		if u := t.Usage; u != nil {
			s.Metrics = &atif.Metrics{PromptTokens: u.Prompt, CompletionTokens: u.Completion, CachedTokens: u.Cached, CostUSD: u.Cost}
			a.FinalMetrics.TotalCachedTokens += u.Cached
			a.FinalMetrics.TotalCostUSD += u.Cost
			if len(t.Tokens) == 0 {
				a.FinalMetrics.TotalPromptTokens += u.Prompt
			}
		}
		if len(t.Tokens) > 0 {
			if s.Metrics == nil {
				s.Metrics = &atif.Metrics{}
			}
			s.Metrics.PromptTokens, s.Metrics.CompletionTokens = len(t.Context), len(t.Tokens)
			s.Metrics.PromptTokenIDs, s.Metrics.CompletionTokenIDs, s.Metrics.Logprobs = t.Context, t.Tokens, t.Logprobs
			if extends(t.Context, seen) {
				s.Metrics.PromptTokenIDs = t.Context[len(seen):]
				s.Metrics.Extra = map[string]any{"prompt_token_ids": atif.AddedTokens}
			}
			seen = slices.Concat(t.Context, t.Tokens)
			a.FinalMetrics.TotalPromptTokens += len(t.Context)
		}
		add(s)
	}
	a.FinalMetrics.TotalSteps = len(a.Steps)
	return a
}
