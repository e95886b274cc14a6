package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/report"
	"github.com/valence-rl/valence/core/run"
)

// rejudged is the result of rejudge.
type rejudged struct {
	*run.Rejudged
	Shown int `json:"-"` // how many differences the table has at most
}

func (r rejudged) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s of %s, steps %d to %d: %d episodes scored again\n", p.in(p.bold, r.Skill), r.Run, r.First, r.Last, r.Episodes)
	for _, v := range r.Before {
		fmt.Fprintf(w, "  before  %s  %d episodes\n", madeBy(v.Plugins), v.Episodes)
	}
	fmt.Fprintf(w, "  after   %s\n", madeBy(r.After))
	if r.Episodes > 0 {
		r.figures(w, p)
	}
	if len(r.Errors) > 0 {
		first, _, _ := strings.Cut(r.Failure, "\n")
		fmt.Fprintf(w, "\n%s episodes without a verdict, because the infrastructure failed: %s; they are not counted above\n  the first: %s\n", p.in(p.yellow, "warning:"), tally(r.Errors), first)
	}
	if r.Model != nil {
		fmt.Fprintf(w, "\nmodel: %s\n", report.ModelUse(*r.Model))
	}
	if len(r.Differ) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := grid{head: []string{"EPISODE", "STEP", "TASK", "BEFORE", "AFTER", "REASONS"}, left: map[int]bool{2: true, 5: true}}
	for i, d := range r.Differ {
		if i == r.Shown {
			break
		}
		g.add(d.ID, fmt.Sprint(d.Step), d.Task, fmt.Sprintf("%g", d.Before), fmt.Sprintf("%g", d.After), oneLine(d.BeforeReason)+" → "+oneLine(d.AfterReason))
	}
	g.write(w, p)
	if more := len(r.Differ) - r.Shown; more > 0 {
		fmt.Fprintf(w, "and %d more; --limit shows them\n", more)
	}
}

func (r rejudged) figures(w io.Writer, p palette) {
	kappa := "undefined: one answer throughout"
	if k := r.Agreement.Kappa; k != nil {
		kappa = fmt.Sprintf("%.3f", *k)
	}
	n := float64(r.Episodes)
	fmt.Fprintln(w)
	g := grid{left: map[int]bool{1: true}}
	g.add("agreement", fmt.Sprintf("%.1f%%, Cohen's kappa %s", 100*r.Agreement.Share, kappa))
	if d := r.Agreement.Apart; d != nil {
		g.add("difference", fmt.Sprintf("%.3f on average; %d of %d the same", *d, r.Agreement.Exact, r.Episodes))
	}
	g.add("mean score", fmt.Sprintf("%.3f → %.3f", r.Scores[0], r.Scores[1]))
	g.add("rewards", fmt.Sprintf("%d of %d changed, by %.3f on average over all", r.Rewards.Changed, r.Episodes, r.Rewards.Mean))
	g.add("advantages", fmt.Sprintf("%d changed, by %.3f on average over all; %d (%.1f%%) change sign", r.Advantages.Changed, r.Advantages.Mean, r.Advantages.Flips, 100*float64(r.Advantages.Flips)/n))
	g.add("groups", fmt.Sprintf("%d, with a signal %d → %d", r.Advantages.Groups, r.Advantages.Signal[0], r.Advantages.Signal[1]))
	g.write(w, p)
	fmt.Fprintln(w)
	t := grid{head: []string{"before \\ after", "below 0.5", "0.5 and above"}}
	for i, name := range []string{"below 0.5", "0.5 and above"} {
		t.add(name, fmt.Sprint(r.Agreement.Table[i][0]), fmt.Sprint(r.Agreement.Table[i][1]))
	}
	t.write(w, p)
}

// madeBy names what made verdicts.
func madeBy(plugins map[string]string) string {
	var out []string
	for _, role := range slices.Sorted(maps.Keys(plugins)) {
		out = append(out, role+" "+short(plugins[role]))
	}
	return strings.Join(out, ", ")
}

func oneLine(s string) string { return clip(strings.Join(strings.Fields(s), " "), 60) }

func newRejudgeCommand(a *app) *cobra.Command {
	o := run.RejudgeOptions{}
	var steps, out string
	var limit int
	cmd := &cobra.Command{
		Use:   "rejudge RUN --skill NAME",
		Short: "Score stored episodes again, by another judge or evaluator, and compare",
		Long: `Score the stored training episodes of a run again, by another judge or evaluator, and
compare: agreement, Cohen's kappa, changed rewards, and what the change would have done
to the advantages. Without --judge and --evaluator the run's own score again, which
shows whether verdicts repeat. The run stays as it is.`,
		Example: `  valence rejudge runs/quickstart --skill repro --judge judges/strict
  valence rejudge runs/quickstart --skill repro --judge plugins/judges/llm \
      --set model.base_url=http://127.0.0.1:8000/v1 --set model.name=qwen3-32b
  valence rejudge runs/quickstart --skill repro --step 10..20 -n 200 -o json`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Skill, "skill", "", "the skill whose episodes are scored")
	fl.StringVar(&o.Judge, "judge", "", "another judge: a folder, a .wasm file or name@version")
	fl.StringVar(&o.Evaluator, "evaluator", "", "another plugin of the skill")
	fl.StringArrayVar(&o.Sets, "set", nil, "override a key of the run's configuration, `section.key=value`; may be repeated")
	fl.StringVar(&steps, "step", "", "training steps, `A..B`, either of which may be left out, or A alone; default: all")
	fl.IntVarP(&o.Episodes, "episodes", "n", 0, "stop at the first group that makes so many episodes; default: all")
	fl.IntVar(&limit, "limit", 20, "how many differing episodes the table lists")
	fl.StringVar(&out, "out", "", "also write the result as JSON to this `file`")
	cmd.MarkFlagRequired("skill")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if o.First, o.Last, err = stepRange(steps); err != nil {
			return err
		}
		view := a.newView(&config.Config{})
		defer view.close()
		o.Log, o.Observe = a.logger(), view.observe
		r, err := run.Rejudge(cmd.Context(), journal.Dir(args[0]), o)
		if err != nil {
			return err
		}
		view.close()
		if out != "" {
			b, err := json.MarshalIndent(r, "", "  ")
			if err == nil {
				err = journal.Dir(filepath.Dir(out)).WriteFile(filepath.Base(out), append(b, '\n'))
			}
			if err != nil {
				return diag.Wrap(diag.KindData, "write result", out, err)
			}
		}
		if err := a.out.result(rejudged{r, limit}); err != nil {
			return err
		}
		if len(r.Errors) > 0 {
			return statusLosses
		}
		return nil
	}
	return cmd
}

// stepRange reads A..B, A.., ..B or A; 0 stands for a side that is left out.
func stepRange(text string) (first, last int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	a, b, both := strings.Cut(text, "..")
	if !both {
		b = a
	}
	for _, side := range []struct {
		text string
		to   *int
	}{{a, &first}, {b, &last}} {
		if side.text == "" && both {
			continue
		}
		if *side.to, err = strconv.Atoi(side.text); err != nil || *side.to < 1 {
			return 0, 0, diag.Errorf(diag.KindConfig, "read --step", text, "want A..B, such as 10..20; steps count from 1")
		}
	}
	if last > 0 && first > last {
		return 0, 0, diag.Errorf(diag.KindConfig, "read --step", text, "it ends before it begins")
	}
	return first, last, nil
}
