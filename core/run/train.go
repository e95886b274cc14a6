package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/dispatch"
	"github.com/valence-rl/valence/core/grpo"
	"github.com/valence-rl/valence/core/journal"
)

// TrainOptions are what the command line adds to a training run.
type TrainOptions struct {
	Resume bool            // go on from the newest checkpoint, if there is one
	Drain  <-chan struct{} // when closed: finish the episodes under way, save, and stop
	Reload Reload          // reads the run's TOML, which is watched; nil: there is none
	Renew  <-chan struct{} // a value has every plugin looked up anew; nil: never
}

// trainer is one training run under way.
type trainer struct {
	*Setup
	dir     journal.Dir
	model   *Model
	learner *learner
	buffer  *buffer.Buffer
	drain   <-chan struct{}
	started time.Time    // of the step
	current atomic.Int64 // step under way

	mu      sync.Mutex
	done    int            // episodes since the step began
	errs    map[string]int // failed attempts in the whole run, by kind
	metrics journal.Step   // of the update under way
}

// Train runs the configured steps, measures before, between and after, and leaves
// the run directory complete. It blocks until the last step; an interruption, by
// the context or by Drain, is an error of KindInterrupted after everything has
// been saved. It gives how many episodes the infrastructure lost for good.
func (s *Setup) Train(ctx context.Context, o TrainOptions) (lost int, err error) {
	c := s.Config
	if err := s.trainable(); err != nil {
		return 0, err
	}
	dir := journal.Dir(filepath.Join(c.Run.Dir, c.Run.Name))
	unlock, err := lock(dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := forgetQuestions(dir); err != nil {
		return 0, err
	}
	state, resuming, err := newest(dir)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(dir.Path("config.toml")); err == nil && !o.Resume {
		return 0, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C060",
			Summary: fmt.Sprintf("run %q exists in %s", c.Run.Name, dir),
			Hint:    "go on with it by --resume, choose another name with --set run.name=NAME, or remove the folder"}
	}
	t := &trainer{Setup: s, dir: dir, drain: o.Drain, errs: map[string]int{}}
	if err := t.begin(resuming, state); err != nil {
		return 0, err
	}
	w, err := newSwapper(s, dir, o.Reload, func() int { return int(t.current.Load()) })
	if err != nil {
		return 0, err
	}
	swapping, stop := context.WithCancel(ctx)
	var swaps sync.WaitGroup
	swaps.Go(func() { w.serve(swapping, o.Renew) })
	defer swaps.Wait()
	defer stop()
	if err := t.measure(ctx, state.Step); err != nil {
		return 0, err
	}
	err = t.loop(ctx, state.Step+1)
	if err != nil {
		return t.lost(), err
	}
	state, _, err = newest(dir)
	if err != nil {
		return t.lost(), err
	}
	state.Done = true
	return t.lost(), dir.WriteJSON("state.json", state)
}

// begin opens policy and buffer where the run stands.
func (t *trainer) begin(resuming bool, state journal.State) (err error) {
	c := t.Config
	from := ""
	if resuming {
		from = t.dir.CheckpointDir(state.Checkpoint)
	}
	if t.model, err = t.OpenModel(from); err != nil {
		return err
	}
	if t.learner, err = newLearner(c, t.model.Engine); err != nil {
		return err
	}
	if v := t.model.Engine.Info().MaxContext; c.Policy.MaxContext > v {
		return diag.Errorf(diag.KindConfig, "open policy", t.model.Dir, "max_context = %d, the policy was made for %d", c.Policy.MaxContext, v)
	}
	bc := buffer.Config{Seed: seedOf(c.Run.Seed, "buffer")}
	for _, k := range t.Skills {
		if k.Weight == 0 {
			continue
		}
		b := buffer.Skill{Name: k.Name, Weight: k.Weight}
		for _, task := range k.Binding().Train {
			b.Tasks = append(b.Tasks, task.Key)
		}
		bc.Skills = append(bc.Skills, b)
	}
	resolved := config.Resolved(c)
	if resuming {
		if t.buffer, err = buffer.Restore(bc, state.Buffer); err != nil {
			return err
		}
		if was, err := os.ReadFile(t.dir.Path("config.toml")); err == nil && string(was) != string(resolved) {
			t.observe(Event{Kind: Warned, Text: "the configuration has changed since the run began; the new one holds from here on"})
		}
		if err := t.dir.DropStepsAfter(state.Step); err != nil {
			return err
		}
	} else {
		if t.buffer, err = buffer.New(bc); err != nil {
			return err
		}
		if err := t.dir.DropStepsAfter(0); err != nil {
			return err
		}
	}
	t.current.Store(int64(state.Step) + 1)
	for _, k := range t.Skills {
		k.begin(t.buffer.Upcoming())
	}
	if err := t.noteResumed(state.Step + 1); err != nil {
		return err
	}
	if err := t.dir.WriteFile("config.toml", resolved); err != nil {
		return err
	}
	// What separated the episodes from the machine belongs to what the run is worth.
	if err := t.dir.WriteJSON("isolation.json", t.Driver.Isolation()); err != nil {
		return err
	}
	if err := t.dir.WriteJSON("decontamination.json", t.cleaned); err != nil {
		return err
	}
	return t.dir.WriteFile("plugins.lock", t.Lock())
}

