package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// workshop is where the verbs that make records run tests: this machine's sandboxes,
// and a journal of what came out.
type workshop struct {
	kept   string
	jobs   int
	memory int64
	limit  time.Duration

	journal *trial.Journal
	driver  *local.Driver
	tools   *run.Tools
}

func (s *workshop) flags(f *pflag.FlagSet) {
	f.StringVar(&s.kept, "journal", "", "where the outcomes of test runs are kept, a `file` (default: beside --out)")
	f.IntVarP(&s.jobs, "jobs", "j", runtime.NumCPU(), "sandboxes at the same time")
	f.Int64Var(&s.memory, "memory", s.memory, "memory of one sandbox, in `bytes`")
	f.DurationVar(&s.limit, "limit", s.limit, "limit of one run of tests")
}

// open makes the workshop of records that go to out. Close it, also after an error.
func (s *workshop) open(a *app, out string) (err error) {
	if s.kept == "" {
		s.kept = out + ".journal"
	}
	if s.journal, err = trial.OpenJournal(s.kept); err != nil {
		return err
	}
	s.driver, err = local.New(local.Options{Dir: run.SandboxDir(), Log: a.logger(), Images: run.Images(config.Sandbox{}, a.logger(), nil)})
	if err != nil {
		return err
	}
	s.tools = run.NewTools(s.driver, a.logger())
	return nil
}

func (s *workshop) close() {
	if s.driver != nil {
		s.driver.Close()
	}
	if s.journal != nil {
		s.journal.Close()
	}
}

// lab runs tests by r; nil: by what each record says itself.
func (s *workshop) lab(r *runner.Runner) *trial.Lab {
	lab := trial.NewLab(scoring.Sandboxes{Driver: s.driver, Limits: roomy(s.memory)}, r, s.journal, s.jobs)
	lab.Limit = s.limit
	if r != nil {
		lab.Prepare = func(ctx context.Context, w *sdk.Workspace) error { return s.tools.Prepare(ctx, r.Language, w) }
	}
	return lab
}
