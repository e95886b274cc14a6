package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/mine"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/sdk"
)

// mined is the result of data mine.
type mined struct {
	File string `json:"file"`
	*mine.Yield
	Seconds float64 `json:"seconds"`
}

func (m mined) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s  %d records of %s\n", p.in(p.bold, m.File), m.Records, m.Repository)
	fmt.Fprintf(w, "%d commits, %d change sources and tests\n", m.Commits, m.Candidates)
	for _, why := range slices.Sorted(maps.Keys(m.Refused)) {
		fmt.Fprintf(w, "%5d commits: %s\n", m.Refused[why], why)
	}
	skillTable(w, m.Skills)
}

func newDataMineCommand(a *app) *cobra.Command {
	var o mine.Options
	var out, table, issues string
	shop := workshop{memory: 2 << 30, limit: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "mine REPO",
		Short: "Make records of a git history",
		Long: `Make records of a git history: of commits that change sources and tests, whose tests
fail without the change of the sources and pass with it. The history is read by git and
never changed. The issue's text is that of an issue which the commit names, where
--issues has it, and else worded from how the tests fail; a commit's message is not shown.

Work that was stopped goes on where it was when it is started again with the same --out.`,
		Example: `  valence data mine . --commits 200 --out history.jsonl
  valence data mine ../lib --issues issues.jsonl -n 20`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "records.jsonl", "where the records go, a `file`")
	f.StringVar(&o.From, "from", "HEAD", "the commit to begin at, going back")
	f.IntVar(&o.Commits, "commits", 0, "look at most at this `number` of commits (default: all)")
	f.StringArrayVar(&o.Paths, "path", nil, "only commits whose sources and tests lie below this `path`; may be repeated")
	f.IntVar(&o.Files, "files", 8, "pass over commits that change more source files than this `number`")
	f.IntVar(&o.Packages, "packages", 100, "of Go: pass over tests that import more packages beyond the standard library than this `number`")
	f.StringVar(&issues, "issues", "", "issues by their number: a `folder` of texts, or a file of JSON lines with number, title and body")
	f.StringVar(&o.Runner, "runner", "", "run the tests by the runner of this `name` (default: the first of the table that fits)")
	f.StringVar(&table, "runners", "", "add the runners of a TOML `file` to the table")
	f.Uint64Var(&o.Seed, "seed", 1, "decides what else is drawn")
	f.IntVarP(&o.Count, "count", "n", 0, "at most this `number` of records (default: all)")
	f.IntVar(&o.Tries, "tries", 24, "mistakes tried in one function that a commit changes")
	f.IntVar(&o.Repeats, "repeats", 3, "repeats of each run that decides")
	shop.flags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		started := time.Now()
		o.Runners = runner.Builtin()
		var err error
		if table != "" {
			if o.Runners, err = runner.Read(table); err != nil {
				return err
			}
		}
		if issues != "" {
			if o.Issues, err = mine.ReadIssues(issues); err != nil {
				return err
			}
		}
		defer shop.close()
		if err := shop.open(a, out); err != nil {
			return err
		}
		o.Lab = shop.lab
		w, _, err := records.Create(out)
		if err != nil {
			return err
		}
		defer w.Close()
		sink := func(_ context.Context, r sdk.Record) error { return w.Append(&r) }
		g := a.newGauge("mining")
		o.Told = func(p mine.Progress) {
			g.set(int64(p.Done), int64(p.All), fmt.Sprintf("%s, %d of %s", counted(p.Records, "record"), p.Done, counted(p.All, "commit")))
		}
		y, err := mine.Run(cmd.Context(), args[0], o, sink)
		g.close()
		if err != nil {
			return err
		}
		if err := w.Finish(); err != nil {
			return err
		}
		return a.out.result(mined{out, y, time.Since(started).Seconds()})
	}
	return cmd
}
