package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

// Splits lists the evaluation splits of the configuration, sorted.
func (s *Setup) Splits() []string {
	if len(s.Config.Eval.Splits) > 0 {
		return s.Config.Eval.Splits
	}
	seen := map[string]bool{}
	for _, k := range s.Skills {
		for split := range k.Binding().Eval {
			seen[split] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// dice is the root of an evaluation's seeds. It is not the run's: two runs from one
// policy begin with the same measurement, and checkpoints are compared on the same
// dice.
const dice = 1

// Measure plays every evaluation task of a split runs times and gives the scores
// with all episodes. Infrastructure failures are tried again; what still fails is
// excluded and counted. Every skill is measured by one binding from beginning to
// end. It blocks until the last episode; if ctx ends before, it gives the context's
// error and no evaluation.
func (s *Setup) Measure(ctx context.Context, p policy.Policy, split string, step, runs int) (journal.Eval, []journal.Episode, error) {
	started := time.Now()
	ev := journal.Eval{Step: step, Split: split, Policy: p.Name(), Version: p.Version(), Runs: runs, Time: started.UTC()}
	type job struct {
		binding   *Binding
		task      *sdk.Task
		row, run  int
		skillEval int
	}
	var jobs []job
	var bindings []*Binding // of the skills that have tasks
	for _, k := range s.Skills {
		b, let := k.hold()
		defer let()
		tasks := b.Eval[split]
		if len(tasks) == 0 {
			continue
		}
		se := journal.SkillEval{Name: k.Name, Scores: make([][]float64, len(tasks)), Ends: map[string]int{}}
		for _, t := range tasks {
			se.Tasks = append(se.Tasks, t.Key)
		}
		ev.Skills = append(ev.Skills, se)
		bindings = append(bindings, b)
	}
	// Runs outside, skills inside: the load is even from beginning to end.
	for r := range runs {
		for i, b := range bindings {
			for row, t := range b.Eval[split] {
				jobs = append(jobs, job{b, t, row, r, i})
			}
		}
	}
	if len(jobs) == 0 {
		return ev, nil, diag.Errorf(diag.KindConfig, "measure", split, "no task: no [[source]] with use = \"eval\" has split %q, or none of its records gives a task", split)
	}
	episodes := make([]journal.Episode, len(jobs))
	var mu sync.Mutex
	done, errs, model, server := 0, map[string]int{}, journal.ModelUse{}, journal.ServerUse{}
	before := s.faults()
	s.observe(Event{Kind: Started, Text: split, Total: len(jobs), Version: ev.Version})
	err := each(ctx, len(jobs), s.Concurrency(), func(ctx context.Context, i int) error {
		j := jobs[i]
		// A skill and a suite may have the same tasks.
		id := fmt.Sprintf("eval-%06d-%s-%s-%s-%d", step, split, j.binding.Skill, j.task.Key, j.run)
		seed := seedOf(dice, "eval", split, j.task.Key, j.run)
		for attempt := 0; ; attempt++ {
			e, err := s.Player.Play(ctx, p, j.binding, j.task, id, seed)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			e.Step, e.Attempt = -1, attempt
			episodes[i] = e.Episode
			mu.Lock()
			model.Add(e.Model)
			server.Add(e.Server)
			if err != nil {
				errs[string(diag.KindOf(err))]++
			}
			if err == nil || attempt >= s.Config.Async.Retries {
				done++
				s.observe(Event{Kind: Finished, Text: split, Done: done, Total: len(jobs), Errors: maps.Clone(errs), Version: ev.Version})
				mu.Unlock()
				return nil
			}
			mu.Unlock()
			s.log.Warn("episode failed, trying again", "episode", id, "attempt", attempt, "error", err)
		}
	})
	if err != nil {
		return ev, nil, err
	}
	for i, j := range jobs {
		se := &ev.Skills[j.skillEval]
		if episodes[i].Outcome != journal.Scored {
			se.Excluded++
			continue
		}
		se.Scores[j.row] = append(se.Scores[j.row], episodes[i].Score)
		se.Ends[episodes[i].End]++
	}
	ev.Model, ev.Seconds = used(model), since(started)
	for f, n := range s.faults() {
		if n -= before[f]; n > 0 {
			server.Add(&journal.ServerUse{Faults: map[string]int{string(f): n}})
		}
	}
	if server.Turns > 0 || server.Faults != nil {
		ev.Server = &server
	}
	s.observe(Event{Kind: Measured, Text: split, Eval: &ev, Version: ev.Version})
	return ev, episodes, nil
}
