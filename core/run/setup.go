// Package run wires a run together: it opens what a configuration names, trains,
// measures, makes the cold start, and keeps the run directory so that a run killed
// at any moment goes on from its newest complete step.
package run

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/decontaminate"
	"github.com/valence-rl/valence/core/data/pocket"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
)

// Options are what the command line adds to a configuration.
type Options struct {
	Log      *slog.Logger
	CacheDir string // of compiled plugins; "": the registry's default
	Locked   bool   // refuse plugins that the lock file does not pin
	Observe  func(Event)
	// Unbuilt leaves the training tasks unbuilt: the cold start builds them as it
	// goes, since it may need a few of many thousands.
	Unbuilt bool
}

// Setup is an opened configuration: sandboxes, plugins and tasks. Close it.
type Setup struct {
	Config *config.Config
	Driver sandbox.Driver
	Player *Player
	Skills []*Skill // those of [skills], then those of [suites]
	Memo   *scoring.Memo

	log     *slog.Logger
	observe func(Event)
	finding registry.Options
	plugins *pool
	runner  scoring.Runner
	model   scoring.Model      // nil: none is configured
	server  *chatserver.Client // of the policy openai, once it is open
	items   []*pocket.Item     // of every source, for the expert
	cleaned decontaminate.Report
	cleanup []func() error
}

// Open opens what cfg names: the sandbox driver, every plugin, and every source's
// tasks. It compiles plugins whose build is not in the cache, which takes seconds.
// On an error everything opened so far is closed.
func Open(ctx context.Context, cfg *config.Config, o Options) (s *Setup, err error) {
	s = bare(cfg, o)
	s.plugins = newPool()
	s.cleanup = append(s.cleanup, s.plugins.close)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if len(cfg.Skills)+len(cfg.Suites) == 0 {
		return s, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C010", Summary: "no skill and no suite is configured",
			Hint: `add [skills.<name>] with plugin = "…"; without any, only sft learns, from [sft] trajectories`}
	}
	if s.finding, err = Registry(cfg, o); err != nil {
		return s, err
	}
	switch {
	case cfg.Sandbox.Driver == "kube":
		s.observe(Event{Kind: Opening, Text: "sandboxes in the cluster"})
	case cfg.Sandbox.Image != "":
		s.observe(Event{Kind: Opening, Text: "image " + cfg.Sandbox.Image})
	}
	driver, err := Sandboxes(ctx, cfg, o.Log, s.pulling)
	if err != nil {
		return s, err
	}
	s.Driver = driver
	if i := driver.Isolation(); i.Level == sandbox.LevelNone {
		s.observe(Event{Kind: Warned, Text: "sandboxes are not isolated, as [sandbox] bare allows: " + strings.Join(i.Missing, "; ")})
	}
	s.cleanup = append(s.cleanup, driver.Close)
	limits := Limits(cfg)
	s.Player = &Player{Driver: driver, Limits: limits, Rollout: rollout.Options{
		MaxSteps: cfg.Rollout.MaxSteps, Timeout: cfg.Rollout.Timeout,
		ObservationLimit: int(cfg.Rollout.ObservationLimit), LineNumbers: cfg.Rollout.LineNumbers,
		Temperature: cfg.Policy.Temperature, MaxTurnTokens: cfg.Policy.MaxTurnTokens,
	}}
	s.runner = scoring.Sandboxes{Driver: driver, Limits: limits, Retries: s.retries()}
	if cfg.Sandbox.Memo {
		s.Memo = scoring.NewMemo(s.runner, 0)
		s.runner = s.Memo
	}
	if s.model, err = openAnswers(cfg, o.Log); err != nil {
		return s, err
	}
	s.observe(Event{Kind: Opening, Text: "plugins"})
	if err := s.loadSkills(ctx); err != nil {
		return s, err
	}
	s.observe(Event{Kind: Opening, Text: "tasks"})
	if err := s.buildTasks(ctx, o.Unbuilt); err != nil {
		return s, err
	}
	return s, nil
}

// bare is a set-up without sandboxes, plugins and tasks.
func bare(cfg *config.Config, o Options) *Setup {
	s := &Setup{Config: cfg, log: o.Log, observe: o.Observe}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.observe == nil {
		s.observe = func(Event) {}
	}
	return s
}

// Close ends every sandbox and every plugin.
func (s *Setup) Close() error {
	var errs []error
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, s.cleanup[i]())
	}
	s.cleanup = nil
	return errors.Join(errs...)
}

// Concurrency is how many episodes are under way at once. Unless the configuration
// says, it is what the policy's server may be asked at once, since an episode's time
// runs while it waits there, or four for each core.
func (s *Setup) Concurrency() int {
	if n := s.Config.Rollout.Concurrency; n > 0 {
		return n
	}
	if v := s.Config.Server; s.server != nil {
		return v.Concurrency * len(v.BaseURLs)
	}
	return 4 * runtime.GOMAXPROCS(0)
}

// loadSkills loads every plugin and judge. No skill has tasks yet.
func (s *Setup) loadSkills(ctx context.Context) error {
	for _, p := range parts(s.Config) {
		b, err := s.bind(ctx, p, s.Config)
		if err != nil {
			return err
		}
		s.Skills = append(s.Skills, newSkill(b, p.weight))
	}
	return nil
}

// Lock is the content of plugins.lock: a line a skill and role with the digest.
func (s *Setup) Lock() []byte {
	var b []byte
	for _, k := range s.Skills {
		b = append(b, k.Binding().lines()...)
	}
	return b
}

// Model is an opened policy with weights.
type Model struct {
	Engine    *gorgonia.Engine
	Tokenizer *bpe.Tokenizer
	Chat      policy.Chat
	Policy    policy.Policy
	Dir       string
}

// OpenModel opens the policy folder that the configuration names, or dir if it is
// not empty.
func (s *Setup) OpenModel(dir string) (*Model, error) {
	if dir == "" {
		dir = s.Config.Policy.Path
	}
	if dir == "" {
		return nil, diag.Errorf(diag.KindConfig, "open policy", "", "no folder is named; want [policy] path, or --path")
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		return nil, diag.Errorf(diag.KindPolicy, "open policy", dir, "no policy there (%w); `valence sft` makes one", err)
	}
	tok, err := bpe.Load(dir)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", dir, err)
	}
	return s.openModel(dir, tok)
}

func (s *Setup) openModel(dir string, tok *bpe.Tokenizer) (*Model, error) {
	c, err := chat.New(tok)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", dir, err)
	}
	e, err := gorgonia.Open(dir, gorgonia.Options{Threads: s.Config.Policy.Threads, MaxBatch: s.Concurrency()})
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", dir, err)
	}
	s.cleanup = append(s.cleanup, e.Close)
	return &Model{Engine: e, Tokenizer: tok, Chat: c, Dir: dir, Policy: policy.NewSampled("gorgonia", e, c, policy.SampledOptions{MaxContext: s.Config.Policy.MaxContext, Tokenizer: tok.Digest()})}, nil
}

// Expert plays the scripted expert of the sources that have one.
func (s *Setup) Expert() (policy.Policy, error) {
	if len(s.items) == 0 {
		return nil, diag.Errorf(diag.KindConfig, "open expert", "", "no source of this configuration has a scripted expert; use a pocket source")
	}
	return pocket.NewExpert(s.items, s.Config.Run.Seed), nil
}

// each calls f for 0 … n-1 on at most width goroutines and returns the first error.
func each(ctx context.Context, n, width int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(width, n) {
		wg.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// since is the time from t in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
