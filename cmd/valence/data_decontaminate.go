package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/decontaminate"
	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// decontaminated is the result of data decontaminate.
type decontaminated struct {
	decontaminate.Report
	Out string `json:"out,omitempty"`
	Bad int    `json:"bad"`
}

func (r decontaminated) table(w io.Writer, p palette) {
	contaminationTable(w, p, r.Report)
	if r.Out != "" {
		fmt.Fprintf(w, "%s %s in %s\n", p.in(p.bold, "kept"), counted(r.Records-r.Dropped, "record"), r.Out)
	}
	if r.Bad > 0 {
		fmt.Fprintf(w, "%s %s\n", p.in(p.yellow, "bad"), counted(r.Bad, "row"))
	}
}

// contaminationTable says what was dropped and why.
func contaminationTable(w io.Writer, p palette, r decontaminate.Report) {
	fmt.Fprintf(w, "%s %d of %s, against %s\n", p.in(p.bold, "dropped"), r.Dropped, counted(r.Records, "record"), strings.Join(r.Suites, ", "))
	g := grid{head: []string{"RECORDS", "SAME", "OF", "WHAT", "FOR EXAMPLE"}, left: map[int]bool{1: true, 2: true, 3: true, 4: true}}
	for _, d := range r.Reasons {
		g.add(fmt.Sprint(d.Records), d.Kind, d.Suite, d.What, d.IDs[0])
	}
	if len(r.Reasons) > 0 {
		g.write(w, p)
	}
	for _, n := range r.Namesakes {
		fmt.Fprintf(w, "%s %s of %s, which is called like %s: a fork?\n", p.in(p.yellow, "kept"), counted(n.Records, "record"), n.Repository, n.Like)
	}
}

func newDataDecontaminateCommand(a *app) *cobra.Command {
	var against, named []string
	var out, format string
	var force bool
	cmd := &cobra.Command{
		Use:   "decontaminate FILE… [--against FILE…]",
		Short: "Drop what shares a repository or a commit with what is measured",
		Long: `Drop the records that share a repository, a fork of it, or a commit with what is measured:
with the public suites that Valence knows, and with the files of --against. A run does
this by itself before it trains. Without --out nothing is written: the report says what
would go. A file of --against is anything that data import reads, or a text (.txt) of
repositories and commits, one a line.`,
		Example: `  valence data decontaminate records.jsonl --out clean.jsonl
  valence data decontaminate records.jsonl --against ours.jsonl --suite swebench`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringArrayVar(&against, "against", nil, "what is measured, a `file`; may be repeated")
	f.StringSliceVar(&named, "suite", suites.Names(), "public suites to compare with, by `name`; none: with no public suite")
	f.StringVar(&out, "out", "", "write what is kept to this records `file`")
	f.BoolVar(&force, "force", false, "replace a file of that name")
	formatFlag(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := decontaminated{Out: out}
		set := decontaminate.New()
		for _, n := range named {
			s, ok := suites.Named(n)
			switch {
			case ok:
				set.AddSuite(s)
			case n != "none":
				return &diag.Diagnostic{Kind: diag.KindConfig, Code: "D012", Summary: fmt.Sprintf("no public suite is called %q", n), Hint: "there are " + strings.Join(suites.Names(), ", ")}
			}
		}
		for _, p := range against {
			if err := a.addAgainst(cmd, set, p); err != nil {
				return err
			}
		}
		var to export
		if out != "" {
			err := free(out, force)
			if err == nil {
				to, err = openExport(formats.Records, out)
			}
			if err != nil {
				return err
			}
			defer to.discard()
		}
		sieve := decontaminate.NewSieve(set)
		var err error
		r.Bad, err = a.rowsOf(cmd.Context(), "decontaminating", format, args, func(rec *sdk.Record) error {
			if !sieve.Keep(rec) || to == nil {
				return nil
			}
			return to.add(rec)
		})
		if err == nil && to != nil {
			err = to.finish()
		}
		if err != nil {
			return err
		}
		r.Report = sieve.Report()
		if err := a.out.result(r); err != nil {
			return err
		}
		if r.Bad > 0 {
			return statusLosses
		}
		return nil
	}
	return cmd
}

// addAgainst adds what a file of --against has.
func (a *app) addAgainst(cmd *cobra.Command, set *decontaminate.Against, path string) error {
	name := filepath.Base(path)
	if filepath.Ext(path) == ".txt" {
		return decontaminate.AddList(set, path)
	}
	_, err := a.rowsOf(cmd.Context(), "reading "+name, "", []string{path}, func(r *sdk.Record) error {
		set.AddRecord(name, r)
		return nil
	})
	return err
}
