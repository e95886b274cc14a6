package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/diag"
)

func tasks(skill string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s/%d", skill, i)
	}
	return out
}

func newBuffer(t testing.TB, skills ...buffer.Skill) *buffer.Buffer {
	b, err := buffer.New(buffer.Config{Seed: 1, Skills: skills})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newDispatcher[E any](t testing.TB, c Config, p Parts[E]) *Dispatcher[E] {
	d, err := New(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// policy is a fake trainer: a version that every step raises.
type policy struct{ n atomic.Int64 }

func (p *policy) version() int { return int(p.n.Load()) }

func trainAll[E any](p *policy) func(context.Context, int, []Group[E]) (int, []buffer.Fate, error) {
	return func(_ context.Context, _ int, groups []Group[E]) (int, []buffer.Fate, error) {
		return int(p.n.Add(1)), slices.Repeat([]buffer.Fate{buffer.Trained}, len(groups)), nil
	}
}

func TestNewRefuses(t *testing.T) {
	ok := Config{GroupsPerStep: 1, GroupSize: 1}
	for key, edit := range map[string]func(*Config){
		"groups_per_step": func(c *Config) { c.GroupsPerStep = 0 },
		"group_size":      func(c *Config) { c.GroupSize = 0 },
		"concurrency":     func(c *Config) { c.Concurrency = -1 },
		"max_staleness":   func(c *Config) { c.MaxStaleness = -1 },
		"retries":         func(c *Config) { c.Retries = -1 },
		"resample":        func(c *Config) { c.Resample = 1 },
		"give_up":         func(c *Config) { c.GiveUp = -1 },
	} {
		c := ok
		edit(&c)
		if _, err := New(c, Parts[int]{}); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Whatever order the episodes finish in, the trainer sees the same.
func TestSynchronousRepeats(t *testing.T) {
	run := func(concurrency int) (out []string) {
		var p policy
		b := newBuffer(t, buffer.Skill{Name: "a", Weight: 2, Tasks: tasks("a", 7)}, buffer.Skill{Name: "b", Weight: 1, Tasks: tasks("b", 3)})
		d := newDispatcher(t, Config{GroupsPerStep: 4, GroupSize: 3, Concurrency: concurrency, Retries: 2}, Parts[string]{
			Source: b, Version: p.version,
			Run: func(_ context.Context, a Assignment) (string, error) {
				if a.Index == 1 && a.Attempt == 0 && a.Draw.Dispatch%2 == 0 {
					return "", diag.Errorf(diag.KindSandbox, "run", "", "died")
				}
				return fmt.Sprint(a.Draw.Key, a.Step, a.Index, a.Attempt), nil
			},
			Train: func(_ context.Context, step int, groups []Group[string]) (int, []buffer.Fate, error) {
				fates := make([]buffer.Fate, len(groups))
				for i, g := range groups {
					out = append(out, fmt.Sprint(step, g.Draw, g.Version, g.Episodes))
					fates[i] = []buffer.Fate{buffer.Trained, buffer.NoSignal}[g.Draw.Dispatch%2]
				}
				return int(p.n.Add(1)), fates, nil
			},
			OnStep: func(r StepReport[string]) error {
				out = append(out, fmt.Sprint(r.Step, r.Version, r.Errors, r.Ahead, len(r.Groups)))
				data, err := b.State()
				out = append(out, string(data))
				return err
			},
		})
		if err := d.Run(context.Background(), 1, 5); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(1)
	if len(want) != 5*6 {
		t.Fatalf("%d lines", len(want))
	}
	for _, c := range []int{2, 5, 0} {
		if d := cmp.Diff(want, run(c)); d != "" {
			t.Errorf("concurrency %d: %s", c, d)
		}
	}
}

func TestRetries(t *testing.T) {
	var p policy
	b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 9)})
	var reports []StepReport[int]
	d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 3, Retries: 1}, Parts[int]{
		Source: b, Version: p.version,
		Run: func(_ context.Context, a Assignment) (int, error) {
			switch {
			case a.Draw.Dispatch == 0 && a.Index > 0: // only one survives
				return -1, diag.Errorf([]diag.Kind{"", diag.KindJudge, diag.KindSandbox}[a.Index], "run", "", "broken")
			case a.Draw.Dispatch == 1 && a.Index == 0 && a.Attempt == 0: // the retry helps
				return -1, errors.New("who knows")
			case a.Draw.Dispatch == 1 && a.Index == 1: // two survive
				return -1, diag.Errorf(diag.KindPlugin, "run", "", "trap")
			}
			return 1, nil
		},
		Train:  trainAll[int](&p),
		OnStep: func(r StepReport[int]) error { reports = append(reports, r); return nil },
	})
	if err := d.Run(context.Background(), 1, 1); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range reports[0].Groups {
		got = append(got, fmt.Sprint(g.Draw.Dispatch, " ", g.Fate, " ", len(g.Episodes), " ", len(g.Failures)))
	}
	// Group 2 was drawn in the place of group 0.
	if d := cmp.Diff([]string{"0 failed:judge 1 4", "1 trained 2 3", "2 trained 3 0"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[diag.Kind]int{diag.KindJudge: 2, diag.KindSandbox: 2, diag.KindPlugin: 2, diag.KindUnknown: 1}, reports[0].Errors); d != "" {
		t.Error(d)
	}
	first := reports[0].Groups[0].Failures[0]
	if first.Index != 1 || first.Attempt != 0 || first.Last || first.Value != -1 || !reports[0].Groups[0].Failures[1].Last {
		t.Errorf("%+v", reports[0].Groups[0].Failures)
	}
}

func TestGivesUp(t *testing.T) {
	var p policy
	b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 9)})
	for _, staleness := range []int{0, 1} {
		d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 2, MaxStaleness: staleness, GiveUp: 3}, Parts[int]{
			Source: b, Version: p.version, Train: trainAll[int](&p),
			Run: func(context.Context, Assignment) (int, error) {
				return 0, diag.Errorf(diag.KindPolicy, "sample", "", "connection refused")
			},
		})
		err := d.Run(context.Background(), 1, 100)
		if diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), "3 groups in a row failed") {
			t.Errorf("staleness %d: %v", staleness, err)
		}
	}
}

