package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/dispatch"
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/run"
)

// summary is how a step went.
type summary struct {
	Tasks, Rollouts int
	Level           string
	Scored          int
	Wrong           []string          // episodes with another score than their answer deserves
	Failures        map[diag.Kind]int // attempts that the infrastructure lost
	Fates           map[buffer.Fate]int
	Sandboxes       int // that were made
	AtOnce          int // at most
	Gathered        time.Duration
	Took            time.Duration
	OwnKiB          int // this process at most
	MachineKiB      int // what the machine had less at most
}

func (s *summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tasks x %d rollouts = %d episodes (%s)\n", s.Tasks, s.Rollouts, s.Tasks*s.Rollouts, s.Level)
	fmt.Fprintf(&b, "scored      %d, %d of them wrong\n", s.Scored, len(s.Wrong))
	fmt.Fprintf(&b, "failures    %v\n", s.Failures)
	fmt.Fprintf(&b, "groups      %v\n", s.Fates)
	fmt.Fprintf(&b, "sandboxes   %d made, %d at once\n", s.Sandboxes, s.AtOnce)
	fmt.Fprintf(&b, "time        %.1f s, all under way after %.1f s\n", s.Took.Seconds(), s.Gathered.Seconds())
	fmt.Fprintf(&b, "memory      %.0f MiB this process, %.0f MiB of the machine\n", float64(s.OwnKiB)/1024, float64(s.MachineKiB)/1024)
	return b.String()
}

// check says what is wrong with the step.
func (s *summary) check() error {
	var errs []error
	if want := s.Tasks * s.Rollouts; s.Scored != want {
		errs = append(errs, fmt.Errorf("%d episodes of %d were scored", s.Scored, want))
	}
	for _, w := range s.Wrong {
		errs = append(errs, errors.New(w))
	}
	if want := s.Tasks * s.Rollouts; s.AtOnce < want {
		errs = append(errs, fmt.Errorf("%d sandboxes at once, want %d", s.AtOnce, want))
	}
	return errors.Join(errs...)
}

// deserves is the score of an episode's answer: the last quarter of each group
// leaves nothing.
func deserves(index, rollouts int) float64 {
	if index >= rollouts-max(1, rollouts/4) {
		return 0
	}
	return 1
}

// play plays the episodes of tasks × rollouts and compares them.
func play(ctx context.Context, tasks, rollouts int, log slog.Handler) (*summary, error) {
	if tasks < 1 || rollouts < 2 {
		return nil, fmt.Errorf("%d tasks of %d rollouts, want at least 1 of 2", tasks, rollouts)
	}
	cfg, err := config.Parse("world.toml", world, nil)
	if err != nil {
		return nil, err
	}
	count := &counter{Handler: log}
	setup, err := run.Open(ctx, cfg, run.Options{Log: slog.New(count)})
	if err != nil {
		return nil, err
	}
	s, err := step(ctx, setup, count, tasks, rollouts)
	return s, errors.Join(err, setup.Close())
}

