package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/mutate"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/sdk"
)

// made is the result of data mutate.
type made struct {
	File    string          `json:"file"`
	Records int             `json:"records"`
	Sources []*mutate.Yield `json:"sources"`
	Skills  mutate.Skills   `json:"skills"`
	Seconds float64         `json:"seconds"`
}

func (m made) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s  %s\n", p.in(p.bold, m.File), counted(m.Records, "record"))
	fmt.Fprintf(w, "%-28s %-9s %6s %9s %6s %6s %8s %7s %7s %7s\n", "SOURCE", "RUNNER", "TESTS", "FUNCTIONS", "TRIED", "CAUGHT", "SURVIVED", "UNSOUND", "ENDLESS", "RECORDS")
	for _, y := range m.Sources {
		fmt.Fprintf(w, "%-28s %-9s %6d %9d %6d %6d %8d %7d %7d %7d\n", y.Source, y.Runner, y.Tests, y.Functions, y.Tried, y.Caught, y.Survived, y.Unsound, y.Endless, y.Records)
	}
	for _, y := range m.Sources {
		if x := y.Written; x != nil {
			fmt.Fprintf(w, "%s: a model wrote %s in %s, %d of no use, %d caught; %s without an answer\n", y.Source,
				counted(x.Mistakes, "mistake"), counted(x.Functions, "function"), x.Unfit, x.Caught, counted(x.Formless, "question"))
		}
	}
	skillTable(w, m.Skills)
}

// skillTable says how many records serve each skill, and why others do not.
func skillTable(w io.Writer, skills mutate.Skills) {
	for _, skill := range slices.Sorted(maps.Keys(skills)) {
		why := skills[skill]
		fmt.Fprintf(w, "%-14s %5d served\n", skill, why[mutate.Served])
		for _, reason := range slices.Sorted(maps.Keys(why)) {
			if reason != mutate.Served {
				fmt.Fprintf(w, "%-14s %5d not: %s\n", "", why[reason], reason)
			}
		}
	}
}

// broken is how far a source has come, of at most count records, as a gauge shows it.
func broken(p mutate.Progress, count int) (done, total int64, text string) {
	if p.All == 0 {
		return 0, 0, "running its tests as they are"
	}
	text = fmt.Sprintf("%s, %s tried in %d of %s", counted(p.Records, "record"), counted(p.Tried, "mistake"), p.Done, counted(p.All, "function"))
	if count > 0 && p.Records*p.All > p.Done*count { // it ends when there are enough
		return int64(p.Records), int64(count), text
	}
	return int64(p.Done), int64(p.All), text
}

func newDataMutateCommand(a *app) *cobra.Command {
	var o mutate.Options
	var out, name, table, deps, model string
	var written int
	shop := workshop{memory: 1 << 30, limit: time.Minute}
	var c configFlags
	cmd := &cobra.Command{
		Use:   "mutate SOURCE…",
		Short: "Make records by breaking functions of trees whose tests pass",
		Long: `Make records by breaking functions of trees whose tests pass. A source is a folder, a
Python source archive (.tar.gz, .zip), or a Go module's zip. Everything is run in
sandboxes without network: what the tests need has to be in the source, in the tool
chain that sandboxes show, or in the folder that --deps names.

Mistakes are small edits by operators. With --model the model behind [model] of -c, or
behind [server], is asked for some of each function, too, and with --model=only operators
make none. A server that fails is asked again; where it goes on failing the exit code
is 13, and nothing is lost.

The same sources, options and seed give the same records. Work that was stopped goes on
where it was when it is started again with the same --out.`,
		Example: `  valence data mutate idna-3.10.tar.gz --out idna.jsonl
  valence data mutate ./mylib --deps site --per-function 2 --out mylib.jsonl
  valence data mutate ./mylib --model -c run.toml --set model.name=qwen3-32b \
      --set model.base_url=http://127.0.0.1:8000/v1 --out mylib.jsonl`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "records.jsonl", "where the records go, a `file`")
	f.StringVar(&name, "runner", "", "run the tests by the runner of this `name` (default: the first of the table that fits)")
	f.StringVar(&table, "runners", "", "add the runners of a TOML `file` to the table")
	f.StringVar(&deps, "deps", "", "a `folder` with what Python tests import, as pip install --target makes it")
	f.Uint64Var(&o.Seed, "seed", 1, "decides what is broken and how")
	f.IntVarP(&o.Count, "count", "n", 0, "at most this `number` of records of each source (default: all)")
	f.IntVar(&o.PerFunction, "per-function", 1, "at most this `number` of records of one function")
	f.IntVar(&o.Tries, "tries", 24, "mistakes tried in one function")
	f.Var(&choice{&model, []string{"too", "only"}}, "model", "ask the model of -c for mistakes: too, or only it")
	f.Lookup("model").NoOptDefVal = "too"
	f.IntVar(&written, "written", 6, "mistakes that the model is asked for in one function")
	c.add(cmd)
	f.IntVar(&o.Repeats, "repeats", 3, "repeats of each run that decides")
	shop.flags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		started := time.Now()
		if model != "" {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			o.Author = &mutate.Author{Alone: model == "only", Count: written}
			if o.Author.Model, o.Author.Name, err = run.OpenAuthor(cmd.Context(), cfg, a.logger()); err != nil {
				return err
			}
		}
		runners := runner.Builtin()
		if table != "" {
			var err error
			if runners, err = runner.Read(table); err != nil {
				return err
			}
		}
		if deps != "" {
			t, err := source.Open(deps)
			if err != nil {
				return err
			}
			o.Deps = t.Files
		}
		for _, arg := range args { // a source that cannot be used is told before the others have taken hours
			tree, err := source.Open(arg)
			if err != nil {
				return err
			}
			if _, err := runners.Find(name, tree.Files); err != nil {
				return diag.Wrap(diag.KindData, "mutate", arg, err)
			}
		}
		defer shop.close()
		if err := shop.open(a, out); err != nil {
			return err
		}
		w, _, err := records.Create(out)
		if err != nil {
			return err
		}
		defer w.Close()
		sink := func(_ context.Context, r sdk.Record) error { return w.Append(&r) }
		m := made{File: out, Skills: mutate.Skills{}}
		o.Ahead = shop.jobs
		for _, arg := range args {
			tree, err := source.Open(arg)
			if err != nil {
				return err
			}
			r, err := runners.Find(name, tree.Files)
			if err != nil {
				return err
			}
			if r.Language == "go" {
				if tree, err = source.Vendor(cmd.Context(), tree, nil); err != nil {
					return err
				}
			}
			g := a.newGauge("breaking " + tree.Name)
			o.Heard = func(p mutate.Progress) { g.set(broken(p, o.Count)) }
			y, err := mutate.Run(cmd.Context(), tree, shop.lab(r), o, sink)
			g.close()
			if err != nil {
				return err
			}
			m.Sources = append(m.Sources, y)
			m.Records += y.Records
			m.Skills.Add(y.Skills)
			a.out.event("source", y)
		}
		if err := w.Finish(); err != nil {
			return err
		}
		m.Seconds = time.Since(started).Seconds()
		return a.out.result(m)
	}
	return cmd
}
