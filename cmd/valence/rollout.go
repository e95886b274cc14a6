package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/report"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/sdk"
)

// played is the result of rollout: one episode with everything in it. Its turns have
// been shown already when it is written as a table.
type played struct{ journal.Episode }

func (e played) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s after %d turns, %d tokens sampled, %.1f s\n", p.in(p.bold, "end"), e.End, e.Turns, e.SampledTokens, e.Seconds)
	if e.Server != nil {
		fmt.Fprintf(w, "%s %s\n", p.in(p.bold, "server"), report.ServerUse(*e.Server))
	}
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
		Short: "Play one task and show it as it happens",
		Args:  cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	fl := cmd.Flags()
	fl.Var(&choice{&policyName, run.Policies}, "policy", "who answers: "+strings.Join(run.Policies, ", ")+"; default: [policy] kind")
	fl.StringVar(&dir, "path", "", "policy `folder`, or recordings, in place of the configured ones")
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
		p, err := s.OpenPolicy(cmd.Context(), policyName, dir)
		if err != nil {
			return err
		}
		b, t, err := find(s, p, skill, key)
		if err != nil {
			return err
		}
		view.close()
		player := *s.Player
		player.Rollout.Watch = a.stage(t)
		e, err := player.Play(cmd.Context(), p, b, t, "rollout", seed)
		if e == nil {
			return err
		}
		if perr := a.out.result(played{e.Episode}); perr != nil {
			return perr
		}
		return err
	}
	return cmd
}

// find picks a task by key, or the first of a skill, or the first of all; of recordings,
// the first that was recorded.
func find(s *run.Setup, p policy.Policy, skill, key string) (*run.Binding, *sdk.Task, error) {
	some, chosen := p.(interface{ Has(*sdk.Task) bool })
	var first *sdk.Task
	var of *run.Binding
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
			if t.Key == key || key == "" && (!chosen || some.Has(t)) {
				return b, t, nil
			}
			if key == "" && first == nil {
				of, first = b, t
			}
		}
	}
	if first != nil {
		return of, first, nil // which the policy refuses, and says what it has
	}
	return nil, nil, diag.Errorf(diag.KindConfig, "find task", skill+key, "no such skill or task; `valence train --dry-run` lists the skills, and a task's key is skill/record")
}
