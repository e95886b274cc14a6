package run

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/pocket"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// record is one item of a source with the seed that its tasks are built from.
type record struct {
	*sdk.Record
	seed uint64
}

// buildTasks reads every source and asks each skill's builder for tasks; those to
// train on only if they are not to be left unbuilt.
func (s *Setup) buildTasks(ctx context.Context, unbuilt bool) error {
	drawn := make([][]record, len(s.Config.Sources))
	for i := range s.Config.Sources {
		var err error
		if drawn[i], err = s.read(ctx, &s.Config.Sources[i]); err != nil {
			return err
		}
	}
	if err := s.decontaminate(ctx, drawn); err != nil {
		return err
	}
	tools := NewTools(s.Driver, s.log)
	for _, records := range drawn {
		for _, r := range records {
			if err := tools.PrepareRecord(ctx, r.Record); err != nil {
				return err
			}
		}
	}
	for i := range s.Config.Sources {
		s.serve(&s.Config.Sources[i], drawn[i])
	}
	for _, k := range s.Skills {
		if k.Weight > 0 && len(k.records) == 0 && s.trains() {
			return diag.Errorf(diag.KindConfig, "build tasks", k.Name, "no source gives this skill a training task; add a [[source]] whose skills include it")
		}
		b := k.Binding()
		var err error
		if !unbuilt {
			if b.Train, err = s.build(ctx, b, k.records); err != nil {
				return err
			}
		}
		if b.Eval, err = s.measured(ctx, b, k.held); err != nil {
			return err
		}
	}
	return nil
}

// read generates a source's records, or reads them from its file.
func (s *Setup) read(ctx context.Context, src *config.Source) ([]record, error) {
	if src.Kind == "records" {
		return s.readFile(ctx, src)
	}
	seed := src.SeedOr(s.Config.Run.Seed)
	items, err := pocket.Generate(ctx, s.python, pocket.Options{Seed: seed, Count: src.Count, Split: src.Split, Shape: src.Shape})
	if err != nil {
		return nil, err
	}
	s.items = append(s.items, items...)
	out := make([]record, len(items))
	for i := range items {
		out[i] = record{&items[i].Record, seed}
	}
	return out, nil
}

// trainedOn says whether a source's records are trained on.
func trainedOn(src *config.Source) bool {
	return src.Use == "train" || src.Use == "" && src.Split == "train"
}

// serve hands a source's records to the skills that draw from it.
func (s *Setup) serve(src *config.Source, drawn []record) {
	for _, k := range s.Skills {
		switch {
		case len(src.Skills) > 0 && !slices.Contains(src.Skills, k.Name):
		case trainedOn(src):
			k.records = append(k.records, drawn...)
		default:
			k.held[src.Split] = append(k.held[src.Split], drawn...)
		}
	}
}

// measured builds the tasks of each split, no more than are measured.
func (s *Setup) measured(ctx context.Context, b *Binding, held map[string][]record) (map[string][]*sdk.Task, error) {
	want, limit := s.Config.Eval.Splits, s.Config.Eval.Tasks
	out := map[string][]*sdk.Task{}
	for _, split := range sortedKeys(held) {
		var tasks []*sdk.Task
		for chunk := range slices.Chunk(held[split], 32) {
			if len(want) > 0 && !slices.Contains(want, split) || limit > 0 && len(tasks) >= limit {
				break
			}
			more, err := s.build(ctx, b, chunk)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, more...)
		}
		if limit > 0 {
			tasks = tasks[:min(limit, len(tasks))]
		}
		out[split] = tasks
	}
	return out, nil
}

// trains says whether the configuration has training sources at all; one that
// only measures needs none.
func (s *Setup) trains() bool {
	return slices.ContainsFunc(s.Config.Sources, func(src config.Source) bool { return trainedOn(&src) })
}

