package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/sdk"
)

// played is the result of rollout: one episode with everything in it.
type played struct {
	journal.Episode
	prompt string
}

func (e played) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s\n", p.in(p.bold, "task"), e.Task)
	indented(w, e.prompt)
	if e.Trajectory != nil {
		for _, s := range e.Trajectory.Steps {
			if s.Source == "agent" {
				turn(w, p, s)
			}
		}
	}
	fmt.Fprintf(w, "%s %s after %d turns, %d tokens sampled, %.1f s\n", p.in(p.bold, "end"), e.End, e.Turns, e.SampledTokens, e.Seconds)
	if e.Output != nil {
		for _, c := range e.Output.Changes {
			fmt.Fprintf(w, "%s %s\n", p.in(p.bold, "output"), c.Path)
			if c.Deleted {
				indented(w, "(deleted)")
			} else {
				indented(w, string(c.Data))
			}
		}
		for _, o := range e.Output.Outside {
			fmt.Fprintf(w, "%s %s, outside what the task collects\n", p.in(p.bold, "output"), o)
		}
	}
	if e.Outcome != journal.Scored {
		fmt.Fprintf(w, "%s %s: %s\n", p.in(p.red, "no verdict"), e.Outcome, e.Error)
		return
	}
	fmt.Fprintf(w, "%s score %g: %s\n", p.in(p.bold, "verdict"), e.Score, e.Reason)
	for _, c := range e.Components {
		fmt.Fprintf(w, "    %s %g\n", c.Name, c.Value)
	}
}

func turn(w io.Writer, p palette, s atif.Step) {
	for _, c := range s.ToolCalls {
		fmt.Fprintf(w, "%s %s\n", p.in(p.bold, "agent calls"), c.Function)
		keys := make([]string, 0, len(c.Arguments))
		for k := range c.Arguments {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			indented(w, fmt.Sprintf("%s: %v", k, c.Arguments[k]))
		}
	}
	if len(s.ToolCalls) == 0 {
		fmt.Fprintf(w, "%s\n", p.in(p.bold, "agent says"))
		indented(w, s.Message)
	}
	if s.Observation != nil {
		for _, o := range s.Observation.Results {
			fmt.Fprintf(w, "%s\n", p.in(p.bold, "answer"))
			indented(w, o.Content)
		}
	}
}

func indented(w io.Writer, text string) {
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(w, "    %s\n", l)
	}
}

func newRolloutCommand(a *app) *cobra.Command {
	var policyName, dir, skill, key string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "rollout -c FILE [--skill NAME | --task KEY]",
		Short: "Play one task and show everything",
		Args:  cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	fl := cmd.Flags()
	policyName = "engine"
	fl.Var(&choice{&policyName, run.Policies}, "policy", "who answers: engine, oracle, noop, random or expert")
	fl.StringVar(&dir, "path", "", "policy `folder` in place of the configured one")
	fl.StringVar(&skill, "skill", "", "the first evaluation task of this skill, or the first training task if it has none")
	fl.StringVar(&key, "task", "", "the task with this key")
	fl.Uint64Var(&seed, "seed", 1, "seed of the sampling")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, view, err := a.open(cmd.Context(), f, run.Options{})
		if err != nil {
			return err
		}
		defer view.close()
		defer s.Close()
		b, t, err := find(s, skill, key)
		if err != nil {
			return err
		}
		p, err := s.OpenPolicy(policyName, dir)
		if err != nil {
			return err
		}
		e, err := s.Player.Play(cmd.Context(), p, b, t, "rollout", seed)
		view.close()
		if e == nil {
			return err
		}
		if perr := a.out.result(played{e.Episode, t.Prompt}); perr != nil {
			return perr
		}
		return err
	}
	return cmd
}

// find picks a task by key, or the first of a skill, or the first of all.
func find(s *run.Setup, skill, key string) (*run.Binding, *sdk.Task, error) {
	for _, k := range s.Skills {
		if skill != "" && k.Name != skill {
			continue
		}
		b := k.Binding()
		var all []*sdk.Task
		for _, split := range s.Splits() {
			all = append(all, b.Eval[split]...)
		}
		all = append(all, b.Train...)
		for _, t := range all {
			if key == "" || t.Key == key {
				return b, t, nil
			}
		}
	}
	return nil, nil, diag.Errorf(diag.KindConfig, "find task", skill+key, "no such skill or task; `valence train --dry-run` lists the skills, and a task's key is skill/record")
}
