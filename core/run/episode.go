package run

import (
	"context"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// Player plays episodes: a fresh sandbox, a rollout, a verdict. It is safe for
// concurrent use.
type Player struct {
	Driver  sandbox.Driver
	Limits  sandbox.Limits
	Rollout rollout.Options
}

// Played is an episode in memory: what is stored, and the trajectory to learn from.
type Played struct {
	journal.Episode
	Trajectory *rollout.Trajectory
}

// Play plays one episode of b's task with p. It blocks until the verdict, and b
// must be held as long. On an infrastructure failure the error has the kind, and
// the episode that comes with it says as much and has no score.
func (pl *Player) Play(ctx context.Context, p policy.Policy, b *Binding, task *sdk.Task, id string, seed uint64) (*Played, error) {
	started := time.Now()
	e := &Played{Episode: journal.Episode{
		ID: id, Task: task.Key, Skill: b.Skill, Meta: meta(task), Policy: p.Name(), PolicyVersion: p.Version(), End: string(rollout.Failed),
	}}
	err := pl.play(ctx, e, p, b, task, seed)
	e.Seconds = time.Since(started).Seconds()
	if err != nil {
		e.Outcome, e.Error = string(diag.KindOf(err)), err.Error()
		return e, err
	}
	e.Outcome = journal.Scored
	return e, nil
}

func (pl *Player) play(ctx context.Context, e *Played, p policy.Policy, b *Binding, task *sdk.Task, seed uint64) error {
	box, err := pl.Driver.Create(ctx, sandbox.Spec{Name: e.ID, Workspace: task.Workspace, Limits: pl.Limits})
	if err != nil {
		return err
	}
	tr, err := rollout.Run(ctx, box, p, policy.Opening{ID: e.ID, Task: task, Seed: seed}, pl.Rollout)
	box.Close() // what the agent left running must not slow the evaluation down
	e.Trajectory = tr
	e.record(tr)
	if err != nil {
		return err
	}
	var meter scoring.Meter
	v, err := b.Scorer.ScoreMetered(ctx, task, tr.Output, evaluationSeed(seed), &meter)
	e.Model = used(journal.ModelUse(meter.Use()))
	if err != nil {
		return err
	}
	e.Score, e.Components, e.Reason, e.Plugins = v.Score, v.Components, v.Reason, b.Scorer.Digests()
	return nil
}

// record copies what the trajectory says into what is stored.
func (e *Played) record(tr *rollout.Trajectory) {
	e.End = string(tr.End)
	e.PolicyVersion = tr.Version(e.PolicyVersion)
	e.Turns = len(tr.Turns)
	e.PromptTokens = tr.PromptTokens()
	e.SampledTokens = tr.SampledTokens()
	e.Server = serverUse(tr)
	e.Tools = tr.Tools
	e.TestRuns = tr.TestRuns
	e.Output = &tr.Output
	e.Episode.Trajectory = tr.ATIF()
}

func meta(t *sdk.Task) map[string]string {
	m := make(map[string]string, len(t.Meta))
	for _, p := range t.Meta {
		m[p.Key] = p.Value
	}
	return m
}

// serverUse sums up what a policy's server took; nil without one.
func serverUse(tr *rollout.Trajectory) *journal.ServerUse {
	var sum *journal.ServerUse
	for i := range tr.Turns {
		u := tr.Turns[i].Usage
		if u == nil {
			continue
		}
		if sum == nil {
			sum = &journal.ServerUse{}
		}
		sum.Add(&journal.ServerUse{
			Turns: 1, Attempts: u.Attempts, PromptTokens: int64(u.Prompt), CachedTokens: int64(u.Cached),
			CompletionTokens: int64(u.Completion), Cost: u.Cost, Seconds: u.Seconds,
		})
	}
	return sum
}
