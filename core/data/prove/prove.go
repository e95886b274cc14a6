// Package prove shows that records serve the skills: the tasks that a skill builds of
// them give 1 to the reference and 0 to an agent that did nothing, each time.
package prove

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// Options say how skills are proved.
type Options struct {
	Registry registry.Options
	Skills   []string // plugins of the skills
	Judge    string   // the plugin of the judge of skills that ask one
	Driver   sandbox.Driver
	Limits   sandbox.Limits
	Repeats  int           // evaluations of each answer; default 3
	Tasks    int           // of each skill at most; 0: all
	Jobs     int           // evaluations at the same time; default 1
	Timeout  time.Duration // of one evaluation; default 5 min
	Log      *slog.Logger
	Heard    func(done, all int)
}

// Skill is what was found out about one skill.
type Skill struct {
	Name    string         `json:"skill"`
	Tasks   int            `json:"tasks"`
	Without int            `json:"without_reference"` // tasks that have no reference to try
	Oracle  int            `json:"oracle"`            // tasks whose reference scored 1 each time
	Noop    int            `json:"noop"`              // tasks where nothing scored 0 each time
	Skipped map[string]int `json:"skipped,omitempty"` // records without a task, by reason
	Faults  []Fault        `json:"faults,omitempty"`
}

// Fault is a task that did not go as it should.
type Fault struct {
	Task   string `json:"task"`
	Answer string `json:"answer"` // "reference" or "nothing"
	Says   string `json:"says"`
}

// Holds says whether every task with a reference gave 1 to it, and every task 0 to
// nothing.
func (s *Skill) Holds() bool { return len(s.Faults) == 0 }

// Records proves the skills on records. An error is of the host: a plugin that cannot
// be loaded, or an interruption.
func Records(ctx context.Context, records []sdk.Record, o Options) ([]*Skill, error) {
	if o.Repeats <= 0 {
		o.Repeats = 3
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &prover{Options: o}
	defer p.close()
	for _, ref := range o.Skills {
		if err := p.load(ctx, ref); err != nil {
			return nil, err
		}
	}
	var jobs []job
	for _, s := range p.skills {
		tasks, err := s.build(ctx, records, o.Tasks)
		if err != nil {
			return nil, err
		}
		for i := range tasks {
			jobs = append(jobs, job{s, &tasks[i]})
		}
	}
	if err := p.evaluate(ctx, jobs); err != nil {
		return nil, err
	}
	var out []*Skill
	for _, s := range p.skills {
		slices.SortFunc(s.found.Faults, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Answer, b.Answer)) })
		out = append(out, s.found)
	}
	return out, nil
}

type prover struct {
	Options
	skills []*skill
	judge  *host.Plugin
}

// skill is a loaded skill with what is found out about it.
type skill struct {
	plugin *host.Plugin
	scorer *scoring.Scorer
	found  *Skill
}

type job struct {
	skill *skill
	task  *sdk.Task
}

func (p *prover) open(ctx context.Context, ref string) (*host.Plugin, []sdk.Pair, error) {
	m, err := registry.Resolve(ctx, ref, p.Registry)
	if err != nil {
		return nil, nil, err
	}
	settings, err := m.Manifest.Settings(nil)
	if err != nil {
		return nil, nil, err
	}
	plugin, err := host.Load(ctx, m, host.Options{Grants: m.Manifest.Capabilities, Log: p.Log})
	return plugin, settings, err
}

func (p *prover) load(ctx context.Context, ref string) error {
	plugin, settings, err := p.open(ctx, ref)
	if err != nil {
		return err
	}
	m := plugin.Manifest()
	s := &skill{plugin: plugin, found: &Skill{Name: m.Name, Skipped: map[string]int{}}, scorer: &scoring.Scorer{
		Skill: m.Name, Evaluator: plugin, Config: settings, Timeout: p.Timeout, Log: p.Log,
		Runner: scoring.Sandboxes{Driver: p.Driver, Limits: p.Limits},
	}}
	p.skills = append(p.skills, s)
	if !slices.Contains(m.Capabilities, "judge") {
		return nil
	}
	if p.judge == nil {
		if p.judge, s.scorer.JudgeConfig, err = p.open(ctx, p.Judge); err != nil {
			return err
		}
	}
	s.scorer.Judge = p.judge
	return nil
}

func (p *prover) close() {
	for _, s := range p.skills {
		s.plugin.Close()
	}
	if p.judge != nil {
		p.judge.Close()
	}
}

// build makes the skill's tasks.
func (s *skill) build(ctx context.Context, records []sdk.Record, most int) ([]sdk.Task, error) {
	var out []sdk.Task
	for i := range records {
		answer, err := s.plugin.Build(ctx, s.scorer.Building(nil), &sdk.BuildRequest{Record: records[i], Template: "full", Config: s.scorer.Config, Seed: 7})
		if err != nil {
			return nil, diag.Wrap(diag.KindPlugin, "build tasks", s.found.Name+": "+records[i].ID, err)
		}
		if answer.Skipped != "" {
			s.found.Skipped[answer.Skipped]++
		}
		for _, t := range answer.Tasks {
			if most == 0 || len(out) < most {
				out = append(out, t)
			}
		}
	}
	s.found.Tasks = len(out)
	return out, nil
}

func (p *prover) evaluate(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed error
	done := 0
	next := make(chan job)
	var wait sync.WaitGroup
	for range max(1, p.Jobs) {
		wait.Go(func() {
			for j := range next {
				oracle, noop, faults, err := p.one(ctx, j)
				mu.Lock()
				f := j.skill.found
				if err != nil && failed == nil {
					failed = err
					cancel()
				}
				f.Faults = append(f.Faults, faults...)
				switch {
				case j.task.Reference == nil:
					f.Without++
				case oracle:
					f.Oracle++
				}
				if noop {
					f.Noop++
				}
				done++
				if p.Heard != nil {
					p.Heard(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, j := range jobs {
		select {
		case next <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wait.Wait()
	if failed == nil && ctx.Err() != nil {
		failed = diag.Wrap(diag.KindInterrupted, "prove records", "", ctx.Err())
	}
	return failed
}

// one puts the reference and nothing to one task, some times each.
func (p *prover) one(ctx context.Context, j job) (oracle, noop bool, faults []Fault, err error) {
	try := func(answer string, out sdk.Output, want float64) (bool, error) {
		for n := range p.Repeats {
			v, err := j.skill.scorer.Score(ctx, j.task, out, uint64(n+1))
			if ctx.Err() != nil {
				return false, diag.Wrap(diag.KindInterrupted, "prove records", j.task.Key, ctx.Err())
			}
			if err != nil {
				faults = append(faults, Fault{j.task.Key, answer, "no verdict: " + err.Error()})
				return false, nil
			}
			if v.Score != want {
				faults = append(faults, Fault{j.task.Key, answer, v.Reason})
				return false, nil
			}
		}
		return true, nil
	}
	if r := j.task.Reference; r != nil {
		if oracle, err = try("reference", sdk.Output{Changes: r.Changes, Message: r.Message, End: "submitted"}, 1); err != nil {
			return false, false, faults, err
		}
	}
	noop, err = try("nothing", sdk.Output{End: "submitted"}, 0)
	return oracle, noop, faults, err
}
