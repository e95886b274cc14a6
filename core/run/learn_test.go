package run

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
)

// ledgerEngine keeps what it is asked to learn.
type ledgerEngine struct {
	engine.Engine
	losses  []engine.LossKind
	version int
	batches [][]engine.Datum
	loss    []engine.Loss
	steps   []engine.AdamParams
	logprob float32 // of every target, under the weights now
}

func (e *ledgerEngine) Info() engine.Info {
	return engine.Info{Name: "ledger", Losses: e.losses, Version: e.version}
}

func (e *ledgerEngine) ForwardBackward(_ context.Context, batch []engine.Datum, loss engine.Loss) (engine.Result, error) {
	var kept []engine.Datum
	r := engine.Result{Loss: 7, Entropy: 0.5, ClipShare: 0.25, Ratio: 1.5}
	for _, d := range batch {
		d.Weights, d.Old = slices.Clone(d.Weights), slices.Clone(d.Old)
		kept = append(kept, d)
		lp := make([]float32, len(d.Weights))
		for i, w := range d.Weights {
			if w != 0 {
				lp[i] = e.logprob
			}
		}
		r.Logprobs = append(r.Logprobs, lp)
	}
	e.batches = append(e.batches, kept)
	e.loss = append(e.loss, loss)
	return r, nil
}

func (e *ledgerEngine) OptimStep(_ context.Context, p engine.AdamParams) (engine.StepResult, error) {
	e.steps = append(e.steps, p)
	e.version++
	return engine.StepResult{GradNorm: 3, Version: e.version}, nil
}

