package run

import (
	"context"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/journal"
)

// algorithm is the run's GRPO configuration: the preset with the file's overrides.
func algorithm(c *config.Config) (grpo.Config, error) {
	g, err := grpo.Preset(c.GRPO.Preset)
	if err != nil {
		return g, err
	}
	set(&g.ClipLow, c.GRPO.ClipLow)
	set(&g.ClipHigh, c.GRPO.ClipHigh)
	set(&g.Standardise, c.GRPO.NormaliseStd)
	set(&g.FilteredVote, c.GRPO.FilteredVote)
	set(&g.KL, c.GRPO.KL)
	set(&g.Entropy, c.GRPO.Entropy)
	set(&g.RewardLow, c.GRPO.RewardLow)
	set(&g.RewardHigh, c.GRPO.RewardHigh)
	set(&g.DynamicSampling, c.GRPO.DynamicSampling)
	set(&g.TISCap, c.GRPO.TISCap)
	if v := c.GRPO.Baseline; v != "" {
		g.Baseline = grpo.Baseline(v)
	}
	if v := c.GRPO.Length; v != "" {
		g.Length = grpo.Length(v)
	}
	if v := c.GRPO.TIS; v != "" {
		g.TIS = grpo.TIS(v)
	}
	if c.GRPO.Filter != nil {
		g.Filter = c.GRPO.Filter
	}
	return g, g.Validate()
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// learner turns complete groups into one update of an engine.
type learner struct {
	grpo   grpo.Config
	conf   config.GRPO
	engine engine.Engine
	loss   engine.Loss
	lmax   int
}

// newLearner refuses at start whatever the engine cannot honour.
func newLearner(c *config.Config, e engine.Engine) (*learner, error) {
	g, err := algorithm(c)
	if err != nil {
		return nil, err
	}
	info := e.Info()
	var losses []string
	for _, l := range info.Losses {
		losses = append(losses, string(l))
	}
	d, err := g.Loss(grpo.Offer{Engine: info.Name, Losses: losses})
	if err != nil {
		return nil, err
	}
	l := &learner{grpo: g, conf: c.GRPO, engine: e, lmax: c.Policy.MaxContext,
		loss: engine.Loss{Kind: engine.LossKind(d.Loss), Low: d.Low, High: d.High, EntropyCof: d.Entropy}}
	return l, engine.Check(e, l.loss)
}

// group is the episodes of one task; nil where an episode was lost.
type group []*Played

// judge fills in rewards, filters and advantages, and says what becomes of the group.
func (l *learner) judge(g group) grpo.Fate {
	rewards := make([]float64, len(g))
	states := make([]grpo.State, len(g))
	for i, e := range g {
		if e == nil || e.Outcome != journal.Scored {
			states[i] = grpo.Failed
			continue
		}
		states[i] = l.grpo.State(e.End)
		e.Filtered = states[i] == grpo.Filtered
		rewards[i] = l.grpo.Reward(e.Score)
		e.Reward = rewards[i]
	}
	adv, fate := grpo.Advantages(l.grpo, rewards, states)
	for i, e := range g {
		if e != nil {
			e.Advantage, e.Fate = adv[i], string(fate)
		}
	}
	return fate
}

// learn makes one optimizer update from the groups whose fate is trained, in
// order, and writes what it measured into m. Without such a group nothing happens.
func (l *learner) learn(ctx context.Context, groups []group, step int, m *journal.Step) error {
	var data []engine.Datum
	var lengths []int
	var of []int // datum → index into lengths
	for _, g := range groups {
		for _, e := range g {
			if e == nil || e.Fate != string(grpo.Trained) || e.Filtered || e.Outcome != journal.Scored || e.Advantage == 0 {
				continue
			}
			seqs := e.Trajectory.Sequences()
			if len(seqs) == 0 {
				continue
			}
			n := 0
			for _, s := range seqs {
				d := engine.Datum{
					Tokens:    s.Tokens,
					Weights:   make([]float32, len(s.Tokens)-1),
					Old:       make([]float32, len(s.Tokens)-1),
					Advantage: float32(e.Advantage),
				}
				for t := 1; t < len(s.Tokens); t++ {
					if s.Sampled[t] {
						d.Weights[t-1], d.Old[t-1] = 1, s.Logprobs[t]
						n++
					}
				}
				data = append(data, d)
				of = append(of, len(lengths))
				m.Tokens += len(s.Tokens)
			}
			lengths = append(lengths, n)
			m.TrainedTokens += n
		}
	}
	if len(data) == 0 {
		return nil
	}
	weights := grpo.Weights(l.grpo, lengths, l.lmax)
	for i := range data {
		w := float32(weights[of[i]])
		for t, x := range data[i].Weights {
			data[i].Weights[t] = x * w
		}
	}
	if l.grpo.TIS != grpo.TISOff {
		if err := l.correct(ctx, data); err != nil {
			return err
		}
	}
	lr := l.conf.LearningRate
	if step <= l.conf.WarmupSteps {
		lr *= float64(step) / float64(l.conf.WarmupSteps)
	}
	for range max(1, l.conf.InnerEpochs) {
		r, err := l.engine.ForwardBackward(ctx, data, l.loss)
		if err != nil {
			return diag.Wrap(diag.KindPolicy, "train", "", err)
		}
		o, err := l.engine.OptimStep(ctx, engine.AdamParams{LearningRate: lr, WeightDecay: l.conf.WeightDecay, ClipNorm: l.conf.GradClip})
		if err != nil {
			return diag.Wrap(diag.KindPolicy, "train", "", err)
		}
		m.Loss, m.ClipShare, m.Entropy, m.Ratio, m.GradNorm, m.LearningRate = r.Loss, r.ClipShare, r.Entropy, r.Ratio, o.GradNorm, lr
	}
	return nil
}

// correct multiplies the weights by the truncated importance ratio between the
// trainer's logprobs and those recorded while sampling, and makes the trainer's
// the old ones (ALGORITHMS 3). It costs one more forward pass: a loss without
// weight leaves no gradient.
func (l *learner) correct(ctx context.Context, data []engine.Datum) error {
	probe := make([]engine.Datum, len(data))
	for i, d := range data {
		probe[i] = d
		probe[i].Advantage = 0
	}
	r, err := l.engine.ForwardBackward(ctx, probe, l.loss)
	if err != nil {
		return diag.Wrap(diag.KindPolicy, "train", "", err)
	}
	for i := range data {
		d := &data[i]
		var old, rollout []float64
		var at []int
		for t, w := range d.Weights {
			if w != 0 {
				old, rollout, at = append(old, float64(r.Logprobs[i][t])), append(rollout, float64(d.Old[t])), append(at, t)
			}
		}
		for j, f := range grpo.Correction(l.grpo, old, rollout) {
			d.Weights[at[j]] *= float32(f)
			d.Old[at[j]] = float32(old[j])
		}
	}
	return nil
}
