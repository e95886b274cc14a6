package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/transcript"
)

// handed is the result of data trajectories export.
type handed struct {
	Out          string         `json:"out"`
	Format       string         `json:"format"`
	Trajectories int            `json:"trajectories"`
	Skills       map[string]int `json:"skills"`
	Left         map[string]int `json:"left"` // out, by why
	Tokens       int            `json:"with_token_ids"`
}

func (r handed) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s in %s, as %s\n", p.in(p.bold, "exported"), countedTrajectories(r.Trajectories), r.Out, r.Format)
	for _, k := range sortedByCount(r.Skills) {
		fmt.Fprintf(w, "  %-14s %d\n", k, r.Skills[k])
	}
	for _, why := range sortedByCount(r.Left) {
		fmt.Fprintf(w, "left out %s: %s\n", countedTrajectories(r.Left[why]), why)
	}
}

func countedTrajectories(n int) string {
	if n == 1 {
		return "1 trajectory"
	}
	return fmt.Sprintf("%d trajectories", n)
}

func newDataTrajectoriesExportCommand(a *app) *cobra.Command {
	r := handed{Format: "messages", Skills: map[string]int{}, Left: map[string]int{}}
	var pick transcript.Filter
	var force, bare, evals bool
	cmd := &cobra.Command{
		Use:   "export FOLDER… --out FILE",
		Short: "Write stored episodes as OpenAI messages, ATIF or Parquet",
		Long: `Write stored episodes for other programs, and for valence sft: as lines of OpenAI's chat
messages, as ATIF v1.7 (a file of lines, or a folder with a file each if --out has no
extension), or as Parquet with messages as nested columns.

FOLDER is one that valence data trajectories filled, a run's, of which the training steps
are read, or a file of episodes. Evaluations are read with --evals only: their tasks are
there to be measured, and a policy that has learnt from them is not measured any more.`,
		Example: `  valence data trajectories export demos --out demos.jsonl.zst
  valence data trajectories export runs/joint --skill repro --min-score 1 --format parquet --out repro.parquet
  valence data trajectories export demos --format atif --out demos-atif`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.Var(&choice{&r.Format, transcript.Forms}, "format", "what is written: "+strings.Join(transcript.Forms, ", "))
	f.StringVar(&r.Out, "out", "", "the `file` to write; .zst and .gz compress lines")
	f.BoolVar(&force, "force", false, "replace a file of that name")
	f.BoolVar(&bare, "bare", false, "messages and tools alone, for services that refuse other keys; tokens, verdict and reasoning are lost")
	f.StringArrayVar(&pick.Skills, "skill", nil, "of this skill only, by its `name`; may be repeated")
	f.Float64Var(&pick.MinScore, "min-score", 1, "that scored at least this")
	f.StringVar(&pick.Judge, "judge", "", "that the judge with this `digest`, or its beginning, had a part in; none: that no judge had a part in")
	f.BoolVar(&pick.Ended, "any-end", false, "also those that ran into a limit and never submitted")
	f.BoolVar(&evals, "evals", false, "of a run, its evaluations in place of its training steps")
	f.BoolVar(&pick.Twice, "duplicates", false, "also the same turns on the same task a second time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := freeFor(r.Format, r.Out, force); err != nil {
			return err
		}
		if bare && r.Format != "messages" {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C040", Summary: "--bare is of messages alone", Hint: "leave it out, or write --format messages"}
		}
		var files []string
		for _, arg := range args {
			more, err := transcript.Stored(filepath.Clean(arg), evals)
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
		w, err := transcript.Create(r.Format, r.Out, bare)
		if err != nil {
			return err
		}
		defer w.Discard()
		g := a.newGauge("exporting")
		defer g.close()
		for i, file := range files {
			for e, why := range pick.Episodes(file) {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				switch {
				case why != nil && e == nil:
					return why
				case why != nil:
					r.Left[why.Error()]++
					continue
				}
				if err := w.Add(e); err != nil {
					return err
				}
				r.Trajectories++
				r.Skills[e.Skill]++
				g.set(int64(i), int64(len(files)), countedTrajectories(r.Trajectories))
			}
		}
		g.close()
		if r.Trajectories == 0 {
			return diag.Errorf(diag.KindData, "export", strings.Join(args, ", "), "no trajectory is left: %v", r.Left)
		}
		if err := w.Finish(); err != nil {
			return err
		}
		return a.out.result(r)
	}
	return cmd
}

// freeFor is free for a name that may be that of a folder, which is written only where
// nothing is in it.
func freeFor(format, path string, force bool) error {
	entries, err := os.ReadDir(path)
	switch {
	case err != nil:
		return free(path, force)
	case format == "atif" && filepath.Ext(path) == "" && len(entries) == 0:
		return nil
	}
	return &diag.Diagnostic{Kind: diag.KindConfig, Code: "D010", Summary: fmt.Sprintf("%q is a folder already", path), Hint: "write another one with --out, or remove it"}
}
