package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/eval"
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// RejudgeOptions say what is scored again, and by what.
type RejudgeOptions struct {
	Options
	Skill     string
	Judge     string   // reference of another judge; "": the run's own
	Evaluator string   // reference of another plugin; "": the run's own
	First     int      // training step; 0: the first
	Last      int      // 0: the last
	Episodes  int      // at least so many, in whole groups; 0: all
	Sets      []string // keys of the run's configuration to override, as --set takes them
}

// Rejudged compares stored verdicts with new ones.
type Rejudged struct {
	Run       string            `json:"run"`
	Skill     string            `json:"skill"`
	First     int               `json:"first_step"` // compared
	Last      int               `json:"last_step"`
	Before    []Verdicts        `json:"before"` // by how many verdicts they made
	After     map[string]string `json:"after"`  // role → digest
	Episodes  int               `json:"episodes"`
	Agreement Agreement         `json:"agreement"`
	Scores    [2]float64        `json:"scores"`  // mean, before and after
	Rewards   Shift             `json:"rewards"` // of episodes
	// Advantages are recomputed on both sides, with the run's own algorithm, from the
	// episodes that were compared.
	Advantages AdvantageShift    `json:"advantages"`
	Errors     map[string]int    `json:"errors,omitempty"`  // episodes that the infrastructure failed, by kind; never a verdict
	Failure    string            `json:"failure,omitempty"` // what happened to the first of them
	Model      *journal.ModelUse `json:"model,omitempty"`   // what the new verdicts, those that failed included, asked of the model
	Differ     []Difference      `json:"differ"`            // in the order of the run
}

// Verdicts says what made stored verdicts, and how many.
type Verdicts struct {
	Plugins  map[string]string `json:"plugins"` // role → digest
	Episodes int               `json:"episodes"`
}

// Agreement is an [eval.Agreement] as JSON.
type Agreement struct {
	Share float64   `json:"share"`
	Kappa *float64  `json:"kappa"` // null: both sides gave one and the same answer throughout
	Table [2][2]int `json:"table"` // [before][after], 1 for scores of at least 0.5
	Exact int       `json:"exact"`
	Apart *float64  `json:"mean_difference,omitempty"` // absent where all scores are 0 or 1
}

// Shift says how much numbers have changed.
type Shift struct {
	Changed int     `json:"changed"`
	Mean    float64 `json:"mean_difference"` // mean |after − before| over all episodes
}

// AdvantageShift is what the change would have done to training.
type AdvantageShift struct {
	Shift
	Flips  int    `json:"sign_flips"` // episodes pushed the other way
	Groups int    `json:"groups"`
	Signal [2]int `json:"groups_with_signal"` // before and after
}

// Difference is an episode that is scored otherwise now.
type Difference struct {
	ID           string  `json:"id"`
	Step         int     `json:"step"`
	Task         string  `json:"task"`
	Before       float64 `json:"before"`
	After        float64 `json:"after"`
	BeforeReason string  `json:"before_reason,omitempty"`
	AfterReason  string  `json:"after_reason,omitempty"`
}

// stored is an episode and what is found now.
type stored struct {
	journal.Episode
	score  float64
	reason string
	failed error // nil: there is a verdict
}

// Rejudge scores the stored training episodes of a run again: the tasks are built
// anew, and the outputs evaluated in new sandboxes with the seeds that they had. It
// blocks until the last verdict and writes nothing into the run.
func Rejudge(ctx context.Context, dir journal.Dir, o RejudgeOptions) (*Rejudged, error) {
	cfg, err := rejudgeConfig(dir, o)
	if err != nil {
		return nil, err
	}
	algo, err := algorithm(cfg)
	if err != nil {
		return nil, err
	}
	episodes, err := scoredEpisodes(dir, o)
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, cfg, o.Options)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	b := s.Skills[0].Binding()
	var meter scoring.Meter
	if err := s.scoreAgain(ctx, b, episodes, &meter); err != nil {
		return nil, err
	}
	r := &Rejudged{Run: cfg.Run.Name, Skill: o.Skill, First: episodes[0].Step, Last: episodes[len(episodes)-1].Step,
		After: b.Scorer.Digests(), Model: used(journal.ModelUse(meter.Use()))}
	r.compare(episodes)
	r.advantages(algo, cfg.GRPO.GroupSize, episodes)
	return r, s.Close()
}

