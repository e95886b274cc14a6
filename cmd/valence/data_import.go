package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/intake"
)

// takenIn is the result of data import.
type takenIn struct{ *intake.Summary }

func (r takenIn) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s in %s\n", p.in(p.bold, "records"), counted(r.Records, "record"), r.Out)
	g := grid{left: map[int]bool{2: true}}
	for _, f := range slices.Sorted(maps.Keys(r.Formats)) {
		g.add("  "+f, fmt.Sprint(r.Formats[f]))
	}
	if r.Repeated > 0 {
		g.add("  repeated", fmt.Sprint(r.Repeated), "an earlier row had the ID")
	}
	if r.Bad > 0 {
		g.add("  bad", fmt.Sprint(r.Bad), "of "+counted(r.Rows, "row"))
		for _, why := range r.Why() {
			g.add("    "+why, fmt.Sprint(r.Reasons[why]))
		}
	}
	g.write(w, p)
	if r.Lost > 0 {
		fmt.Fprintf(w, "%s %s could not be read to the end\n", p.in(p.yellow, "lost"), counted(r.Lost, "file"))
	}
}

func newDataImportCommand(a *app) *cobra.Command {
	var o intake.Options
	var limit bytesFlag
	cmd := &cobra.Command{
		Use:   "import SRC…",
		Short: "Make a records file of data sets",
		Long: `Make a records file of the field's data sets: files of JSON lines, JSON lists or Parquet,
plain or compressed with gzip or zstd, folders of such files, and folders of Harbor
tasks. What a file is is told by its bytes, and whose rows it has by their columns.

A row that cannot be used is reported with its file, line and field, counted, and ends
nothing. An import that is stopped or killed goes on where it was when the same command
is given again. Exit code 3 says that rows were bad, 1 that nothing was imported.`,
		Example: `  valence data import train-00000-of-00001.parquet --out records.jsonl.zst
  valence data import swe-gym/ swe-smith.jsonl --out records.jsonl
  valence data import terminal-bench/ --format harbor`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	formatFlag(cmd, &o.Format)
	f.StringVar(&o.Out, "out", "records.jsonl", "the records `file`; .zst and .gz compress it")
	f.BoolVar(&o.Replace, "force", false, "replace a file of that name")
	f.Var(&limit, "max-row", "longest row that is read, e.g. 128MiB (default 64MiB)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Sources, o.Limit = args, int(limit)
		g := a.newGauge("importing")
		defer g.close()
		bad := &complaints{app: a, gauge: g}
		first := true
		o.Each = func(p intake.Progress) {
			if first && p.Summary.Resumed > 0 {
				g.said(fmt.Sprintf("going on after %s that an earlier import did", counted(p.Summary.Resumed, "row")))
			}
			first = false
			if p.Bad != nil {
				bad.add(p.Bad)
			}
			text := counted(p.Summary.Records, "record")
			if p.Summary.Bad > 0 {
				text += fmt.Sprintf(", %d bad", p.Summary.Bad)
			}
			g.set(p.Bytes, p.Total, text)
		}
		s, err := intake.Run(cmd.Context(), o)
		g.close()
		if err != nil {
			return err
		}
		if err := a.out.result(takenIn{s}); err != nil {
			return err
		}
		if s.Bad > 0 {
			return statusLosses
		}
		return nil
	}
	return cmd
}
