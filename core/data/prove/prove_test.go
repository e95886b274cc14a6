package prove

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// evaluator scores as its tasks' prompts say.
type evaluator struct{ calls atomic.Int64 }

func (*evaluator) Digest() string { return "sha256:e" }

func (e *evaluator) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	e.calls.Add(1)
	answered := r.Output.Message != ""
	score := 0.0
	if answered {
		score = 1
	}
	switch r.Task.Prompt {
	case "strict":
		score = 0
	case "lax":
		score = 1
	case "moody":
		score = float64(r.Seed % 2)
	case "broken":
		return nil, errors.New("no sandbox")
	}
	return &sdk.Verdict{Score: score, Reason: r.Task.Prompt}, nil
}

func TestTasks(t *testing.T) {
	e := &evaluator{}
	s := Skill{Name: "s", Scorer: &scoring.Scorer{Skill: "s", Evaluator: e}}
	for _, prompt := range []string{"fair", "strict", "lax", "moody", "broken", "bare"} {
		task := sdk.Task{Key: "s/" + prompt, Prompt: prompt, Reference: &sdk.Reference{Message: "yes"}}
		if prompt == "bare" {
			task.Reference = nil
		}
		s.Tasks = append(s.Tasks, task)
	}
	heard, found := 0, 0
	got, err := Tasks(t.Context(), []Skill{s, {Name: "none"}}, Options{Repeats: 2, Jobs: 3, Heard: func(done, all int) {
		if heard++; done != heard || all != 6 {
			t.Errorf("%d of %d", done, all)
		}
	}, Found: func(Fault) { found++ }})
	if err != nil {
		t.Fatal(err)
	}
	want := []*Proof{{Skill: "s", Tasks: 6, Tried: 6, Without: 1, Oracle: 2, Noop: 3, Faults: []Fault{
		{"s/broken", "nothing", "no verdict: evaluate: s/broken: no sandbox"}, {"s/broken", "reference", "no verdict: evaluate: s/broken: no sandbox"},
		{"s/lax", "nothing", "lax"}, {"s/moody", "nothing", "moody"}, {"s/moody", "reference", "moody"}, {"s/strict", "reference", "strict"},
	}}, {Skill: "none"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if heard != 6 || found != 6 || got[0].Holds() || !got[1].Holds() {
		t.Errorf("heard %d times, found %d", heard, found)
	}
	// What was found out before an interruption is not lost.
	ctx, cancel := context.WithCancel(t.Context())
	s.Tasks = s.Tasks[:3]
	got, err = Tasks(ctx, []Skill{s}, Options{Repeats: 1, Heard: func(done, _ int) {
		if done == 2 {
			cancel()
		}
	}})
	if diag.KindOf(err) != diag.KindInterrupted || got[0].Tried != 2 || got[0].Oracle != 1 || len(got[0].Faults) != 1 {
		t.Errorf("%v, %+v", err, got[0])
	}
}