// rejudgeConfig is the run's, cut down to what the skill's training tasks need.
func rejudgeConfig(dir journal.Dir, o RejudgeOptions) (*config.Config, error) {
	path := dir.Path("config.toml")
	own, err := config.Load(path, nil)
	if err != nil {
		return nil, err
	}
	p, ok := partOf(own, o.Skill)
	if !ok || p.table != "skills" {
		var names []string
		for _, k := range own.Skills {
			names = append(names, k.Name)
		}
		return nil, diag.Errorf(diag.KindConfig, "rejudge", o.Skill, "the run trains no such skill; it trains %v", names)
	}
	sets := slices.Clone(o.Sets)
	if o.Evaluator != "" {
		sets = append(sets, p.key()+".plugin="+o.Evaluator)
	}
	if o.Judge != "" {
		sets = append(sets, p.key()+".judge="+o.Judge)
	}
	cfg, err := config.Load(path, sets)
	if err != nil {
		return nil, err
	}
	cfg.Skills = slices.DeleteFunc(cfg.Skills, func(k config.Skill) bool { return k.Name != o.Skill })
	cfg.Suites = nil
	cfg.Sources = slices.DeleteFunc(cfg.Sources, func(src config.Source) bool { return src.Use != "train" || !src.Serves(o.Skill) })
	return cfg, nil
}

