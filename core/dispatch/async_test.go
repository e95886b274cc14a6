package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/diag"
)

// These tests run in synctest bubbles: sleeping is virtual and stands for work.

// sleep works for so long, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// While the trainer works, rollouts run; no more of them than allowed.
func TestRunsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p policy
		b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 50)})
		running, peak := 0, 0
		gate := make(chan struct{}, 1)
		d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 3, MaxStaleness: 1, Concurrency: 5}, Parts[int]{
			Source: b, Version: p.version,
			Run: func(ctx context.Context, a Assignment) (int, error) {
				gate <- struct{}{}
				running++
				peak = max(peak, running)
				<-gate
				defer func() { gate <- struct{}{}; running--; <-gate }()
				return 0, sleep(ctx, time.Minute)
			},
			Train: func(ctx context.Context, step int, groups []Group[int]) (int, []buffer.Fate, error) {
				if err := sleep(ctx, time.Hour); err != nil {
					return 0, nil, err
				}
				if l := b.Ledger(); l.Open != 4 && step < 10 {
					t.Errorf("step %d: %d groups in all, want 4", step, l.Open)
				}
				for _, g := range groups {
					if lag := p.version() - g.Version; lag > 1 {
						t.Errorf("trained on a group that lags by %d", lag)
					}
				}
				return trainAll[int](&p)(ctx, step, groups)
			},
			OnStep: func(r StepReport[int]) error {
				if r.Trained != time.Hour || r.Step > 1 && r.Waited != 0 {
					t.Errorf("step %d trained for %v, waited for %v", r.Step, r.Trained, r.Waited)
				}
				if want := map[bool]int{true: 2, false: 0}[r.Step < 10]; r.Ahead != want {
					t.Errorf("step %d: %d groups ahead, want %d", r.Step, r.Ahead, want)
				}
				return nil
			},
		})
		if err := d.Run(context.Background(), 1, 10); err != nil {
			t.Fatal(err)
		}
		if peak != 5 {
			t.Errorf("%d episodes at once, want 5", peak)
		}
		if l := b.Ledger(); l.Open != 0 || l.Fates[buffer.Trained] != 20 || l.Dispatched != 20 {
			t.Errorf("%+v", l)
		}
	})
}

// A skill a hundred times slower than the others goes stale at first, and still
// gets its share of what is trained on, while the others go on meanwhile.
func TestSlowSkillKeepsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p policy
		b := newBuffer(t, buffer.Skill{Name: "fast", Weight: 3, Tasks: tasks("fast", 50)}, buffer.Skill{Name: "slow", Weight: 1, Tasks: tasks("slow", 50)})
		trained := map[string]int{}
		stale := 0
		start := time.Now()
		firstStep := time.Duration(0)
		d := newDispatcher(t, Config{GroupsPerStep: 4, GroupSize: 2, MaxStaleness: 1}, Parts[int]{
			Source: b, Version: p.version, Train: trainAll[int](&p),
			Run: func(ctx context.Context, a Assignment) (int, error) {
				return 0, sleep(ctx, map[string]time.Duration{"fast": time.Minute, "slow": 100 * time.Minute}[a.Draw.Skill])
			},
			OnStep: func(r StepReport[int]) error {
				if r.Step == 1 {
					firstStep = time.Since(start)
				}
				for _, g := range r.Groups {
					if g.Fate == buffer.Trained {
						trained[g.Draw.Skill]++
					} else {
						stale++
					}
				}
				return nil
			},
		})
		if err := d.Run(context.Background(), 1, 100); err != nil {
			t.Fatal(err)
		}
		if share := float64(trained["slow"]) / 400; math.Abs(share-.25) > .01 {
			t.Errorf("share of the slow skill %v, want .25", share)
		}
		if firstStep > 10*time.Minute {
			t.Errorf("the first step took %v: it waited for the slow skill", firstStep)
		}
		if stale == 0 {
			t.Error("nothing went stale: the test shows nothing")
		}
	})
}

// A stale group's episodes are stopped at once, and its task is drawn again.
func TestStaleIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p policy
		b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 50)})
		var ended []Group[int]
		d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 2, MaxStaleness: 1, Concurrency: 100}, Parts[int]{
			Source: b, Version: p.version, Train: trainAll[int](&p),
			Run: func(ctx context.Context, a Assignment) (int, error) {
				if a.Draw.Dispatch == 1 {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return 0, sleep(ctx, time.Minute)
			},
			OnStep: func(r StepReport[int]) error { ended = append(ended, r.Groups...); return nil },
		})
		if err := d.Run(context.Background(), 1, 5); err != nil {
			t.Fatal(err)
		}
		fates := map[buffer.Fate]int{}
		stuck, again := "", false
		for _, g := range ended {
			fates[g.Fate]++
			if g.Draw.Dispatch == 1 {
				stuck = g.Draw.Key
			}
			if g.Draw.Dispatch == 1 && (g.Fate != buffer.Stale || len(g.Failures) != 0) {
				t.Errorf("%+v", g)
			}
			again = again || g.Draw.Key == stuck && g.Draw.Dispatch > 1 && g.Fate == buffer.Trained
		}
		if fates[buffer.Stale] != 1 || fates[buffer.Trained] != 10 || !again {
			t.Errorf("fates %v, drawn again: %v", fates, again)
		}
	})
}

