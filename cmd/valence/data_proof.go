package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/prove"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
)

// proving is what data check --prove is told.
type proving struct {
	on      bool
	tasks   int
	repeats int
	jobs    int
	judge   string
	timeout time.Duration
	memory  int64
}

func (t *proving) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.on, "prove", false, "try the tasks in sandboxes, too")
	f.IntVarP(&t.tasks, "tasks", "n", 0, "prove at most this `number` of tasks of each skill, the first ones (default: all)")
	f.IntVar(&t.repeats, "repeats", 3, "prove by evaluating an answer this `number` of times")
	f.IntVarP(&t.jobs, "jobs", "j", 2, "evaluations of a proof at the same time")
	f.StringVar(&t.judge, "judge", "plugins/judges/rules", "the judge in proofs of skills that ask one, a `plugin`")
	f.DurationVar(&t.timeout, "timeout", 5*time.Minute, "limit of one evaluation of a proof")
	f.Int64Var(&t.memory, "memory", 1<<30, "memory of a proof's sandbox without -c, in `bytes`")
}

// proved is what data check --prove found out.
type proved struct {
	Repeats int            `json:"repeats"`
	Skills  []*prove.Proof `json:"skills"`
	Seconds float64        `json:"seconds"`
	verbose bool
}

func (r *proved) holds() bool {
	return !slices.ContainsFunc(r.Skills, func(p *prove.Proof) bool { return !p.Holds() })
}

func (r *proved) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "\neach answer evaluated %s\n", counted(r.Repeats, "time"))
	g := grid{head: []string{"SKILL", "TASKS", "REFERENCE = 1", "NOTHING = 0", "NO REFERENCE"}}
	for _, s := range r.Skills {
		tasks := fmt.Sprint(s.Tasks)
		if s.Tried < s.Tasks {
			tasks = fmt.Sprintf("%d of %d", s.Tried, s.Tasks)
		}
		g.add(s.Skill, tasks, fmt.Sprint(s.Oracle), fmt.Sprint(s.Noop), fmt.Sprint(s.Without))
	}
	g.write(w, p)
	for _, s := range r.Skills {
		for i, f := range s.Faults {
			if i == shownReasons && !r.verbose {
				fmt.Fprintf(w, "%s: %d more; -v has all\n", s.Skill, len(s.Faults)-i)
				break
			}
			fmt.Fprintf(w, "%s %s: %s: %s\n", p.in(p.red, "FAIL"), f.Task, f.Answer, inOneLine(f.Says))
		}
	}
}

// prove plays the tasks that builders kept. What it found out before an interruption
// comes with the error.
func (a *app) prove(ctx context.Context, driver sandbox.Driver, limits sandbox.Limits, builders []*builder, o registry.Options, t *proving) (*proved, error) {
	started := time.Now()
	var judge *builder
	var skills []prove.Skill
	for _, b := range builders {
		m := b.plugin.Manifest()
		s := &scoring.Scorer{
			Skill: m.Name, Evaluator: b.plugin, Config: b.settings, Timeout: t.timeout, Log: a.logger(),
			Runner: scoring.Sandboxes{Driver: driver, Limits: limits},
		}
		if slices.Contains(m.Capabilities, "judge") {
			if judge == nil {
				module, err := registry.Resolve(ctx, t.judge, o)
				if err != nil {
					return nil, err
				}
				if judge, err = a.load(ctx, module); err != nil {
					return nil, err
				}
				defer judge.plugin.Close()
			}
			s.Judge, s.JudgeConfig = judge.plugin, judge.settings
		}
		skills = append(skills, prove.Skill{Name: m.Name, Scorer: s, Tasks: b.tasks})
	}
	g := a.newGauge("proving")
	defer g.close()
	proofs, err := prove.Tasks(ctx, skills, prove.Options{
		Repeats: t.repeats, Jobs: t.jobs,
		Heard: func(done, all int) {
			g.set(int64(done), int64(all), fmt.Sprintf("%d of %s", done, counted(all, "task")))
		},
		Found: func(f prove.Fault) { g.said("FAIL " + f.Task + ": " + f.Answer + ": " + inOneLine(f.Says)) },
	})
	return &proved{Repeats: t.repeats, Skills: proofs, Seconds: time.Since(started).Seconds(), verbose: a.verbose > 0}, err
}

// provingGround is where tasks are tried: the sandboxes of a configuration, or this
// machine's.
func (a *app) provingGround(ctx context.Context, cfg *config.Config, memory int64) (sandbox.Driver, sandbox.Limits, error) {
	if cfg != nil {
		d, err := run.Sandboxes(ctx, cfg, a.logger(), nil)
		return d, run.Limits(cfg), err
	}
	d, err := local.New(local.Options{Dir: run.SandboxDir(), Log: a.logger(), Images: run.Images(config.Sandbox{}, a.logger(), nil)})
	return d, roomy(memory), err
}

// roomy are the limits of sandboxes in which whole test suites run.
func roomy(memory int64) sandbox.Limits {
	return sandbox.Limits{Memory: memory, Disk: memory, CPUs: 2, Pids: 512, Output: 16 << 20}
}