// loop dispatches from a step to the last.
func (t *trainer) loop(ctx context.Context, first int) error {
	c := t.Config
	if first > c.Run.Steps {
		return nil
	}
	skills := map[string]*Skill{}
	for _, k := range t.Skills {
		skills[k.Name] = k
	}
	parts := dispatch.Parts[*Played]{
		Source:  groups{t.buffer, skills},
		Version: func() int { return t.model.Engine.Info().Version },
		Run: func(ctx context.Context, a dispatch.Assignment) (*Played, error) {
			b := skills[a.Draw.Skill].of(a.Draw.Dispatch)
			id := fmt.Sprintf("%06d-%d", a.Draw.Dispatch, a.Index)
			e, err := t.Player.Play(ctx, t.model.Policy, b, b.Train[a.Draw.Task], id, episodeSeed(c.Run.Seed, a.Draw.Dispatch, a.Index))
			e.Step, e.Dispatch, e.Index, e.Attempt = a.Step, a.Draw.Dispatch, a.Index, a.Attempt
			t.finished(ctx, a, err)
			return e, err
		},
		Train:  t.train,
		OnStep: func(r dispatch.StepReport[*Played]) error { return t.stepped(ctx, r) },
	}
	dc := dispatch.Config{
		GroupsPerStep: c.GRPO.GroupsPerStep, GroupSize: c.GRPO.GroupSize, Concurrency: t.Concurrency(),
		MaxStaleness: c.Async.MaxStaleness, Retries: c.Async.Retries,
	}
	if t.learner.grpo.DynamicSampling {
		dc.Resample = c.GRPO.GroupsPerStep
		parts.Screen = func(g dispatch.Group[*Played]) buffer.Fate {
			if f := t.learner.judge(gather(g, c.GRPO.GroupSize)); f != grpo.TooFew {
				return buffer.Fate(f)
			}
			return buffer.Trained
		}
	}
	d, err := dispatch.New(dc, parts)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-t.drain:
			d.Drain()
		case <-stop:
		}
	}()
	t.started = time.Now()
	t.observe(Event{Kind: Started, Text: "train", Total: c.GRPO.GroupsPerStep * c.GRPO.GroupSize, Version: parts.Version(), Steps: c.Run.Steps})
	return d.Run(ctx, first, c.Run.Steps)
}

// groups is a buffer whose skills learn which groups are under way.
type groups struct {
	*buffer.Buffer
	skills map[string]*Skill
}

func (g groups) Next() buffer.Draw {
	d := g.Buffer.Next()
	g.skills[d.Skill].drawn(d.Dispatch)
	return d
}

func (g groups) Done(d buffer.Draw, f buffer.Fate) error {
	g.skills[d.Skill].ended(d.Dispatch)
	return g.Buffer.Done(d, f)
}

func (g groups) Return(d buffer.Draw) error {
	g.skills[d.Skill].ended(d.Dispatch)
	return g.Buffer.Return(d)
}

// finished counts an episode for the progress view.
func (t *trainer) finished(ctx context.Context, a dispatch.Assignment, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		t.errs[string(diag.KindOf(err))]++
		t.log.Warn("episode failed", "dispatch", a.Draw.Dispatch, "index", a.Index, "attempt", a.Attempt, "error", err)
	}
	if err == nil {
		t.done++
	}
	t.observe(Event{Kind: Finished, Text: "train", Done: t.done, Total: t.Config.GRPO.GroupsPerStep * t.Config.GRPO.GroupSize,
		Errors: maps.Clone(t.errs), Version: t.model.Engine.Info().Version, Steps: t.Config.Run.Steps})
}

