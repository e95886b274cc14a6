// Package replay is the policy that does again what was recorded: the turns of ATIF
// trajectories, or of a run's stored episodes, through the same tools. It checks
// evaluators and sandboxes on conversations that happened, without a model.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

// Policy plays recordings. It is safe for concurrent use.
type Policy struct {
	path string
	all  map[string][]*recording // by task key, in the order of their files

	mu   sync.Mutex
	next map[string]int // by task key: how often one was opened
}

var _ policy.Policy = (*Policy)(nil)

// recording is a conversation as it was.
type recording struct {
	id     string // of the episode
	prompt string
	turns  []policy.Turn
	end    string
	lost   string // why it cannot be played; "" if it can
}

// Load reads recordings: an ATIF trajectory (*.json), a file of episodes
// (*.episodes.jsonl.zst), a folder with such files, or a run's folder, of which the
// newest evaluation counts, all its splits. Nothing is left out silently: a file that
// is no recording is an error of diag.KindData. Turns have no tokens, since nothing is
// sampled.
func Load(path string) (*Policy, error) {
	p := &Policy{path: path, all: map[string][]*recording{}, next: map[string]int{}}
	files, err := find(path)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := p.read(f); err != nil {
			return nil, err
		}
	}
	if len(p.all) == 0 {
		return nil, diag.Errorf(diag.KindData, "read recordings", path, "no trajectory there")
	}
	return p, nil
}

