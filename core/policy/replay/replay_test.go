package replay_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/replay"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/sdk"
)

// task is what all recordings are of.
var task = &sdk.Task{Key: "editing/one", System: "be brief", Prompt: "mend it"}

// recorded is a trajectory of turns, as a rollout writes it.
func recorded(end rollout.End, turns ...policy.Turn) *atif.Trajectory {
	tr := &rollout.Trajectory{ID: "e1", Task: task, Policy: "p", End: end}
	for _, t := range turns {
		tr.Turns = append(tr.Turns, rollout.Turn{Turn: t, Observation: "ok"})
	}
	return tr.ATIF()
}

var (
	ls   = policy.Turn{Text: "look", Reasoning: "hm", Call: &policy.Call{ID: "c1", Tool: "bash", Arguments: map[string]string{"command": "ls"}}}
	bad  = policy.Turn{Text: "?", Malformed: "the answer is empty"}
	done = policy.Turn{Text: "Done."}
)

func write(t *testing.T, name string, v any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// turns plays a session to its end.
func turns(t *testing.T, p policy.Policy, id string) ([]policy.Turn, error) {
	t.Helper()
	s, err := p.Open(t.Context(), policy.Opening{ID: id, Task: task})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out []policy.Turn
	for {
		turn, err := s.Next(t.Context(), "whatever")
		if err != nil {
			return out, err
		}
		out = append(out, turn)
		if turn.Full || turn.Call == nil && turn.Malformed == "" {
			return out, nil
		}
	}
}

func TestTurnsComeBack(t *testing.T) {
	full := policy.Turn{Text: "on and", Full: true}
	for end, want := range map[rollout.End][]policy.Turn{
		rollout.Submitted:  {ls, bad, done},
		rollout.MaxContext: {ls, full},
	} {
		p, err := replay.Load(write(t, "a.json", recorded(end, want...)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := turns(t, p, "x")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", end, d)
		}
	}
}

// A conversation that ended before its policy did has no further turn.
func TestRecordingEnds(t *testing.T) {
	p, err := replay.Load(write(t, "a.json", recorded(rollout.Timeout, ls)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := turns(t, p, "x"); len(got) != 1 || diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), "ended here, after 1 turns, with timeout") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestMismatchesAreNamed(t *testing.T) {
	path := write(t, "a.json", recorded(rollout.Submitted, done))
	p, err := replay.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		task *sdk.Task
		want string
	}{
		{&sdk.Task{Key: "editing/two", Prompt: "mend it"}, "open replay: editing/two: " + path + " has no recording of this task; it has editing/one"},
		{&sdk.Task{Key: "editing/one", Prompt: "mend that"}, "open replay: editing/one: recording e1 of " + path + " is of another prompt"},
		{nil, "no task"},
	} {
		if _, err := p.Open(t.Context(), policy.Opening{Task: tt.task}); diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// A run's folder gives its newest evaluation; an opening gets the episode of its own ID,
// and others take turns.
func TestRuns(t *testing.T) {
	dir := journal.Dir(t.TempDir())
	say := func(text string) *atif.Trajectory {
		return recorded(rollout.Submitted, policy.Turn{Text: text})
	}
	for step, text := range map[int]string{0: "old", 20: "new"} {
		err := dir.WriteEval(journal.Eval{Step: step, Split: "eval"}, []journal.Episode{
			{ID: "a", Task: task.Key, Outcome: journal.Scored, Trajectory: say(text + " a")},
			{ID: "b", Task: task.Key, Outcome: journal.Scored, Trajectory: say(text + " b")},
			{ID: "c", Task: task.Key, Outcome: "policy", Error: "the server is gone", Trajectory: recorded(rollout.Failed)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := replay.Load(string(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ id, want string }{{"b", "new b"}, {"a", "new a"}, {"x", "new a"}, {"y", "new b"}} {
		if got, err := turns(t, p, tt.id); err != nil || got[0].Text != tt.want {
			t.Errorf("%s: %v, %v", tt.id, got, err)
		}
	}
	if _, err := turns(t, p, "c"); err == nil || !strings.Contains(err.Error(), "recording c of "+string(dir)+" cannot be played: it failed and has no trajectory: the server is gone") {
		t.Error(err)
	}
	if old, err := replay.Load(dir.EvalEpisodesFile(0, "eval")); err != nil {
		t.Error(err)
	} else if got, _ := turns(t, old, "a"); got[0].Text != "old a" {
		t.Error(got)
	}
}

func TestWhatIsNoRecording(t *testing.T) {
	with := func(edit func(*atif.Trajectory)) *atif.Trajectory {
		a := recorded(rollout.Submitted, ls, done)
		edit(a)
		return a
	}
	agent := func(a *atif.Trajectory) *atif.Step { return &a.Steps[2] }
	for name, tt := range map[string]struct {
		v    any
		want string
	}{
		"another format":  {map[string]any{"text": []any{}}, `no trajectory: want messages, an ATIF trajectory (schema_version), or an episode`},
		"no JSON for it":  {[]int{1}, "row 1: byte 0: want an object"},
		"another version": {with(func(a *atif.Trajectory) { a.SchemaVersion = "ATIF-v2" }), `schema_version: "ATIF-v2", want ATIF-v1.7`},
		"unknown source":  {with(func(a *atif.Trajectory) { a.Steps[0].Source = "god" }), `steps[0].source: "god"`},
		"unknown tool":    {with(func(a *atif.Trajectory) { agent(a).ToolCalls[0].Function = "python" }), `steps[2].tool_calls[0].function_name: no tool "python"; there are bash and str_replace`},
		"two calls":       {with(func(a *atif.Trajectory) { s := agent(a); s.ToolCalls = append(s.ToolCalls, s.ToolCalls[0]) }), "steps[2].tool_calls: 2 calls"},
		"a list for text": {with(func(a *atif.Trajectory) { agent(a).ToolCalls[0].Arguments["command"] = []any{"ls"} }), "steps[2].tool_calls[0].arguments.command: neither text nor a number"},
	} {
		path := write(t, "a.json", tt.v)
		if _, err := replay.Load(path); diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := replay.Load(path); diag.KindOf(err) != diag.KindData {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A turn that was recorded with an insert has its line as a number or as text.
func TestNumbers(t *testing.T) {
	a := recorded(rollout.Submitted, policy.Turn{Call: &policy.Call{ID: "c", Tool: "str_replace", Arguments: map[string]string{"command": "insert", "path": "a", "new_str": "x"}}}, done)
	a.Steps[2].ToolCalls[0].Arguments["insert_line"] = 12
	p, err := replay.Load(write(t, "a.json", a))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := turns(t, p, ""); err != nil || got[0].Call.Arguments["insert_line"] != "12" {
		t.Errorf("%+v, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := p.Open(gone, policy.Opening{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(gone, ""); err == nil {
		t.Error("no error after the end of the context")
	}
}

// A recording that does not say which task it is of is known by what was asked: the
// messages of other programs say no more.
func TestRecordingsWithoutATask(t *testing.T) {
	a := recorded(rollout.Submitted, ls, done)
	delete(a.Extra, "task")
	for name, v := range map[string]any{
		"ATIF": a,
		"messages": map[string]any{"messages": []any{
			map[string]any{"role": "system", "content": task.System}, map[string]any{"role": "user", "content": task.Prompt},
			map[string]any{"role": "assistant", "content": "look", "reasoning_content": "hm", "tool_calls": []any{
				map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "bash", "arguments": `{"command": "ls"}`}},
			}},
			map[string]any{"role": "tool", "content": "ok", "tool_call_id": "c1"}, map[string]any{"role": "assistant", "content": "Done."},
		}},
	} {
		p, err := replay.Load(write(t, "a.json", v))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := turns(t, p, "")
		if d := cmp.Diff([]policy.Turn{ls, done}, got); d != "" || err != nil {
			t.Errorf("%s: %s %v", name, d, err)
		}
		other := &sdk.Task{Key: task.Key, System: task.System, Prompt: "mend that"}
		if _, err := p.Open(t.Context(), policy.Opening{Task: other}); err == nil || !strings.Contains(err.Error(), "has no recording of this task; it has tasks without a key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