func (t *trainer) lost() int {
	steps, err := t.dir.Steps()
	if err != nil {
		return 0
	}
	n := 0
	for _, s := range steps {
		for _, k := range s.Skills {
			n += k.Excluded
		}
	}
	return n
}

// gather puts a group's survivors in their places.
func gather(g dispatch.Group[*Played], size int) group {
	out := make(group, size)
	for _, e := range g.Episodes {
		out[e.Index] = e.Value
	}
	return out
}

// train makes one update and says what became of each group.
func (t *trainer) train(ctx context.Context, step int, groups []dispatch.Group[*Played]) (int, []buffer.Fate, error) {
	started := time.Now()
	fates := make([]buffer.Fate, len(groups))
	gs := make([]group, len(groups))
	for i, g := range groups {
		gs[i] = gather(g, t.Config.GRPO.GroupSize)
		switch f := t.learner.judge(gs[i]); f {
		case grpo.TooFew:
			fates[i] = buffer.Failed(worst(g))
		default:
			fates[i] = buffer.Fate(f)
		}
	}
	m := journal.Step{Step: step}
	if err := t.learner.learn(ctx, gs, step, &m); err != nil {
		return 0, nil, err
	}
	m.TrainSeconds = since(started)
	t.mu.Lock()
	t.metrics = m
	t.mu.Unlock()
	return t.model.Engine.Info().Version, fates, nil
}

// worst is the kind of a group's last failure.
func worst(g dispatch.Group[*Played]) diag.Kind {
	if n := len(g.Failures); n > 0 {
		return diag.KindOf(g.Failures[n-1].Err)
	}
	return diag.KindUnknown
}

// stepped stores a step: its folder, then the checkpoint, then what the newest
// step is. A kill between two of these repeats the step, with the same outcome.
func (t *trainer) stepped(ctx context.Context, r dispatch.StepReport[*Played]) error {
	c := t.Config
	t.mu.Lock()
	m := t.metrics
	t.metrics = journal.Step{}
	t.done = 0
	t.mu.Unlock()
	m.Step, m.Version, m.Time = r.Step, r.Version, time.Now().UTC()
	m.Skills, m.Fates, m.Errors = map[string]*journal.SkillStep{}, map[string]int{}, map[string]int{}
	for _, sh := range t.buffer.Shares() {
		m.Skills[sh.Name] = &journal.SkillStep{Weight: sh.Configured, Realised: sh.Realised, Ends: map[string]int{}}
	}
	for k, n := range r.Errors {
		m.Errors[string(k)] += n
	}
	var gs []group
	var episodes []journal.Episode
	for _, g := range r.Groups {
		m.Fates[string(g.Fate)]++
		gg := gather(g, c.GRPO.GroupSize)
		gs = append(gs, gg)
		for _, e := range gg {
			if e != nil {
				e.Fate = string(g.Fate)
				episodes = append(episodes, e.Episode)
			}
		}
		for _, f := range g.Failures {
			if f.Value != nil {
				f.Value.Fate = string(g.Fate)
				episodes = append(episodes, f.Value.Episode)
			}
			if f.Last {
				m.Skills[g.Draw.Skill].Excluded++
			}
		}
	}
	describe(&m, gs, func(i int) string { return r.Groups[i].Draw.Skill })
	t.current.Store(int64(r.Step) + 1)
	var model journal.ModelUse
	for i := range episodes {
		model.Add(episodes[i].Model)
	}
	m.Model = used(model)
	m.RolloutSeconds, m.Seconds = r.Waited.Seconds(), since(t.started)
	if err := t.dir.WriteStep(m, episodes); err != nil {
		return err
	}
	if err := t.checkpoint(r.Step); err != nil {
		return err
	}
	t.observe(Event{Kind: Stepped, Step: &m, Version: r.Version, Steps: c.Run.Steps})
	t.warn(m)
	if r.Step == c.Run.Steps || c.Eval.Every > 0 && r.Step%c.Eval.Every == 0 {
		if err := t.measure(ctx, r.Step); err != nil {
			return err
		}
	}
	t.started = time.Now()
	if r.Step < c.Run.Steps {
		t.observe(Event{Kind: Started, Text: "train", Total: c.GRPO.GroupsPerStep * c.GRPO.GroupSize, Version: r.Version, Steps: c.Run.Steps})
	}
	return nil
}