func TestResample(t *testing.T) {
	for _, c := range []struct {
		resample int
		trained  []int64 // dispatch numbers by then
		fates    map[buffer.Fate]int64
	}{
		{0, []int64{0, 1, 2, 3}, map[buffer.Fate]int64{buffer.Trained: 4}},
		{9, []int64{1, 3, 5, 7}, map[buffer.Fate]int64{buffer.Trained: 4, buffer.NoSignal: 4}},
		{1, []int64{1, 2, 3, 5}, map[buffer.Fate]int64{buffer.Trained: 4, buffer.NoSignal: 2}},
	} {
		var p policy
		var trained []int64
		b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 9)})
		d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 2, Resample: c.resample}, Parts[int]{
			Source: b, Version: p.version,
			Run: func(_ context.Context, a Assignment) (int, error) { return int(a.Draw.Dispatch), nil },
			Screen: func(g Group[int]) buffer.Fate {
				return []buffer.Fate{buffer.NoSignal, buffer.Trained}[g.Draw.Dispatch%2]
			},
			Train: func(ctx context.Context, step int, groups []Group[int]) (int, []buffer.Fate, error) {
				for _, g := range groups {
					trained = append(trained, g.Draw.Dispatch)
				}
				return trainAll[int](&p)(ctx, step, groups)
			},
		})
		if err := d.Run(context.Background(), 1, 2); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.trained, trained); d != "" {
			t.Errorf("resample %d: %s", c.resample, d)
		}
		if d := cmp.Diff(c.fates, b.Ledger().Fates); d != "" {
			t.Errorf("resample %d: %s", c.resample, d)
		}
	}
}

// Errors of the parts end the run as they are.
func TestPartsFail(t *testing.T) {
	broken := errors.New("disk full")
	for _, c := range []struct {
		name string
		edit func(*Parts[int])
		want string
	}{
		{"train", func(p *Parts[int]) {
			p.Train = func(context.Context, int, []Group[int]) (int, []buffer.Fate, error) { return 0, nil, broken }
		}, "disk full"},
		{"report", func(p *Parts[int]) { p.OnStep = func(StepReport[int]) error { return broken } }, "disk full"},
		{"fates", func(p *Parts[int]) {
			p.Train = func(context.Context, int, []Group[int]) (int, []buffer.Fate, error) { return 0, nil, nil }
		}, "0 fates for 1 groups"},
		{"no fate", func(p *Parts[int]) {
			p.Train = func(context.Context, int, []Group[int]) (int, []buffer.Fate, error) {
				return 0, []buffer.Fate{"lost"}, nil
			}
		}, `"lost" is no fate`},
	} {
		var p policy
		parts := Parts[int]{
			Source: newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 9)}), Version: p.version, Train: trainAll[int](&p),
			Run: func(context.Context, Assignment) (int, error) { return 0, nil },
		}
		c.edit(&parts)
		err := newDispatcher(t, Config{GroupsPerStep: 1, GroupSize: 2, MaxStaleness: 1}, parts).Run(context.Background(), 1, 3)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
