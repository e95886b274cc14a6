package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/sdk"
)

func newDataCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Import, make, export, check, label and decontaminate records; gather trajectories",
		Args:  cobra.NoArgs,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newDataImportCommand(a), newDataExportCommand(a), newDataCheckCommand(a), newDataDecontaminateCommand(a),
		newDataMutateCommand(a), newDataMineCommand(a), newDataLabelCommand(a), newDataTrajectoriesCommand(a))
	return cmd
}

// shownRows is how many bad rows are printed one by one; the rest is counted.
const shownRows = 20

// complaints prints the first bad rows and counts the others.
type complaints struct {
	app   *app
	gauge *gauge
	n     int
}

func (c *complaints) add(b *formats.Bad) {
	c.app.out.event("bad", b)
	c.n++
	switch {
	case c.app.quiet || c.app.progress == "none":
	case c.n <= shownRows:
		p, what := c.app.paint(c.app.stderr), "bad row:"
		if b.Row == 0 {
			what = "unusable:"
		}
		c.gauge.said(p.in(p.yellow, what) + " " + inOneLine(b.Error()))
	case c.n == shownRows+1:
		c.gauge.said("further bad rows are counted and not shown; -o jsonl has each")
	}
}

// formatFlag adds --format to a verb that reads data.
func formatFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&choice{to, formats.Names()}, "format", "what the rows are (default: told by their columns): "+strings.Join(formats.Names(), ", "))
}

// counted is "1 record" or "2 records".
func counted[N int | int64](n N, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bytesFlag is a flag that takes a size.
type bytesFlag int64

func (b *bytesFlag) String() string { return config.Size(*b).String() }
func (b *bytesFlag) Type() string   { return "size" }

func (b *bytesFlag) Set(s string) error {
	n, err := config.ParseSize(s)
	if err == nil && (n < 1 || n > 1<<30) {
		err = fmt.Errorf("%s is not between 1B and 1GiB", s)
	}
	*b = bytesFlag(n)
	return err
}

// rowsOf reads the records of files, with a gauge and with complaints about bad rows,
// which it counts.
func (a *app) rowsOf(ctx context.Context, what, format string, paths []string, each func(*sdk.Record) error) (bad int, err error) {
	sources, err := formats.Sources(paths)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, s := range sources {
		total += s.Size
	}
	g := a.newGauge(what)
	defer g.close()
	c := &complaints{app: a, gauge: g}
	n := 0
	err = formats.Import(ctx, sources, formats.Options{Format: format}, func(i formats.Item) error {
		g.set(i.Bytes, total, counted(n, "record"))
		if i.Bad != nil {
			c.add(i.Bad)
			return nil
		}
		n++
		return each(i.Record)
	})
	return c.n, err
}
