package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/journal"
)

// sample is one episode as the page shows it.
type sample struct {
	Skill, Task, End, Reason, From string
	Score                          float64
	Solved                         bool
	Turns, Tokens                  int
	Components                     string
	Messages                       []message
}

// message is one step of a conversation.
type message struct {
	Role  string // system, task, policy, result
	Text  string
	Calls []call
}

// call is one use of a tool.
type call struct {
	Tool string
	Args []argument
}

// argument is one named value; Block marks those that deserve lines of their own.
type argument struct {
	Name, Value string
	Block       bool
}

// keepSample takes an episode if its skill has none yet of the same outcome.
func (r *Report) keepSample(e journal.Episode, from string) {
	if e.Trajectory == nil || e.Outcome != journal.Scored {
		return
	}
	solved := e.Score == 1
	for _, s := range r.samples {
		if s.Skill == e.Skill && s.Solved == solved {
			return
		}
	}
	s := sample{
		Skill: e.Skill, Task: e.Task, End: e.End, Reason: e.Reason, From: from, Score: e.Score, Solved: solved,
		Turns: e.Turns, Tokens: e.SampledTokens, Messages: conversation(e.Trajectory),
	}
	var parts []string
	for _, c := range e.Components {
		parts = append(parts, fmt.Sprintf("%s %s", c.Name, number(c.Value)))
	}
	s.Components = strings.Join(parts, ", ")
	r.samples = append(r.samples, s)
}

// maxText bounds what is shown of one text.
const maxText = 4000

func cut(s string) string {
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	half := maxText / 2
	return strings.ToValidUTF8(s[:half], "") + fmt.Sprintf("\n… %d bytes …\n", len(s)-2*half) + strings.ToValidUTF8(s[len(s)-half:], "")
}

func conversation(t *atif.Trajectory) []message {
	var out []message
	for _, s := range t.Steps {
		m := message{Role: map[string]string{"system": "system", "user": "task", "agent": "policy"}[s.Source], Text: cut(s.Message)}
		if m.Role == "" {
			m.Role = s.Source
		}
		for _, c := range s.ToolCalls {
			k := call{Tool: c.Function}
			for _, n := range argumentOrder(c.Arguments) {
				v := cut(fmt.Sprint(c.Arguments[n]))
				k.Args = append(k.Args, argument{n, v, strings.Contains(v, "\n") || len(v) > 60})
			}
			m.Calls = append(m.Calls, k)
		}
		out = append(out, m)
		if s.Observation != nil {
			for _, o := range s.Observation.Results {
				out = append(out, message{Role: "result", Text: cut(o.Content)})
			}
		}
	}
	return out
}

// argumentOrder puts what a call does and where before what it writes.
func argumentOrder(args map[string]any) []string {
	order := []string{"command", "path", "insert_line", "old_str", "new_str", "file_text"}
	names := slices.Sorted(maps.Keys(args))
	slices.SortStableFunc(names, func(a, b string) int { return place(order, a) - place(order, b) })
	return names
}

func place(order []string, s string) int {
	if i := slices.Index(order, s); i >= 0 {
		return i
	}
	return len(order)
}