// warn speaks up when a skill hides in the filter: its filtered share over the
// last five steps is above a tenth and twice that of its first five.
func (t *trainer) warn(now journal.Step) {
	const window = 5
	if now.Step < 2*window || now.Step%window != 0 {
		return
	}
	steps, err := t.dir.Steps()
	if err != nil || len(steps) < 2*window {
		return
	}
	for name := range now.Skills {
		first, last := 0.0, 0.0
		for i := range window {
			if k := steps[i].Skills[name]; k != nil {
				first += k.Filtered / window
			}
			if k := steps[len(steps)-1-i].Skills[name]; k != nil {
				last += k.Filtered / window
			}
		}
		if last > 0.1 && last > 2*first {
			t.observe(Event{Kind: Warned, Text: fmt.Sprintf("%s: %.0f%% of the episodes are filtered, %.0f%% at the start; count their ends as failures ([grpo] filter)", name, 100*last, 100*first)})
		}
	}
}

// checkpoint makes the folder from which the run can go on appear, and removes
// those that nothing needs any more.
func (t *trainer) checkpoint(step int) error {
	final := t.dir.CheckpointDir(step)
	fail := func(err error) error { return diag.Wrap(diag.KindData, "write checkpoint", final, err) }
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return fail(err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), ".new-*")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(tmp)
	if err := t.model.Engine.Save(tmp); err != nil {
		return fail(err)
	}
	if err := t.model.Tokenizer.Save(tmp); err != nil {
		return fail(err)
	}
	sum, err := fileDigest(filepath.Join(tmp, "model.safetensors"))
	if err != nil {
		return fail(err)
	}
	state := journal.State{Step: step, Checkpoint: step, Weights: sum, Time: time.Now().UTC(), Fates: map[string]int64{}}
	if state.Buffer, err = t.buffer.State(); err != nil {
		return fail(err)
	}
	books := t.buffer.Ledger()
	state.Dispatched = books.Dispatched
	for f, n := range books.Fates {
		state.Fates[string(f)] = n
	}
	if err := journal.Dir(tmp).WriteJSON("state.json", state); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(tmp, 0o755), os.RemoveAll(final), os.Rename(tmp, final)); err != nil {
		return fail(err)
	}
	if err := t.dir.WriteJSON("state.json", state); err != nil {
		return err
	}
	return t.prune(step)
}

// prune keeps the two newest checkpoints and those that were measured.
func (t *trainer) prune(step int) error {
	ns, err := checkpoints(t.dir)
	if err != nil {
		return err
	}
	for _, n := range ns {
		measured := t.Config.Eval.Every > 0 && n%t.Config.Eval.Every == 0
		if n < step-1 && !measured {
			if err := os.RemoveAll(t.dir.CheckpointDir(n)); err != nil {
				return diag.Wrap(diag.KindData, "remove checkpoint", t.dir.CheckpointDir(n), err)
			}
		}
	}
	return nil
}

// checkpoints lists the steps that have a complete checkpoint, oldest first.
func checkpoints(dir journal.Dir) ([]int, error) {
	es, err := os.ReadDir(dir.Path("checkpoints"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read checkpoints", string(dir), err)
	}
	var out []int
	for _, e := range es {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%06d", &n); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir.CheckpointDir(n), "state.json")); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// newest is the state of the newest checkpoint; ok is false when there is none.
func newest(dir journal.Dir) (s journal.State, ok bool, err error) {
	ns, err := checkpoints(dir)
	if err != nil || len(ns) == 0 {
		return journal.State{}, false, err
	}
	return journal.Dir(dir.CheckpointDir(ns[len(ns)-1])).State()
}

// measure evaluates every split, unless a step's evaluation is already stored. The
// wish to stop ends it at once: an evaluation is stored whole or not at all, and
// the next process makes it anew.
func (t *trainer) measure(ctx context.Context, step int) error {
	if step != 0 && step != t.Config.Run.Steps && (t.Config.Eval.Every == 0 || step%t.Config.Eval.Every != 0) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-t.drain:
			cancel(diag.Errorf(diag.KindInterrupted, "measure", fmt.Sprintf("step %d", step), "stopped on request"))
		case <-ctx.Done():
		}
	}()
	for _, split := range t.Splits() {
		if _, ok, err := t.dir.Eval(step, split); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		e, episodes, err := t.Measure(ctx, t.model.Policy, split, step, t.Config.Eval.Runs)
		if err != nil {
			return err
		}
		if err := t.dir.WriteEval(e, episodes); err != nil {
			return err
		}
	}
	return nil
}