// scoredEpisodes reads the episodes that have a verdict, in whole groups.
func scoredEpisodes(dir journal.Dir, o RejudgeOptions) ([]*stored, error) {
	steps, err := dir.Steps()
	if err != nil {
		return nil, err
	}
	var out []*stored
	for _, st := range steps {
		if st.Step < o.First || o.Last > 0 && st.Step > o.Last || o.Episodes > 0 && len(out) >= o.Episodes {
			continue
		}
		var found []*stored
		for e, err := range dir.Episodes(st.Step) {
			if err != nil {
				return nil, err
			}
			if e.Skill == o.Skill && e.Outcome == journal.Scored && e.Output != nil {
				e.Step = st.Step
				e.Trajectory = nil // large, and not looked at
				found = append(found, &stored{Episode: e})
			}
		}
		slices.SortFunc(found, func(a, b *stored) int {
			return cmp.Or(cmp.Compare(a.Dispatch, b.Dispatch), cmp.Compare(a.Index, b.Index))
		})
		for i, e := range found {
			if o.Episodes > 0 && len(out) >= o.Episodes && (i == 0 || found[i-1].Dispatch != e.Dispatch) {
				break
			}
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, diag.Errorf(diag.KindData, "rejudge", o.Skill, "no stored episode of these steps has a verdict and an output")
	}
	return out, nil
}

// scoreAgain evaluates every episode with b. What the infrastructure fails is tried
// again as often as in the run. What is asked of the model is added to m.
func (s *Setup) scoreAgain(ctx context.Context, b *Binding, episodes []*stored, m *scoring.Meter) error {
	tasks := make(map[string]*sdk.Task, len(b.Train))
	for _, t := range b.Train {
		tasks[t.Key] = t
	}
	for _, e := range episodes {
		if tasks[e.Task] == nil {
			return diag.Errorf(diag.KindData, "rejudge", e.Task, "%s builds no such task from the run's records", b.Plugin)
		}
	}
	var mu sync.Mutex
	done, errs := 0, map[string]int{}
	s.observe(Event{Kind: Started, Text: "verdicts", Total: len(episodes)})
	return each(ctx, len(episodes), s.Concurrency(), func(ctx context.Context, i int) error {
		e := episodes[i]
		seed := evaluationSeed(episodeSeed(s.Config.Run.Seed, e.Dispatch, e.Index))
		var v *sdk.Verdict
		var err error
		for attempt := 0; attempt <= s.Config.Async.Retries; attempt++ {
			if v, err = b.Scorer.ScoreMetered(ctx, tasks[e.Task], *e.Output, seed, m); err == nil {
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.log.Warn("verdict failed", "episode", e.ID, "attempt", attempt, "error", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			e.failed = err
			errs[string(diag.KindOf(err))]++
		} else {
			e.score, e.reason = v.Score, v.Reason
		}
		done++
		s.observe(Event{Kind: Finished, Text: "verdicts", Done: done, Total: len(episodes), Errors: maps.Clone(errs)})
		return nil
	})
}

// compare fills in what can be said episode by episode.
func (r *Rejudged) compare(episodes []*stored) {
	var before, after []float64
	made := map[string]*Verdicts{}
	r.Differ = []Difference{}
	for _, e := range episodes {
		if e.failed != nil {
			if r.Errors == nil {
				r.Errors, r.Failure = map[string]int{}, e.failed.Error()
			}
			r.Errors[string(diag.KindOf(e.failed))]++
			continue
		}
		before, after = append(before, e.Score), append(after, e.score)
		key := fmt.Sprint(e.Plugins)
		if made[key] == nil {
			made[key] = &Verdicts{Plugins: e.Plugins}
		}
		made[key].Episodes++
		if e.Score != e.score {
			r.Differ = append(r.Differ, Difference{e.ID, e.Step, e.Task, e.Score, e.score, e.Reason, e.reason})
		}
	}
	for _, key := range sortedKeys(made) {
		r.Before = append(r.Before, *made[key])
	}
	slices.SortStableFunc(r.Before, func(a, b Verdicts) int { return b.Episodes - a.Episodes })
	r.Episodes = len(before)
	if r.Episodes == 0 {
		return
	}
	a := eval.Agree(before, after)
	r.Agreement = Agreement{Share: a.Share, Table: a.Table, Exact: a.Exact}
	if !math.IsNaN(a.Kappa) {
		r.Agreement.Kappa = &a.Kappa
	}
	if !a.Binary {
		r.Agreement.Apart = &a.Apart
	}
	for i := range before {
		r.Scores[0] += before[i] / float64(r.Episodes)
		r.Scores[1] += after[i] / float64(r.Episodes)
	}
}

// advantages recomputes them group by group on both sides.
func (r *Rejudged) advantages(c grpo.Config, size int, episodes []*stored) {
	for len(episodes) > 0 {
		n := 1
		for n < len(episodes) && episodes[n].Dispatch == episodes[0].Dispatch {
			n++
		}
		r.group(c, size, episodes[:n])
		episodes = episodes[n:]
	}
	if n := float64(r.Episodes); n > 0 {
		r.Rewards.Mean /= n
		r.Advantages.Mean /= n
	}
}

func (r *Rejudged) group(c grpo.Config, size int, episodes []*stored) {
	states := make([]grpo.State, size)
	for i := range states {
		states[i] = grpo.Failed
	}
	was, is := make([]float64, size), make([]float64, size)
	for _, e := range episodes {
		if e.failed == nil && e.Index < size {
			states[e.Index] = c.State(e.End)
			was[e.Index], is[e.Index] = c.Reward(e.Score), c.Reward(e.score)
		}
	}
	before, fateBefore := grpo.Advantages(c, was, states)
	after, fateAfter := grpo.Advantages(c, is, states)
	r.Advantages.Groups++
	for i, fate := range []grpo.Fate{fateBefore, fateAfter} {
		if fate == grpo.Trained {
			r.Advantages.Signal[i]++
		}
	}
	for i := range size {
		r.Rewards.add(was[i], is[i])
		r.Advantages.add(before[i], after[i])
		if before[i]*after[i] < 0 {
			r.Advantages.Flips++
		}
	}
}

func (s *Shift) add(before, after float64) {
	if before != after {
		s.Changed++
		s.Mean += math.Abs(after - before)
	}
}