// build asks a binding's plugin for the tasks of records, in their order.
func (s *Setup) build(ctx context.Context, b *Binding, records []record) ([]*sdk.Task, error) {
	template, err := s.template(b.Skill)
	if err != nil {
		return nil, err
	}
	made := make([]*sdk.BuildResponse, len(records))
	var meter scoring.Meter
	err = each(ctx, len(records), runtime.GOMAXPROCS(0), func(ctx context.Context, i int) error {
		r := records[i]
		res, err := b.Plugin.Build(ctx, b.Scorer.Building(&meter), &sdk.BuildRequest{Record: *r.Record, Template: template, Config: b.Scorer.Config, Seed: seedOf(r.seed, "build", b.Skill, r.ID)})
		if err != nil {
			return diag.Wrap(diag.KindPlugin, "build task", b.Skill+"/"+r.ID, err)
		}
		made[i] = res
		return nil
	})
	if err != nil {
		return nil, err
	}
	u := meter.Use()
	asked := u.Calls+u.Cached > 0
	if asked {
		s.log.Info("the model was asked while tasks were built", "skill", b.Skill, "records", len(records), "calls", u.Calls, "cached", u.Cached, "failures", u.Failures, "cost", u.Cost)
	}
	var out []*sdk.Task
	reasons := map[string]int{}
	for i := range made {
		for j := range made[i].Tasks {
			out = append(out, &made[i].Tasks[j])
		}
		if len(made[i].Tasks) == 0 {
			reasons[made[i].Skipped]++
		}
	}
	s.noteSkipped(b.Skill, len(records), reasons, asked)
	return out, nil
}

// noteSkipped says how many records gave no task and why most of them did not; loudly
// if none gave any, or if the model was asked: what it could not do is no property of
// the records.
func (s *Setup) noteSkipped(skill string, records int, reasons map[string]int, asked bool) {
	if len(reasons) == 0 {
		return
	}
	skipped, most := 0, ""
	for _, reason := range sortedKeys(reasons) {
		skipped += reasons[reason]
		if reasons[reason] > reasons[most] {
			most = reason
		}
	}
	level, text := slog.LevelInfo, "records that give no task"
	if asked {
		level = slog.LevelWarn
	}
	if skipped == records {
		level, text = slog.LevelWarn, "no record gives a task"
	}
	s.log.Log(context.Background(), level, text, "skill", skill, "records", records, "without", skipped, "reason", cmp.Or(most, "the plugin says none"))
}

// template is what the builder is given: a form's name or a file's text.
func (s *Setup) template(skill string) (string, error) {
	t := s.Config.Rollout.Prompt
	for _, k := range s.Config.Skills {
		if k.Name == skill {
			t = cmp.Or(k.Prompt, t)
		}
	}
	for _, k := range s.Config.Suites {
		if k.Name == skill {
			t = cmp.Or(k.Prompt, t)
		}
	}
	if t == "full" || t == "brief" {
		return t, nil
	}
	b, err := os.ReadFile(t)
	if err != nil {
		return "", diag.Wrap(diag.KindConfig, "read prompt template", t, err)
	}
	if !strings.ContainsAny(string(b), "\n{") {
		return string(b) + "\n", nil
	}
	return string(b), nil
}

// python runs a program of a generator in a sandbox.
func (s *Setup) python(ctx context.Context, script string, stdin []byte) ([]byte, error) {
	var r sandbox.Result
	var err error
	for attempt := 0; ; attempt++ {
		if r, err = s.generate(ctx, script, stdin); diag.KindOf(err) != diag.KindSandbox || attempt >= s.retries() || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 || r.TimedOut || r.Truncated {
		return nil, diag.Errorf(diag.KindSandbox, "run generator", "python3", "exit %d, timed out %t: %s", r.ExitCode, r.TimedOut, tail(r.Output))
	}
	return r.Output, nil
}

func (s *Setup) generate(ctx context.Context, script string, stdin []byte) (sandbox.Result, error) {
	box, err := s.Driver.Create(ctx, sandbox.Spec{Name: "generate", Limits: sandbox.Limits{
		Memory: 1 << 30, CPUs: 1, Output: 256 << 20, Command: 10 * time.Minute,
	}})
	if err != nil {
		return sandbox.Result{}, err
	}
	defer box.Close()
	return box.Exec(ctx, sandbox.Command{Args: []string{"python3", "-I", "-S", "-c", script}, Stdin: stdin})
}

// retries is how often a run that nothing outlives is begun again when its sandbox
// failed: pods also go because of their cluster.
func (s *Setup) retries() int {
	if s.Config.Sandbox.Driver == "kube" {
		return s.Config.Async.Retries
	}
	return 0
}

func tail(b []byte) string {
	if len(b) > 500 {
		b = b[len(b)-500:]
	}
	return string(bytes.TrimSpace(b))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