func TestDrain(t *testing.T) {
	for _, staleness := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var p policy
			b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 50)})
			begun, finished, reports := 0, 0, 0
			gate := make(chan struct{}, 1)
			var d *Dispatcher[int]
			d = newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 3, MaxStaleness: staleness, Concurrency: 4}, Parts[int]{
				Source: b, Version: p.version,
				Run: func(ctx context.Context, a Assignment) (int, error) {
					gate <- struct{}{}
					begun++
					<-gate
					err := sleep(ctx, time.Duration(1+a.Index)*time.Minute)
					gate <- struct{}{}
					if err == nil {
						finished++
					}
					<-gate
					return 0, err
				},
				Train: func(ctx context.Context, step int, groups []Group[int]) (int, []buffer.Fate, error) {
					if step == 3 {
						d.Drain()
						d.Drain()
					}
					if step > 3 {
						t.Error("trained after the drain")
					}
					if err := sleep(ctx, time.Hour); err != nil {
						return 0, nil, err
					}
					return trainAll[int](&p)(ctx, step, groups)
				},
				OnStep: func(StepReport[int]) error { reports++; return nil },
			})
			err := d.Run(context.Background(), 1, 10)
			if diag.KindOf(err) != diag.KindInterrupted {
				t.Fatal(err)
			}
			if begun != finished || reports != 3 {
				t.Errorf("staleness %d: %d begun, %d finished, %d steps reported", staleness, begun, finished, reports)
			}
			if err := d.Run(context.Background(), 4, 10); diag.KindOf(err) != diag.KindInterrupted || begun != finished {
				t.Errorf("a drained dispatcher ran again: %v", err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for _, staleness := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var p policy
			b := newBuffer(t, buffer.Skill{Name: "a", Weight: 1, Tasks: tasks("a", 50)})
			ctx, cancel := context.WithCancel(context.Background())
			d := newDispatcher(t, Config{GroupsPerStep: 2, GroupSize: 2, MaxStaleness: staleness, Retries: 1}, Parts[int]{
				Source: b, Version: p.version,
				Train: func(ctx context.Context, step int, groups []Group[int]) (int, []buffer.Fate, error) {
					time.Sleep(time.Hour) // an update that cannot be stopped
					return trainAll[int](&p)(ctx, step, groups)
				},
				OnStep: func(r StepReport[int]) error {
					if len(r.Errors) > 0 {
						t.Errorf("step %d reports %v", r.Step, r.Errors)
					}
					return nil
				},
				Run: func(ctx context.Context, a Assignment) (int, error) {
					if a.Step == 3 && a.Index == 1 {
						cancel()
					}
					return 0, sleep(ctx, time.Minute)
				},
			})
			err := d.Run(ctx, 1, 10)
			if diag.KindOf(err) != diag.KindInterrupted || !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			// Cancelled episodes are no failures: their groups stay open.
			l := b.Ledger()
			if l.Open == 0 || l.Fates[buffer.Trained]+l.Open != l.Dispatched {
				t.Errorf("staleness %d: %+v", staleness, l)
			}
		})
	}
}

// What the journal of a run would hold.
type journal struct {
	state []byte
	step  int
	fates map[int64]buffer.Fate
}

