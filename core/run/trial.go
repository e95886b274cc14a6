package run

import (
	"context"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

// trialSteps is the bound of a trial's turns: a reference answer may have more
// changes than the run grants its policy turns.
const trialSteps = 10_000

// try plays one task of b in real sandboxes: its reference answer must score 1, no
// answer at all 0. Without a task that has a reference only the latter is asked. An
// error says what b did instead. What the sandboxes or the judge fail at is tried again
// as often as in the run.
func (s *Setup) try(ctx context.Context, b *Binding) error {
	task, known := specimen(b)
	if task == nil {
		return diag.Errorf(diag.KindPlugin, "try plugin", b.Skill, "it builds no task to try it on")
	}
	if known {
		if err := s.expect(ctx, b, task, policy.Oracle(), "the reference answer", 1); err != nil {
			return err
		}
	}
	return s.expect(ctx, b, task, policy.Noop(), "an empty answer", 0)
}

// specimen picks the first task with a reference, training tasks first.
func specimen(b *Binding) (task *sdk.Task, known bool) {
	all := b.Train
	for _, split := range sortedKeys(b.Eval) {
		all = append(all[:len(all):len(all)], b.Eval[split]...)
	}
	for _, t := range all {
		if t.Reference != nil {
			return t, true
		}
	}
	if len(all) > 0 {
		return all[0], false
	}
	return nil, false
}

func (s *Setup) expect(ctx context.Context, b *Binding, task *sdk.Task, p policy.Policy, what string, want float64) error {
	player := *s.Player
	player.Rollout.MaxSteps = trialSteps
	for attempt := 0; ; attempt++ {
		e, err := player.Play(ctx, p, b, task, "trial", 1)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && passing(err) && attempt < s.Config.Async.Retries:
			continue
		case err != nil:
			return diag.Wrap(diag.KindPlugin, "try plugin", b.Skill, err)
		case e.Score != want:
			return diag.Errorf(diag.KindPlugin, "try plugin", b.Skill, "task %s: %s scores %g, want %g (%s)", task.Key, what, e.Score, want, e.Reason)
		}
		return nil
	}
}

// passing tells whether another attempt may succeed: a plugin at fault fails again, a
// sandbox or a judge's model need not.
func passing(err error) bool {
	k := diag.KindOf(err)
	return k == diag.KindSandbox || k == diag.KindJudge
}
