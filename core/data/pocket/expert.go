package pocket

import (
	"context"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

// expert is the scripted policy behind [NewExpert].
type expert struct {
	items map[string]*Item // by record
	seed  uint64
}

// NewExpert makes the policy whose verified episodes are the cold start. It knows
// the bugs of items and plays turns that could have been found without knowing
// them: what it writes stands in the prompt or was printed by a tool. It has
// several ways for each skill, chosen by seed, the opening's seed and the task;
// some fail (an example that does not show the bug, a check that a wrong fix
// passes), so keep those episodes alone whose verdict is 1.
//
// It serves the skills localization, editing, unittest, review and repro on
// records of items. Opening any other task is a diag.Error of KindPolicy. In a
// review it sometimes guesses at once, as the task's Reference has it: that shows
// the form of the answer, not how to find it, and is a fifth of the reviews.
func NewExpert(items []*Item, seed uint64) policy.Policy {
	e := &expert{items: make(map[string]*Item, len(items)), seed: seed}
	for _, it := range items {
		e.items[it.Record.ID] = it
	}
	return e
}

func (e *expert) Name() string { return "expert" }

func (e *expert) Version() int { return 0 }

func (e *expert) Open(_ context.Context, o policy.Opening) (policy.Session, error) {
	const op = "open expert"
	if o.Task == nil {
		return nil, diag.Errorf(diag.KindPolicy, op, o.ID, "no task")
	}
	it := e.items[o.Task.Record]
	if it == nil {
		return nil, diag.Errorf(diag.KindPolicy, op, o.Task.Key, "record %q is none of the expert's", o.Task.Record)
	}
	play := plays[o.Task.Skill]
	if play == nil {
		return nil, diag.Errorf(diag.KindPolicy, op, o.Task.Key, "no script for skill %q", o.Task.Skill)
	}
	s := &scene{Item: it, task: o.Task, dice: newDice("expert", e.seed, o.Seed, o.Task.Key)}
	play(s)
	return &session{steps: s.steps}, nil
}

// plays writes the script of each skill.
var plays = map[string]func(*scene){
	"localization": localize,
	"editing":      edit,
	"unittest":     test,
	"review":       review,
	"repro":        reproduceIssue,
}

// step makes a turn of what the last tool answered.
type step func(observation string) policy.Turn

// scene is a script in the making.
type scene struct {
	*Item
	task  *sdk.Task
	dice  *dice
	steps []step
}

func (s *scene) call(tool string, arguments map[string]string) {
	turn := policy.Turn{Call: &policy.Call{ID: strconv.Itoa(len(s.steps) + 1), Tool: tool, Arguments: arguments}}
	s.steps = append(s.steps, func(string) policy.Turn { return turn })
}

func (s *scene) bash(command string) {
	s.call(policy.ToolBash, map[string]string{"command": command})
}

func (s *scene) view(path string) {
	s.call(policy.ToolStrReplace, map[string]string{"command": "view", "path": path})
}

// create leaves the last line break to the tool, which adds it.
func (s *scene) create(path, text string) {
	text = strings.TrimSuffix(text, "\n")
	s.call(policy.ToolStrReplace, map[string]string{"command": "create", "path": path, "file_text": text})
}

func (s *scene) replace(path, old, text string) {
	s.call(policy.ToolStrReplace, map[string]string{"command": "replace", "path": path, "old_str": old, "new_str": text})
}

// submit ends the episode with a message made from the last observation.
func (s *scene) submit(message func(observation string) string) {
	s.steps = append(s.steps, func(o string) policy.Turn { return policy.Turn{Text: message(o)} })
}

func (s *scene) done() { s.submit(func(string) string { return "Done." }) }

// session plays a script; nothing it holds is shared.
type session struct{ steps []step }

func (s *session) Next(ctx context.Context, observation string) (policy.Turn, error) {
	if err := ctx.Err(); err != nil {
		return policy.Turn{}, err
	}
	if len(s.steps) == 0 {
		return policy.Turn{}, diag.Errorf(diag.KindPolicy, "next turn", "expert", "the script is over")
	}
	play := s.steps[0]
	s.steps = s.steps[1:]
	return play(observation), nil
}

func (s *session) Close() {}
