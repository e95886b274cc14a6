package run

import (
	"bytes"
	"cmp"
	"context"
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
	for i := range s.Config.Sources {
		src := &s.Config.Sources[i]
		seed := s.Config.Run.Seed
		if src.Seed != nil {
			seed = *src.Seed
		}
		items, err := pocket.Generate(ctx, s.python, pocket.Options{Seed: seed, Count: src.Count, Split: src.Split, Shape: src.Shape})
		if err != nil {
			return err
		}
		s.items = append(s.items, items...)
		for _, k := range s.Skills {
			if len(src.Skills) > 0 && !slices.Contains(src.Skills, k.Name) {
				continue
			}
			records := make([]record, len(items))
			for i := range items {
				records[i] = record{&items[i].Record, seed}
			}
			training := src.Use == "train" || src.Use == "" && src.Split == "train"
			if training {
				k.records = append(k.records, records...)
				if unbuilt {
					continue
				}
			}
			if training {
				tasks, err := s.build(ctx, k, records)
				if err != nil {
					return err
				}
				k.Train = append(k.Train, tasks...)
			} else if k.Eval[src.Split], err = s.measured(ctx, k, src.Split, records); err != nil {
				return err
			}
		}
	}
	for _, k := range s.Skills {
		if k.Weight > 0 && len(k.records) == 0 && s.trains() {
			return diag.Errorf(diag.KindConfig, "build tasks", k.Name, "no source gives this skill a training task; add a [[source]] whose skills include it")
		}
	}
	return nil
}

// measured adds a source's tasks to those of a split, no more than are measured.
func (s *Setup) measured(ctx context.Context, k *Skill, split string, records []record) ([]*sdk.Task, error) {
	tasks, limit := k.Eval[split], s.Config.Eval.Tasks
	if want := s.Config.Eval.Splits; len(want) > 0 && !slices.Contains(want, split) {
		return tasks, nil
	}
	for chunk := range slices.Chunk(records, 32) {
		if limit > 0 && len(tasks) >= limit {
			break
		}
		more, err := s.build(ctx, k, chunk)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, more...)
	}
	if limit > 0 {
		tasks = tasks[:min(limit, len(tasks))]
	}
	return tasks, nil
}

// trains says whether the configuration has training sources at all; one that
// only measures needs none.
func (s *Setup) trains() bool {
	return slices.ContainsFunc(s.Config.Sources, func(src config.Source) bool {
		return src.Use == "train" || src.Use == "" && src.Split == "train"
	})
}

func (s *Setup) build(ctx context.Context, k *Skill, records []record) ([]*sdk.Task, error) {
	template, err := s.template(k.Name)
	if err != nil {
		return nil, err
	}
	made := make([][]sdk.Task, len(records))
	err = each(ctx, len(records), runtime.GOMAXPROCS(0), func(ctx context.Context, i int) error {
		r := records[i]
		res, err := k.Plugin.Build(ctx, &sdk.BuildRequest{Record: *r.Record, Template: template, Config: k.Scorer.Config, Seed: seedOf(r.seed, "build", k.Name, r.ID)})
		if err != nil {
			return diag.Wrap(diag.KindPlugin, "build task", k.Name+"/"+r.ID, err)
		}
		made[i] = res.Tasks
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []*sdk.Task
	for i := range made {
		for j := range made[i] {
			out = append(out, &made[i][j])
		}
	}
	return out, nil
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
	box, err := s.Driver.Create(ctx, sandbox.Spec{Name: "generate", Limits: sandbox.Limits{
		Memory: 1 << 30, CPUs: 1, Output: 256 << 20, Command: 10 * time.Minute,
	}})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	r, err := box.Exec(ctx, sandbox.Command{Args: []string{"python3", "-I", "-S", "-c", script}, Stdin: stdin})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 || r.TimedOut || r.Truncated {
		return nil, diag.Errorf(diag.KindSandbox, "run generator", "python3", "exit %d, timed out %t: %s", r.ExitCode, r.TimedOut, tail(r.Output))
	}
	return r.Output, nil
}

func tail(b []byte) string {
	if len(b) > 500 {
		b = b[len(b)-500:]
	}
	return string(bytes.TrimSpace(b))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