// find lists the files of recordings at path.
func find(path string) ([]string, error) {
	const op = "read recordings"
	info, err := os.Stat(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	dir := journal.Dir(path)
	if evals, err := dir.Evals(); err != nil {
		return nil, err
	} else if len(evals) > 0 {
		var files []string
		for _, e := range evals {
			if e.Step == evals[len(evals)-1].Step {
				files = append(files, dir.EvalEpisodesFile(e.Step, e.Split))
			}
		}
		return files, nil
	}
	var files []string
	for _, pattern := range []string{"*.json", "*.episodes.jsonl.zst", "episodes.jsonl.zst"} {
		found, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return nil, diag.Wrap(diag.KindData, op, path, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return nil, diag.Errorf(diag.KindData, op, path, "neither a run with an evaluation nor a folder of *.json or *.episodes.jsonl.zst")
	}
	return files, nil
}

func (p *Policy) read(file string) error {
	const op = "read recording"
	if strings.HasSuffix(file, ".jsonl.zst") {
		n := 0
		for e, err := range journal.ReadEpisodes(file) {
			if err != nil {
				return err
			}
			n++
			r := &recording{id: e.ID, lost: "it failed and has no trajectory: " + e.Error}
			if e.Trajectory != nil && (e.Outcome == journal.Scored || e.Error == "") {
				if r, err = transcribe(e.Trajectory); err != nil {
					return diag.Errorf(diag.KindData, op, fmt.Sprintf("%s, line %d", file, n), "%w", err)
				}
				r.id = e.ID
			}
			p.all[e.Task] = append(p.all[e.Task], r)
		}
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return diag.Wrap(diag.KindData, op, file, err)
	}
	key, r, err := readATIF(b)
	if err != nil {
		return diag.Wrap(diag.KindData, op, file, err)
	}
	p.all[key] = append(p.all[key], r)
	return nil
}

// readATIF reads a trajectory and the key of its task.
func readATIF(b []byte) (key string, r *recording, err error) {
	var t atif.Trajectory
	if err := json.Unmarshal(b, &t); err != nil {
		return "", nil, err
	}
	if !strings.HasPrefix(t.SchemaVersion, "ATIF-v1.") {
		return "", nil, fmt.Errorf("schema_version is %q, want %s", t.SchemaVersion, atif.SchemaVersion)
	}
	if key, _ = t.Extra["task"].(string); key == "" {
		return "", nil, errors.New("it does not say which task it is of; want the task's key as extra.task")
	}
	r, err = transcribe(&t)
	return key, r, err
}

// transcribe makes turns of steps.
func transcribe(t *atif.Trajectory) (*recording, error) {
	r := &recording{id: t.SessionID}
	r.end, _ = t.Extra["end"].(string)
	for i := range t.Steps {
		s := &t.Steps[i]
		switch s.Source {
		case "system":
		case "user":
			if r.prompt == "" {
				r.prompt = s.Message
			}
		case "agent":
			turn, err := transcribeTurn(s)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", s.StepID, err)
			}
			r.turns = append(r.turns, turn)
		default:
			return nil, fmt.Errorf("step %d: source %q, want system, user or agent", s.StepID, s.Source)
		}
	}
	if n := len(r.turns); n == 0 {
		r.lost = "it has no turn"
	} else if last := &r.turns[n-1]; r.end == "max_context" && last.Call == nil {
		*last = policy.Turn{Text: last.Text, Reasoning: last.Reasoning, Full: true}
	}
	return r, nil
}

func transcribeTurn(s *atif.Step) (policy.Turn, error) {
	turn := policy.Turn{Text: s.Message, Reasoning: s.Reasoning}
	if why, ok := s.Extra["malformed"].(string); ok {
		turn.Malformed = why
		return turn, nil
	}
	switch len(s.ToolCalls) {
	case 0:
		return turn, nil
	case 1:
	default:
		return turn, fmt.Errorf("it has %d tool calls; a turn has one", len(s.ToolCalls))
	}
	c := &s.ToolCalls[0]
	if c.Function != policy.ToolBash && c.Function != policy.ToolStrReplace {
		return turn, fmt.Errorf("it calls %q; there are %s and %s", c.Function, policy.ToolBash, policy.ToolStrReplace)
	}
	turn.Call = &policy.Call{ID: c.ID, Tool: c.Function, Arguments: map[string]string{}}
	for name, v := range c.Arguments {
		switch x := v.(type) {
		case string:
			turn.Call.Arguments[name] = x
		case float64:
			turn.Call.Arguments[name] = fmt.Sprint(x)
		case nil:
		default:
			return turn, fmt.Errorf("argument %s of %s is neither text nor a number", name, c.Function)
		}
	}
	return turn, nil
}

// Name implements [policy.Policy].
func (p *Policy) Name() string { return "replay" }

// Version implements [policy.Policy]; it is 0.
func (p *Policy) Version() int { return 0 }

// Open implements [policy.Policy]. The recording with the opening's own ID is played if
// the task has one, else its recordings take turns. A task that was not recorded, or
// whose prompt is another than the recorded one, is an error of diag.KindPolicy that
// names it.
func (p *Policy) Open(ctx context.Context, o policy.Opening) (policy.Session, error) {
	const op = "open replay"
	if o.Task == nil {
		return nil, diag.Errorf(diag.KindPolicy, op, o.ID, "no task")
	}
	refuse := func(format string, args ...any) error {
		return diag.Errorf(diag.KindPolicy, op, o.Task.Key, format, args...)
	}
	r := p.pick(o)
	switch {
	case r == nil:
		return nil, refuse("%s has no recording of this task; it has %s", p.path, some(p.all))
	case r.lost != "":
		return nil, refuse("recording %s of %s cannot be played: %s", r.id, p.path, r.lost)
	case r.prompt != o.Task.Prompt:
		return nil, refuse("recording %s of %s is of another prompt: the task has changed since, or another configuration built it", r.id, p.path)
	}
	return policy.NewExpert("replay", func(_ *sdk.Task, _ uint64) (policy.Script, error) { return r.play(), nil }).Open(ctx, o)
}

func (p *Policy) pick(o policy.Opening) *recording {
	of := p.all[o.Task.Key]
	for _, r := range of {
		if r.id == o.ID {
			return r
		}
	}
	if len(of) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next[o.Task.Key]
	p.next[o.Task.Key]++
	return of[n%len(of)]
}

// play gives the turns one after the other.
func (r *recording) play() policy.Script {
	next := 0
	return func(string) (policy.Turn, error) {
		if next == len(r.turns) {
			end := r.end
			if end == "" {
				return policy.Turn{}, errors.New("the recording has no further turn")
			}
			return policy.Turn{}, fmt.Errorf("the recording ended here, after %d turns, with %s", next, end)
		}
		next++
		return r.turns[next-1], nil
	}
}

// some names a few of the recorded tasks.
func some(all map[string][]*recording) string {
	keys := make([]string, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	const most = 3
	if len(keys) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:most], ", "), len(keys)-most)
	}
	return strings.Join(keys, ", ")
}