func learnerOf(t *testing.T, e *ledgerEngine, change func(*config.GRPO)) *learner {
	t.Helper()
	e.losses = []engine.LossKind{engine.Clipped}
	c := &config.Config{GRPO: config.GRPO{Preset: "grpo++", LearningRate: 0.1, WeightDecay: 0.2, GradClip: 0.3, InnerEpochs: 1}}
	c.Policy.MaxContext = 100
	if change != nil {
		change(&c.GRPO)
	}
	l, err := newLearner(c, e)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// scored is an episode with a verdict whose trajectory has the turns given.
func scored(score float64, turns ...policy.Turn) *Played {
	tr := &rollout.Trajectory{}
	for _, turn := range turns {
		tr.Turns = append(tr.Turns, rollout.Turn{Turn: turn})
	}
	return &Played{Episode: journal.Episode{Outcome: journal.Scored, End: "submitted", Score: score}, Trajectory: tr}
}

// sampled is a turn of tokens that had the logprobs −0.1, −0.2, …
func sampled(context []int, tokens ...int) policy.Turn {
	turn := policy.Turn{Context: context, Tokens: tokens}
	for i := range tokens {
		turn.Logprobs = append(turn.Logprobs, -0.1*float32(i+1))
		turn.Versions = append(turn.Versions, 0)
	}
	return turn
}

func TestJudge(t *testing.T) {
	lost := func() *Played { return &Played{Episode: journal.Episode{Outcome: "sandbox", End: "error"}} }
	ended := func(end string, score float64) *Played {
		e := scored(score)
		e.End = end
		return e
	}
	type row struct {
		Reward, Advantage float64
		Filtered          bool
	}
	for _, c := range []struct {
		name  string
		group group
		fate  grpo.Fate
		want  []row // nil entries of the group have none
	}{
		{"both", group{scored(1), scored(0)}, grpo.Trained, []row{{1, 2, false}, {-1, -2, false}}},
		{"all right", group{scored(1), scored(1)}, grpo.NoSignal, []row{{1, 0, false}, {1, 0, false}}},
		// A lost episode neither votes nor learns: the others are compared as if it
		// had never been.
		{"one lost", group{scored(1), nil, scored(0)}, grpo.Trained, []row{{1, 2, false}, {}, {-1, -2, false}}},
		{"one failed", group{scored(1), lost(), scored(0)}, grpo.Trained, []row{{1, 2, false}, {0, 0, false}, {-1, -2, false}}},
		{"all but one lost", group{scored(1), nil, lost()}, grpo.TooFew, []row{{1, 0, false}, {}, {0, 0, false}}},
		{"all lost", group{nil, nil}, grpo.TooFew, []row{{}, {}}},
		{"one filtered", group{scored(1), ended("max_context", 0), scored(0)}, grpo.Trained, []row{{1, 2, false}, {-1, 0, true}, {-1, -2, false}}},
		{"all filtered", group{ended("timeout", 1), ended("max_steps", 0)}, grpo.AllFiltered, []row{{1, 0, true}, {-1, 0, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := learnerOf(t, &ledgerEngine{}, nil)
			if fate := l.judge(c.group); fate != c.fate {
				t.Errorf("fate %q, want %q", fate, c.fate)
			}
			for i, e := range c.group {
				if e == nil {
					continue
				}
				if got := (row{e.Reward, e.Advantage, e.Filtered}); got != c.want[i] || e.Fate != string(c.fate) {
					t.Errorf("%d: got %+v and %q, want %+v", i, got, e.Fate, c.want[i])
				}
			}
		})
	}
}

// What is trained on is what was sampled: the very ids, their logprobs, and
// nothing else of the conversation.
func TestLearnIsTokenExact(t *testing.T) {
	e := &ledgerEngine{}
	l := learnerOf(t, e, nil)
	right := scored(1,
		sampled([]int{1, 2}, 10, 11),
		policy.Turn{Full: true}, // without tokens: no part of a sequence
		sampled([]int{1, 2, 10, 11, 3}, 12))
	wrong := scored(0,
		sampled([]int{1, 2}, 20),
		sampled([]int{9}, 21, 22)) // does not extend the turn before: a sequence of its own
	filtered := scored(1, sampled([]int{1, 2}, 30))
	filtered.End = "max_context"
	groups := []group{
		{right, nil, wrong, filtered},
		{scored(1, sampled([]int{1}, 40)), scored(1, sampled([]int{1}, 41))}, // no signal
		{scored(0, sampled([]int{1}, 42)), nil},                              // too few
	}
	for _, g := range groups {
		l.judge(g)
	}
	var m journal.Step
	if err := l.learn(t.Context(), groups, 1, &m); err != nil {
		t.Fatal(err)
	}
	// N = 2 episodes with 3 sampled tokens each: 1/(N·T).
	const w = float32(1. / 6)
	want := [][]engine.Datum{{
		{Tokens: []int{1, 2, 10, 11, 3, 12}, Weights: []float32{0, w, w, 0, w}, Old: []float32{0, -0.1, -0.2, 0, -0.1}, Advantage: 2},
		{Tokens: []int{1, 2, 20}, Weights: []float32{0, w}, Old: []float32{0, -0.1}, Advantage: -2},
		{Tokens: []int{9, 21, 22}, Weights: []float32{w, w}, Old: []float32{-0.1, -0.2}, Advantage: -2},
	}}
	near := cmpopts.EquateApprox(0, 1e-6)
	if d := cmp.Diff(want, e.batches, near); d != "" {
		t.Errorf("batches (-want +got):\n%s", d)
	}
	if l := e.loss[0]; l.Kind != engine.Clipped || l.Low != 0.2 || !math.IsInf(l.High, 1) || l.EntropyCof != 0 {
		t.Errorf("loss %+v", l)
	}
	if d := cmp.Diff([]engine.AdamParams{{LearningRate: 0.1, WeightDecay: 0.2, ClipNorm: 0.3}}, e.steps); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if d := cmp.Diff(journal.Step{
		Loss: 7, ClipShare: 0.25, Entropy: 0.5, Ratio: 1.5, GradNorm: 3, LearningRate: 0.1, TrainedTokens: 6, Tokens: 12,
	}, m); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}

func TestLearnWithoutSignal(t *testing.T) {
	e := &ledgerEngine{}
	l := learnerOf(t, e, nil)
	for name, g := range map[string]group{
		"no signal":       {scored(1, sampled([]int{1}, 2)), scored(1, sampled([]int{1}, 2))},
		"no tokens":       {scored(1), scored(0)},
		"lost":            {nil, nil},
		"all but one":     {scored(1, sampled([]int{1}, 2)), nil},
		"filtered to one": {scored(1, sampled([]int{1}, 2)), func() *Played { e := scored(0); e.End = "timeout"; return e }()},
	} {
		l.judge(g)
		var m journal.Step
		if err := l.learn(t.Context(), []group{g}, 1, &m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if e.batches != nil || e.steps != nil || m.TrainedTokens != 0 {
			t.Errorf("%s: an update was made of nothing", name)
		}
	}
}

func TestLearnWeights(t *testing.T) {
	for _, c := range []struct {
		length string
		long   float32 // weight of a token of the episode with 3
		short  float32 // … with 1
	}{
		{"sequence", 1. / 6, 1. / 2},
		{"constant", 1. / 200, 1. / 200}, // L_max is max_context
		{"token", 1. / 4, 1. / 4},
	} {
		e := &ledgerEngine{}
		l := learnerOf(t, e, func(g *config.GRPO) { g.Length = c.length })
		g := group{scored(1, sampled([]int{1}, 2, 3, 4)), scored(0, sampled([]int{1}, 2))}
		l.judge(g)
		if err := l.learn(t.Context(), []group{g}, 1, new(journal.Step)); err != nil {
			t.Fatal(err)
		}
		if b := e.batches[0]; b[0].Weights[2] != c.long || b[1].Weights[0] != c.short {
			t.Errorf("%s: weights %v and %v", c.length, b[0].Weights, b[1].Weights)
		}
	}
}

func TestLearnWarmupAndEpochs(t *testing.T) {
	e := &ledgerEngine{}
	l := learnerOf(t, e, func(g *config.GRPO) { g.WarmupSteps, g.InnerEpochs = 4, 2 })
	g := group{scored(1, sampled([]int{1}, 2)), scored(0, sampled([]int{1}, 3))}
	l.judge(g)
	for _, step := range []int{1, 4, 5} {
		if err := l.learn(t.Context(), []group{g}, step, new(journal.Step)); err != nil {
			t.Fatal(err)
		}
	}
	var got []float64
	for _, p := range e.steps {
		got = append(got, p.LearningRate)
	}
	if d := cmp.Diff([]float64{0.025, 0.025, 0.1, 0.1, 0.1, 0.1}, got, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Errorf("learning rates (-want +got):\n%s", d)
	}
	for _, b := range e.batches[1:] {
		if d := cmp.Diff(e.batches[0], b); d != "" {
			t.Errorf("the same groups gave another batch:\n%s", d)
		}
	}
}

// Truncated importance sampling: weights get min(cap, exp(old − sampled)), the
// ratio starts from the trainer's logprobs, and asking for them leaves no gradient.
func TestLearnCorrects(t *testing.T) {
	for _, c := range []struct {
		tis    string
		factor []float64 // of the three sampled tokens
	}{
		{"token", []float64{math.Exp(-0.15 + 0.1), math.Exp(-0.15 + 0.2), 1.1}},
		{"sequence", []float64{1.1, 1.1, 1.1}},
	} {
		e := &ledgerEngine{logprob: -0.15}
		limit := 1.1
		l := learnerOf(t, e, func(g *config.GRPO) { g.TIS, g.TISCap = c.tis, &limit })
		g := group{scored(1, sampled([]int{1, 2}, 10, 11, 12)), scored(0, sampled([]int{1}, 13))}
		l.judge(g)
		if err := l.learn(t.Context(), []group{g}, 1, new(journal.Step)); err != nil {
			t.Fatal(err)
		}
		if len(e.batches) != 2 || len(e.steps) != 1 {
			t.Fatalf("%s: %d passes, %d steps", c.tis, len(e.batches), len(e.steps))
		}
		for _, d := range e.batches[0] {
			if d.Advantage != 0 {
				t.Errorf("%s: the probe has the advantage %g", c.tis, d.Advantage)
			}
		}
		d := e.batches[1][0]
		for i, f := range c.factor {
			if w := float64(d.Weights[i+1]); math.Abs(w-f/6) > 1e-6 {
				t.Errorf("%s: weight %d is %g, want %g", c.tis, i, w, f/6)
			}
		}
		if diff := cmp.Diff([]float32{0, -0.15, -0.15, -0.15}, d.Old); diff != "" || d.Advantage != 2 || d.Weights[0] != 0 {
			t.Errorf("%s: %+v", c.tis, d)
		}
	}
}

func TestLearnerRefusesWhatTheEngineCannot(t *testing.T) {
	entropy := 0.1
	for name, c := range map[string]struct {
		losses []engine.LossKind
		change func(*config.GRPO)
	}{
		"no such loss":   {[]engine.LossKind{engine.CrossEntropy}, func(*config.GRPO) {}},
		"objective":      {[]engine.LossKind{engine.Clipped}, func(g *config.GRPO) { g.Preset = "gspo" }},
		"entropy":        {[]engine.LossKind{engine.Clipped}, func(g *config.GRPO) { g.Entropy = &entropy }},
		"unknown preset": {[]engine.LossKind{engine.Clipped}, func(g *config.GRPO) { g.Preset = "x" }},
	} {
		conf := &config.Config{GRPO: config.GRPO{Preset: "grpo++", LearningRate: 1}}
		c.change(&conf.GRPO)
		if _, err := newLearner(conf, &ledgerEngine{losses: c.losses}); diag.KindOf(err) != diag.KindConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAlgorithmOverrides(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	yes := true
	got, err := algorithm(&config.Config{GRPO: config.GRPO{
		Preset: "grpo", ClipLow: f(0.1), ClipHigh: f(0.3), NormaliseStd: new(bool), FilteredVote: &yes, RewardLow: f(0), RewardHigh: f(2),
		DynamicSampling: &yes, TISCap: f(3), TIS: "token", Baseline: "none", Length: "constant", Filter: []string{"timeout"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := grpo.Preset("grpo")
	if err != nil {
		t.Fatal(err)
	}
	want.ClipLow, want.ClipHigh, want.Standardise, want.FilteredVote, want.RewardLow, want.RewardHigh = 0.1, 0.3, false, true, 0, 2
	want.DynamicSampling, want.TISCap, want.TIS, want.Baseline, want.Length, want.Filter = true, 3, grpo.TISToken, grpo.NoBaseline, grpo.PerConstant, []string{"timeout"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if plain, err := algorithm(&config.Config{GRPO: config.GRPO{Preset: "grpo++"}}); err != nil || len(plain.Filter) != 3 {
		t.Errorf("an unset filter takes the preset's away: %+v, %v", plain, err)
	}
	if none, err := algorithm(&config.Config{GRPO: config.GRPO{Preset: "grpo++", Filter: []string{}}}); err != nil || len(none.Filter) != 0 {
		t.Errorf("filter = [] keeps the preset's: %+v, %v", none, err)
	}
}

func TestDescribe(t *testing.T) {
	episode := func(score float64, end string, turns, tokens int) *Played {
		e := scored(score)
		e.End, e.Turns, e.SampledTokens, e.TestRuns = end, turns, tokens, 1
		return e
	}
	signal := group{episode(1, "submitted", 2, 10), episode(0, "max_steps", 4, 30), nil}
	for _, e := range signal[:2] {
		e.Fate = string(grpo.Trained)
	}
	signal[1].Filtered = true
	groups := []group{
		signal,
		{episode(1, "submitted", 1, 5), episode(1, "submitted", 1, 5)},
		{nil, {Episode: journal.Episode{Outcome: "judge"}}},
		{episode(0, "submitted", 3, 9), nil},
	}
	m := journal.Step{Skills: map[string]*journal.SkillStep{"a": {Ends: map[string]int{}}, "b": {Ends: map[string]int{}}, "idle": {Ends: map[string]int{}}}}
	describe(&m, groups, func(i int) string { return []string{"a", "a", "a", "b"}[i] })
	want := map[string]*journal.SkillStep{
		"a": {Groups: 3, Episodes: 4, Score: 0.75, Kept: 1. / 3, AllOne: 1, Filtered: 0.25, Ends: map[string]int{"submitted": 3, "max_steps": 1},
			Turns: 2, TurnTokens: 50. / 8, TestRuns: 1},
		"b":    {Groups: 1, Episodes: 1, AllZero: 1, Ends: map[string]int{"submitted": 1}, Turns: 3, TurnTokens: 3, TestRuns: 1},
		"idle": {Ends: map[string]int{}},
	}
	if d := cmp.Diff(want, m.Skills, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if m.SampledTokens != 59 {
		t.Errorf("%d sampled tokens", m.SampledTokens)
	}
}
