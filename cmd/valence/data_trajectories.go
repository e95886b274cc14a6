package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/report"
	"github.com/valence-rl/valence/core/run"
)

// gathered is the result of data trajectories.
type gathered struct{ *run.Trajectories }

func (r gathered) table(w io.Writer, p palette) {
	g := grid{head: []string{"SKILL", "KEPT", "OF", "TRIED", "TASKS", "WRONG", "UNFINISHED", "DUPLICATE", "EXCLUDED", "FAILED ATTEMPTS"}, left: map[int]bool{9: true}}
	for _, s := range r.Skills {
		g.add(s.Name, fmt.Sprint(s.Kept), fmt.Sprint(s.Want), fmt.Sprint(s.Tried), fmt.Sprint(s.Tasks), fmt.Sprint(s.Wrong),
			fmt.Sprint(s.Unfinished), fmt.Sprint(s.Duplicate), fmt.Sprint(s.Excluded), tally(s.Failed))
	}
	g.write(w, p)
	if r.Server != nil {
		fmt.Fprintf(w, "server: %s\n", report.ServerUse(*r.Server))
	}
	if r.Model != nil {
		fmt.Fprintf(w, "model: %s\n", report.ModelUse(*r.Model))
	}
	if r.Stopped == run.StoppedByBudget {
		fmt.Fprintf(w, "%s the budget is spent; a larger one goes on\n", p.in(p.yellow, "stopped"))
	}
	for _, s := range r.Skills {
		if s.Short() && r.Stopped == "" {
			fmt.Fprintf(w, "%s %s: %d of %d; more records, or more --tries of each task, give more\n", p.in(p.yellow, "short"), s.Name, s.Kept, s.Want)
		}
	}
	fmt.Fprintf(w, "%s %s\n", p.in(p.bold, "kept in"), r.Out)
}

func newDataTrajectoriesCommand(a *app) *cobra.Command {
	var o run.TrajectoryOptions
	var policyName string
	var budget budgetFlag
	cmd := &cobra.Command{
		Use:   "trajectories -c FILE --out FOLDER",
		Short: "Gather a policy's verified trajectories, and write them for others",
		Long: `Gather trajectories to learn from: play a policy on the training tasks of every skill and
keep what the skill's evaluator, with its judge, scores 1; none twice. Every task is tried
once in the order of the records, then again up to --tries times, until there are enough.

The folder has FOLDER/SKILL.episodes.jsonl.zst with what is kept, which valence sft and
valence data trajectories export read, and every try under FOLDER/tries. The same command
goes on where it was, after a kill too. The first interrupt lets what is under way end.

Exit code 4: a skill has fewer than were asked for; 3: the infrastructure failed some.`,
		Example: `  valence data trajectories -c run.toml --policy openai --per-skill 300 --tries 4 --budget 20usd --out demos
  valence data trajectories export demos --format messages --out demos.jsonl
  valence sft -c sft.toml demos`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(newDataTrajectoriesExportCommand(a))
	f := a.configFlags(cmd)
	fl := cmd.Flags()
	fl.Var(&choice{&policyName, run.Policies}, "policy", "who plays: "+strings.Join(run.Policies, ", ")+"; default: [policy] kind")
	fl.StringVar(&o.Path, "path", "", "policy `folder`, or recordings, in place of the configured ones")
	fl.StringVar(&o.Out, "out", "", "the `folder` that keeps them")
	fl.IntVar(&o.PerSkill, "per-skill", 0, "trajectories of each skill; default: [sft] per_skill")
	fl.IntVar(&o.Tries, "tries", 1, "tries of each task at most")
	fl.StringArrayVar(&o.Skills, "skill", nil, "gather for this skill only, by its `name`; may be repeated (default: all that are trained)")
	fl.Var(&budget, "budget", "start nothing more when the policy has taken this: 20usd, at the prices of [server], or 5Mtokens, read and written")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return needsVerb(cmd, args)
		}
		if o.Out == "" {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "D011", Summary: "no folder to write", Hint: "name it with --out FOLDER"}
		}
		if o.PerSkill < 0 || o.Tries < 1 {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C040", Summary: "--per-skill and --tries count from 1"}
		}
		o.Budget = run.Budget(budget)
		s, view, err := a.open(cmd.Context(), f, run.Options{Unbuilt: true})
		if err != nil {
			return err
		}
		defer view.close()
		defer s.Close()
		if o.PerSkill == 0 {
			o.PerSkill = s.Config.SFT.PerSkill
		}
		if o.Policy, err = s.OpenPolicy(cmd.Context(), policyName, o.Path); err != nil {
			return err
		}
		view.close()
		g := a.newGauge("trajectories")
		o.Drain = a.drain()
		o.Heard = func(h run.Gathering) {
			text := fmt.Sprintf("%d of %d kept, %d tried", h.Kept, h.Want, h.Tried)
			if e := tally(h.Errors); e != "" {
				text += ", failed attempts " + e
			}
			g.set(int64(h.Kept), int64(h.Want), text)
			a.out.event("try", map[string]any{"task": h.Episode.Task, "try": h.Episode.Index, "state": h.State, "score": h.Episode.Score, "error": h.Episode.Error})
		}
		r, err := s.Gather(cmd.Context(), o)
		g.close()
		if err != nil {
			return err
		}
		if err := a.out.result(gathered{r}); err != nil {
			return err
		}
		status := exitStatus(0)
		for _, k := range r.Skills {
			switch {
			case k.Short():
				status = statusGate
			case k.Excluded > 0 && status == 0:
				status = statusLosses
			}
		}
		if status != 0 {
			return status
		}
		return nil
	}
	return cmd
}

// budgetFlag is a flag that takes a bound in money or in tokens.
type budgetFlag run.Budget

func (b *budgetFlag) Type() string { return "AMOUNT" }

func (b *budgetFlag) String() string {
	switch {
	case b.Cost > 0:
		return strconv.FormatFloat(b.Cost, 'g', -1, 64) + "usd"
	case b.Tokens > 0:
		return strconv.FormatInt(b.Tokens, 10) + "tokens"
	}
	return ""
}

func (b *budgetFlag) Set(s string) error {
	text := strings.ToLower(strings.ReplaceAll(s, " ", ""))
	number, money := strings.CutSuffix(text, "usd")
	scale := 1.0
	if !money {
		var ok bool
		if number, ok = strings.CutSuffix(text, "tokens"); !ok {
			return fmt.Errorf("%q has no unit; want e.g. 20usd or 5Mtokens", s)
		}
		for suffix, by := range map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9} {
			if n, ok := strings.CutSuffix(number, suffix); ok {
				number, scale = n, by
			}
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if x *= scale; err != nil || !(x > 0) || x > 1e15 || !money && x < 1 {
		return fmt.Errorf("%q is no amount; want e.g. 20usd or 5Mtokens", s)
	}
	*b = budgetFlag{Cost: x}
	if !money {
		*b = budgetFlag{Tokens: int64(x)}
	}
	return nil
}