// A run with failures, staleness, drains, cancellations and kills, resumed until
// it is through: every dispatch ends exactly once, in the ledger and in the
// reports alike, no group too old is trained on, and the bound holds.
func TestEveryDispatchEndsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		c := Config{
			GroupsPerStep: rapid.IntRange(1, 4).Draw(rt, "groups"),
			GroupSize:     rapid.IntRange(1, 4).Draw(rt, "size"),
			Concurrency:   rapid.IntRange(0, 9).Draw(rt, "concurrency"),
			MaxStaleness:  rapid.IntRange(0, 3).Draw(rt, "staleness"),
			Retries:       rapid.IntRange(0, 2).Draw(rt, "retries"),
			Resample:      rapid.IntRange(0, 3).Draw(rt, "resample"),
			GiveUp:        1000,
		}
		broken := rapid.Float64Range(0, .5).Draw(rt, "broken")
		skills := rapid.IntRange(1, 3).Draw(rt, "skills")
		stops := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4).Draw(rt, "stops")
		failure := ""
		synctest.Test(t, func(*testing.T) { failure = life(seed, c, broken, skills, stops) })
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// life runs such a run and says what is wrong with it.
func life(seed uint64, c Config, broken float64, skills int, stops []int) (failure string) {
	const last = 8
	wrong := func(format string, args ...any) {
		if failure == "" {
			failure = fmt.Sprintf(format, args...)
		}
	}
	bc := buffer.Config{Seed: seed}
	for i := range skills {
		name := fmt.Sprint("s", i)
		bc.Skills = append(bc.Skills, buffer.Skill{Name: name, Weight: float64(i + 1), Tasks: tasks(name, 3)})
	}
	b, err := buffer.New(bc)
	if err != nil {
		return err.Error()
	}
	first, err := b.State()
	if err != nil {
		return err.Error()
	}
	saved := journal{state: first, fates: map[int64]buffer.Fate{}}
	for life := 0; saved.step < last; life++ {
		if b, err = buffer.Restore(bc, saved.state); err != nil {
			return err.Error()
		}
		var p policy
		p.n.Store(int64(saved.step))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var d *Dispatcher[int]
		d, err = New(c, Parts[int]{
			Source: &bounded{Buffer: b, limit: (c.MaxStaleness + 1) * c.GroupsPerStep, wrong: wrong}, Version: p.version,
			Run: func(ctx context.Context, a Assignment) (int, error) {
				// The generator is the episode's own: the same in every life.
				r := rand.New(rand.NewPCG(seed^uint64(life), uint64(a.Draw.Dispatch*1000+int64(a.Index*10+a.Attempt))))
				if err := sleep(ctx, time.Duration(r.IntN(100)*r.IntN(10))*time.Second); err != nil {
					return 0, err
				}
				if r.Float64() < broken {
					return 0, diag.Errorf(diag.KindSandbox, "run", "", "died")
				}
				return r.IntN(3), nil
			},
			Screen: func(g Group[int]) buffer.Fate {
				return []buffer.Fate{buffer.Trained, buffer.NoSignal, buffer.Filtered}[g.Episodes[0].Value]
			},
			Train: func(ctx context.Context, step int, groups []Group[int]) (int, []buffer.Fate, error) {
				if len(groups) != c.GroupsPerStep {
					wrong("step %d got %d groups", step, len(groups))
				}
				fates := make([]buffer.Fate, len(groups))
				for i, g := range groups {
					if lag := p.version() - g.Version; lag > c.MaxStaleness || g.Version < 0 {
						wrong("trained on dispatch %d of version %d at %d", g.Draw.Dispatch, g.Version, p.version())
					}
					if len(g.Episodes) < min(2, c.GroupSize) {
						wrong("trained on %d episodes", len(g.Episodes))
					}
					if i > 0 && g.Draw.Dispatch <= groups[i-1].Draw.Dispatch {
						wrong("groups out of order")
					}
					fates[i] = []buffer.Fate{buffer.Trained, buffer.NoSignal}[i%2]
				}
				if err := sleep(ctx, 3*time.Minute); err != nil {
					return 0, nil, err
				}
				return int(p.n.Add(1)), fates, nil
			},
			OnStep: func(r StepReport[int]) error {
				next := journal{step: r.Step, fates: maps.Clone(saved.fates)}
				for _, g := range r.Groups {
					if was, ok := next.fates[g.Draw.Dispatch]; ok {
						wrong("dispatch %d ended as %s and as %s", g.Draw.Dispatch, was, g.Fate)
					}
					next.fates[g.Draw.Dispatch] = g.Fate
				}
				if r.Step != saved.step+1 {
					wrong("step %d after %d", r.Step, saved.step)
				}
				l := b.Ledger()
				if int64(len(next.fates))+l.Open != l.Dispatched {
					wrong("step %d: %d ended in reports, ledger %+v", r.Step, len(next.fates), l)
				}
				counts := map[buffer.Fate]int64{}
				for _, f := range next.fates {
					counts[f]++
				}
				if !maps.Equal(counts, l.Fates) {
					wrong("reports say %v, ledger %v", counts, l.Fates)
				}
				var err error
				next.state, err = b.State()
				saved = next
				return err
			},
		})
		if err != nil {
			return err.Error()
		}
		stop := -1
		if life < len(stops) {
			stop = stops[life]
		}
		timer := time.AfterFunc(time.Duration(1+seed%40)*time.Minute, func() {
			switch stop {
			case 0, 3: // a kill forgets all that was not saved, as a cancellation does here
				cancel()
			case 1:
				d.Drain()
			case 2:
				d.Drain()
				cancel()
			}
		})
		err = d.Run(ctx, saved.step+1, last)
		timer.Stop()
		if err != nil && diag.KindOf(err) != diag.KindInterrupted {
			return err.Error()
		}
		if err == nil && saved.step != last || err != nil && stop < 0 {
			wrong("life %d ended at step %d: %v", life, saved.step, err)
		}
		if failure != "" {
			return failure
		}
	}
	if l := b.Ledger(); l.Open != 0 || l.Dispatched != int64(len(saved.fates)) {
		wrong("at the end: %+v, %d in reports", l, len(saved.fates))
	}
	return failure
}

// bounded watches that no more groups are open than allowed.
type bounded struct {
	*buffer.Buffer
	open, limit int
	wrong       func(string, ...any)
}

func (b *bounded) Next() buffer.Draw {
	if b.open++; b.open > b.limit {
		b.wrong("%d groups open, %d allowed", b.open, b.limit)
	}
	return b.Buffer.Next()
}

func (b *bounded) Done(d buffer.Draw, f buffer.Fate) error {
	b.open--
	return b.Buffer.Done(d, f)
}

func (b *bounded) Return(d buffer.Draw) error {
	b.open--
	return b.Buffer.Return(d)
}
