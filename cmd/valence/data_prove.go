package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/prove"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// proved is the result of data prove.
type proved struct {
	Records int            `json:"records"`
	Repeats int            `json:"repeats"`
	Skills  []*prove.Skill `json:"skills"`
	Seconds float64        `json:"seconds"`
	verbose bool
}

func (r proved) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s\n", p.in(p.bold, fmt.Sprintf("%-14s %6s %12s %12s %12s", "SKILL", "TASKS", "ORACLE = 1", "NO-OP = 0", "NO REFERENCE")))
	for _, s := range r.Skills {
		fmt.Fprintf(w, "%-14s %6d %12d %12d %12d\n", s.Name, s.Tasks, s.Oracle, s.Noop, s.Without)
		for _, why := range slices.Sorted(maps.Keys(s.Skipped)) {
			fmt.Fprintf(w, "  %d records without a task: %s\n", s.Skipped[why], inOneLine(why))
		}
		for i, f := range s.Faults {
			if i == 5 && !r.verbose {
				fmt.Fprintf(w, "  %d more\n", len(s.Faults)-i)
				break
			}
			fmt.Fprintf(w, "  %s %s: %s: %s\n", p.in(p.red, "FAIL"), f.Task, f.Answer, inOneLine(f.Says))
		}
	}
}

func newDataProveCommand(a *app) *cobra.Command {
	var o prove.Options
	var memory int64
	cmd := &cobra.Command{
		Use:   "prove RECORDS",
		Short: "Show that records serve the skills: the reference scores 1, nothing scores 0",
		Long: `Show that records serve the skills: every task that a skill builds of them gives 1 to
its reference and 0 to an agent that did nothing, each time, in real sandboxes. Exit
code 1 says that one did not.`,
		Example: `  valence data prove idna.jsonl
  valence data prove idna.jsonl --skill plugins/editing --repeats 1`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Skills, "skill", []string{"plugins/localization", "plugins/editing", "plugins/unittest", "plugins/review", "plugins/repro"}, "a skill, a `plugin`; may be repeated")
	f.StringVar(&o.Judge, "judge", "plugins/judges/rules", "the judge of skills that ask one, a `plugin`")
	f.IntVar(&o.Repeats, "repeats", 3, "evaluate an answer this `number` of times")
	f.IntVarP(&o.Tasks, "tasks", "n", 0, "at most this `number` of tasks of each skill (default: all)")
	f.IntVarP(&o.Jobs, "jobs", "j", 2, "evaluations at the same time")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "limit of one evaluation")
	f.Int64Var(&memory, "memory", 1<<30, "memory of one sandbox, in `bytes`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		started := time.Now()
		records, err := readRecords(args[0])
		if err != nil {
			return err
		}
		if slices.ContainsFunc(records, func(r sdk.Record) bool { return strings.EqualFold(r.Language, "go") }) {
			if _, err := local.PrepareGo(cmd.Context(), run.SandboxDir()); err != nil {
				return err
			}
		}
		d, err := local.New(local.Options{Dir: run.SandboxDir(), Log: a.logger()})
		if err != nil {
			return err
		}
		defer d.Close()
		o.Driver, o.Log = d, a.logger()
		o.Limits = sandbox.Limits{Memory: memory, Disk: memory, CPUs: 2, Pids: 512, Output: 16 << 20}
		prepare := a.prepareVendor(d)
		for i := range records {
			if err := prepare(cmd.Context(), &records[i].Workspace); err != nil {
				return err
			}
		}
		spot := a.spot("proving: ")
		o.Heard = func(done, all int) { spot.show(fmt.Sprintf("%d/%d tasks", done, all)) }
		skills, err := prove.Records(cmd.Context(), records, o)
		spot.clear()
		if err != nil {
			return err
		}
		out := proved{Records: len(records), Repeats: o.Repeats, Skills: skills, Seconds: time.Since(started).Seconds(), verbose: a.verbose > 0}
		if err := a.out.result(out); err != nil {
			return err
		}
		if slices.ContainsFunc(skills, func(s *prove.Skill) bool { return !s.Holds() }) {
			return statusFailed
		}
		return nil
	}
	return cmd
}
