package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/candidates"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// labelled is the result of data label.
type labelled struct {
	File string `json:"file"`
	All  int    `json:"all"` // records of the file
	*candidates.Yield
	Seconds float64 `json:"seconds"`
}

func (l labelled) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s  %s, %d with candidates of policies\n", p.in(p.bold, l.File), counted(l.All, "record"), l.Records)
	for _, t := range []struct {
		head string
		rows map[string]*candidates.Labels
	}{{"POLICY", l.Policies}, {"ALL OF SOURCE", l.Sources}} {
		g := grid{head: []string{t.head, "RIGHT", "WRONG"}}
		for _, name := range slices.Sorted(maps.Keys(t.rows)) {
			g.add(name, fmt.Sprint(t.rows[name].Right), fmt.Sprint(t.rows[name].Wrong))
		}
		g.write(w, p)
	}
	if l.Balanced > 0 {
		fmt.Fprintf(w, "%s taken away, so that labels are balanced\n", counted(l.Balanced, "candidate"))
	}
	for _, why := range sortedByCount(l.Refused) {
		fmt.Fprintf(w, "%s of %d left out: %s\n", counted(l.Refused[why], "attempt"), l.Attempts, inOneLine(why))
	}
}

func newDataLabelCommand(a *app) *cobra.Command {
	var o candidates.Options
	var out string
	shop := workshop{memory: 1 << 30, limit: time.Minute}
	cmd := &cobra.Command{
		Use:   "label RECORDS RUN…",
		Short: "Add what policies changed to records, as review candidates labelled by the tests",
		Long: `Add what policies changed to records, as candidates for the review skill. A RUN is the
folder of a training or evaluation run, or a file of episodes; of each episode of the
editing skill on one of the records the change is taken. The record's own tests, which
have to pass with the gold patch, label it: they are run some times and have to agree.

What two episodes share counts once, policies take turns, and in the end the records of
each source have as many right candidates as wrong ones, as far as each keeps one. Work
that was stopped goes on where it was with the same --out.`,
		Example: `  valence data label made.jsonl.zst runs/quickstart runs/qwen --out labelled.jsonl.zst
  valence data label made.jsonl runs/qwen/evals/000000-eval.episodes.jsonl.zst --out labelled.jsonl`,
		Args: cobra.MinimumNArgs(2),
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "labelled.jsonl", "where the records go, a `file`")
	f.Uint64Var(&o.Seed, "seed", 1, "decides which candidates go where there are too many")
	f.IntVar(&o.Most, "most", 4, "at most this `number` of policies' patches of one label in a record")
	f.IntVar(&o.Repeats, "repeats", 3, "runs of the tests on each patch")
	shop.flags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		started := time.Now()
		list, err := records.Read(args[0])
		if err != nil {
			return err
		}
		var attempts []candidates.Attempt
		for _, name := range args[1:] {
			more, err := attemptsOf(name)
			if err != nil {
				return err
			}
			attempts = append(attempts, more...)
		}
		defer shop.close()
		if err := shop.open(a, out); err != nil {
			return err
		}
		for _, r := range list {
			if err := shop.tools.PrepareRecord(cmd.Context(), r); err != nil {
				return err
			}
		}
		g := a.newGauge("labelling")
		defer g.close()
		o.Jobs = shop.jobs
		o.Heard = func(done, all, added int) {
			g.set(int64(done), int64(all), fmt.Sprintf("%s, %d of %s", counted(added, "candidate"), done, counted(all, "record")))
		}
		y, err := candidates.Add(cmd.Context(), shop.lab(nil), list, attempts, o)
		g.close()
		if err != nil {
			return err
		}
		if err := records.Discard(out); err != nil {
			return err
		}
		w, _, err := records.Create(out)
		if err != nil {
			return err
		}
		defer w.Close()
		for _, r := range list {
			if err := w.Append(r); err != nil {
				return err
			}
		}
		if err := w.Finish(); err != nil {
			return err
		}
		return a.out.result(labelled{out, len(list), y, time.Since(started).Seconds()})
	}
	return cmd
}

// attemptsOf reads the attempts of a run's folder, training first, or of a file of
// episodes.
func attemptsOf(name string) ([]candidates.Attempt, error) {
	const op = "read attempts"
	info, err := os.Stat(name)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, name, err)
	}
	label := strings.TrimSuffix(filepath.Base(filepath.Clean(name)), ".episodes.jsonl.zst")
	var out []candidates.Attempt
	take := func(file string) error {
		for e, err := range journal.ReadEpisodes(file) {
			if err != nil {
				return err
			}
			if x, ok := candidates.Of(label, &e); ok {
				out = append(out, x)
			}
		}
		return nil
	}
	if !info.IsDir() {
		err := take(name)
		return out, err
	}
	dir := journal.Dir(name)
	steps, err := dir.Steps()
	if err != nil {
		return nil, err
	}
	evals, err := dir.Evals()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range steps {
		files = append(files, filepath.Join(dir.StepDir(s.Step), "episodes.jsonl.zst"))
	}
	for _, e := range evals {
		files = append(files, dir.EvalEpisodesFile(e.Step, e.Split))
	}
	if len(files) == 0 {
		return nil, diag.Errorf(diag.KindData, op, name, "no run with a step or an evaluation is there")
	}
	for _, f := range files {
		if err := take(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}
