package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// A seed is part of what a run means: these may never change, or runs would not
// repeat under a newer program.
func TestSeedsAreStable(t *testing.T) {
	for _, c := range []struct {
		root  uint64
		names []any
		want  uint64
	}{
		{1, nil, 11979365913534242684},
		{1, []any{"buffer"}, 2615776465329026633},
		{1, []any{"episode", int64(3), 2}, 17092945504944405679},
		{2, []any{"episode", int64(3), 2}, 13530643961431515604},
	} {
		if got := seedOf(c.root, c.names...); got != c.want {
			t.Errorf("seedOf(%d, %v) = %d, want %d", c.root, c.names, got, c.want)
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9]{1,3}`), 0, 4).Draw(t, "a")
		b := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9]{1,3}`), 0, 4).Draw(t, "b")
		root := rapid.Uint64().Draw(t, "root")
		of := func(names []string) uint64 {
			var x []any
			for _, n := range names {
				x = append(x, n)
			}
			return seedOf(root, x...)
		}
		if (of(a) == of(b)) != slices.Equal(a, b) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func TestEachCallsAll(t *testing.T) {
	for _, c := range []struct{ n, width int }{{0, 4}, {1, 4}, {100, 1}, {100, 7}, {3, 100}} {
		var mu sync.Mutex
		seen := make([]int, c.n)
		under, most := 0, 0
		err := each(t.Context(), c.n, c.width, func(_ context.Context, i int) error {
			mu.Lock()
			seen[i]++
			under++
			most = max(most, under)
			mu.Unlock()
			mu.Lock()
			under--
			mu.Unlock()
			return nil
		})
		if err != nil || most > c.width || slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Errorf("%+v: %v, %d at once, calls %v", c, err, most, seen)
		}
	}
}

func TestEachStopsAtTheFirstError(t *testing.T) {
	boom := errors.New("boom")
	var calls atomic.Int64
	err := each(t.Context(), 1000, 2, func(ctx context.Context, i int) error {
		calls.Add(1)
		if i == 3 {
			return boom
		}
		if i > 3 {
			<-ctx.Done() // those under way learn of it
			return errors.New("a later error")
		}
		return nil
	})
	if !errors.Is(err, boom) || calls.Load() > 10 {
		t.Errorf("got %v after %d calls", err, calls.Load())
	}
}

func TestEachHonoursItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := each(ctx, 1000, 3, func(ctx context.Context, i int) error {
		if i == 5 {
			cancel(why)
		}
		return nil
	})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestTemplate(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	line, long := file("line", "do it"), file("long", "do {x}")
	s := setup(nil, 0, nil)
	s.Config.Rollout.Prompt = "brief"
	s.Config.Skills = []config.Skill{{Name: "a"}, {Name: "b", Prompt: "full"}, {Name: "c", Prompt: line}, {Name: "gone", Prompt: filepath.Join(dir, "none")}}
	s.Config.Suites = []config.Suite{{Name: "d", Prompt: long}, {Name: "e"}}
	for skill, want := range map[string]string{
		"a": "brief", "b": "full", "d": "do {x}", "e": "brief",
		"c": "do it\n", // a line break tells a text from the name of a form
	} {
		if got, err := s.template(skill); err != nil || got != want {
			t.Errorf("%s: %q, %v", skill, got, err)
		}
	}
	if _, err := s.template("gone"); diag.KindOf(err) != diag.KindConfig {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestSplits(t *testing.T) {
	a := newSkill(&Binding{Skill: "a", Eval: map[string][]*sdk.Task{"unseen": nil, "eval": nil}}, 1)
	b := newSkill(&Binding{Skill: "b", Eval: map[string][]*sdk.Task{"eval": nil}}, 1)
	s := setup(nil, 0, nil, a, b)
	if got := s.Splits(); !slices.Equal(got, []string{"eval", "unseen"}) {
		t.Errorf("got %v", got)
	}
	s.Config.Eval.Splits = []string{"unseen"}
	if got := s.Splits(); !slices.Equal(got, []string{"unseen"}) {
		t.Errorf("got %v", got)
	}
}

func TestMeasureWithoutTasks(t *testing.T) {
	s := setup(sandboxes(t), 0, nil)
	if _, _, err := s.Measure(t.Context(), scripted(say("")), "eval", 0, 1); diag.KindOf(err) != diag.KindConfig {
		t.Errorf("got %v", err)
	}
}

// A skill and a suite may measure the same tasks: their episodes have names of
// their own, so that a policy can have all of them open at once.
func TestMeasureNamesEpisodes(t *testing.T) {
	k := skillOn(t, sandboxes(t), "review")
	k.Binding().Eval["eval"] = []*sdk.Task{task(t, k, cart, 1)}
	measured := *k.Binding()
	measured.Skill = "suite"
	suite := newSkill(&measured, 0)
	ev, episodes, err := setup(sandboxes(t), 0, nil, k, suite).Measure(t.Context(), scripted(say("<judgment>YES</judgment>")), "eval", 7, 2)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, e := range episodes {
		ids[e.ID] = true
		if e.Step != -1 {
			t.Errorf("%s: step %d", e.ID, e.Step)
		}
	}
	if len(ids) != 4 || ev.Step != 7 || ev.Runs != 2 || len(ev.Skills) != 2 || len(ev.Skills[1].Scores[0]) != 2 {
		t.Errorf("%v, %+v", ids, ev)
	}
}

func TestMeasureStops(t *testing.T) {
	k := skillOn(t, sandboxes(t), "review")
	k.Binding().Eval["eval"] = []*sdk.Task{task(t, k, cart, 1)}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, _, err := setup(sandboxes(t), 5, nil, k).Measure(ctx, scripted(say("")), "eval", 0, 1); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