func step(ctx context.Context, setup *run.Setup, count *counter, tasks, rollouts int) (*summary, error) {
	s := &summary{Tasks: tasks, Rollouts: rollouts, Level: setup.Driver.Isolation().Level, Failures: map[diag.Kind]int{}, Fates: map[buffer.Fate]int{}}
	skills := map[string]*run.Skill{}
	bc := buffer.Config{Seed: 1}
	for _, k := range setup.Skills {
		skills[k.Name] = k
		b := buffer.Skill{Name: k.Name, Weight: k.Weight}
		for _, t := range k.Binding().Train {
			if t.Reference == nil {
				return nil, fmt.Errorf("%s: task %s has no reference answer", k.Name, t.Key)
			}
			b.Tasks = append(b.Tasks, t.Key)
		}
		bc.Skills = append(bc.Skills, b)
	}
	source, err := buffer.New(bc)
	if err != nil {
		return nil, err
	}
	learning, err := grpo.Preset("grpo++")
	if err != nil {
		return nil, err
	}
	crowd := newBarrier(tasks * rollouts)
	answers, nothing := fake{policy.Oracle(), crowd}, fake{policy.Noop(), crowd}
	const retries = dispatch.DefaultRetries
	var mu sync.Mutex
	began := time.Now()
	d, err := dispatch.New(dispatch.Config{GroupsPerStep: tasks, GroupSize: rollouts, Retries: retries}, dispatch.Parts[*run.Played]{
		Source: source, Version: func() int { return 0 },
		Run: func(ctx context.Context, a dispatch.Assignment) (*run.Played, error) {
			b := skills[a.Draw.Skill].Binding()
			var p policy.Policy = answers
			if deserves(a.Index, rollouts) == 0 {
				p = nothing
			}
			e, err := setup.Player.Play(ctx, p, b, b.Train[a.Draw.Task], fmt.Sprintf("%06d-%d", a.Draw.Dispatch, a.Index), uint64(a.Draw.Dispatch))
			if err != nil {
				mu.Lock()
				s.Failures[diag.KindOf(err)]++
				mu.Unlock()
				if a.Attempt == retries {
					crowd.miss() // too often is no harm
				}
			}
			return e, err
		},
		Train: func(_ context.Context, _ int, groups []dispatch.Group[*run.Played]) (int, []buffer.Fate, error) {
			var fates []buffer.Fate
			for _, g := range groups {
				fates = append(fates, s.judge(g, learning))
			}
			return 1, fates, nil
		},
	})
	if err != nil {
		return nil, err
	}
	watch, err := newGauge()
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-crowd.open:
			mu.Lock()
			s.Gathered = time.Since(began)
			mu.Unlock()
		case <-watch.done:
		}
	}()
	err = d.Run(ctx, 1, 1)
	s.Took = time.Since(began)
	s.MachineKiB = watch.stop()
	mu.Lock()
	defer mu.Unlock()
	s.Sandboxes, s.AtOnce = count.figures()
	if err != nil {
		return nil, err
	}
	s.OwnKiB, err = status("VmHWM:")
	return s, err
}

// judge compares a group's scores with what its answers deserve, and with each other.
func (s *summary) judge(g dispatch.Group[*run.Played], c grpo.Config) buffer.Fate {
	var rewards []float64
	for _, e := range g.Episodes {
		s.Scored++
		if want := deserves(e.Index, s.Rollouts); e.Value.Score != want {
			s.Wrong = append(s.Wrong, fmt.Sprintf("%s, episode %d: score %g, want %g: %s (ended by %s)", g.Draw.Key, e.Index, e.Value.Score, want, e.Value.Reason, e.Value.End))
		}
		rewards = append(rewards, c.Reward(e.Value.Score))
	}
	_, fate := grpo.Advantages(c, rewards, make([]grpo.State, len(rewards)))
	s.Fates[buffer.Fate(fate)]++
	return buffer.Fate(fate)
}

// counter counts sandboxes by the driver's log.
type counter struct {
	slog.Handler
	mu               sync.Mutex
	made, open, most int
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	switch r.Message {
	case "sandbox made":
		c.made++
		c.open++
		c.most = max(c.most, c.open)
	case "sandbox ended":
		c.open--
	}
	c.mu.Unlock()
	if !c.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

func (c *counter) figures() (made, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made, c.most
}

// gauge watches the machine's memory.
type gauge struct {
	before int
	done   chan struct{}
	most   chan int
}

func newGauge() (*gauge, error) {
	before, err := meminfo()
	g := &gauge{before: before, done: make(chan struct{}), most: make(chan int)}
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		most := 0
		for {
			select {
			case <-tick.C:
				if now, err := meminfo(); err == nil {
					most = max(most, g.before-now)
				}
			case <-g.done:
				g.most <- most
				return
			}
		}
	}()
	return g, err
}

func (g *gauge) stop() int {
	close(g.done)
	return <-g.most
}

func meminfo() (int, error)           { return field("/proc/meminfo", "MemAvailable:") }
func status(name string) (int, error) { return field("/proc/self/status", name) }

func field(file, name string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}
