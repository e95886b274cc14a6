// Package replay is the policy that does again what was recorded, in any of the forms of
// package transcript, through the same tools. It checks
// evaluators and sandboxes on conversations that happened, without a model.
package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/transcript"
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
type recording struct{ *transcript.Transcript }

// Load reads recordings: a file of trajectories in any of the forms of package
// transcript, a folder with such files, or a run's folder, of which the newest
// evaluation counts, all its splits. Nothing is left out silently: what is no recording
// is an error of diag.KindData that names file, line and field. Turns have no tokens,
// since nothing is sampled.
func Load(path string) (*Policy, error) {
	p := &Policy{path: path, all: map[string][]*recording{}, next: map[string]int{}}
	files, err := find(path)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for found := range transcript.Read(f) {
			if found.Err != nil {
				return nil, found.Err
			}
			key := found.Task
			if key == "" {
				key = opening(found.System, found.Prompt)
			}
			p.all[key] = append(p.all[key], &recording{found.Transcript})
		}
	}
	if len(p.all) == 0 {
		return nil, diag.Errorf(diag.KindData, "read recordings", path, "no trajectory there")
	}
	return p, nil
}

// opening stands for the key of a task where a recording does not tell it: plain
// messages know what was asked. No key has a line break.
func opening(system, prompt string) string { return "\n" + system + "\n" + prompt }

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
	return transcript.Files(path)
}

// Name implements [policy.Policy].
func (p *Policy) Name() string { return "replay" }

// Version implements [policy.Policy]; it is 0.
func (p *Policy) Version() int { return 0 }

// Has says whether a task was recorded, by its key or by what was asked.
func (p *Policy) Has(t *sdk.Task) bool { return len(p.all[p.key(t)]) > 0 }

// key is where the recordings of a task lie.
func (p *Policy) key(t *sdk.Task) string {
	if len(p.all[t.Key]) > 0 {
		return t.Key
	}
	return opening(t.System, t.Prompt)
}

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
	case r.Lost != "":
		return nil, refuse("recording %s of %s cannot be played: %s", r.ID, p.path, r.Lost)
	case r.Prompt != o.Task.Prompt:
		return nil, refuse("recording %s of %s is of another prompt: the task has changed since, or another configuration built it", r.ID, p.path)
	}
	return policy.NewExpert("replay", func(_ *sdk.Task, _ uint64) (policy.Script, error) { return r.play(), nil }).Open(ctx, o)
}

func (p *Policy) pick(o policy.Opening) *recording {
	key := p.key(o.Task)
	of := p.all[key]
	for _, r := range of {
		if r.ID == o.ID {
			return r
		}
	}
	if len(of) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next[key]
	p.next[key]++
	return of[n%len(of)]
}

// play gives the turns one after the other.
func (r *recording) play() policy.Script {
	next := 0
	return func(string) (policy.Turn, error) {
		if next == len(r.Turns) {
			end := r.End
			if end == "" {
				return policy.Turn{}, errors.New("the recording has no further turn")
			}
			return policy.Turn{}, fmt.Errorf("the recording ended here, after %d turns, with %s", next, end)
		}
		next++
		return r.Turns[next-1].Turn, nil
	}
}

// some names a few of the recorded tasks.
func some(all map[string][]*recording) string {
	keys := make([]string, 0, len(all))
	for k := range all {
		if k[0] == '\n' {
			k = "tasks without a key"
		}
		keys = append(keys, k)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	const most = 3
	if len(keys) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:most], ", "), len(keys)-most)
	}
	return strings.Join(keys, ", ")
}
