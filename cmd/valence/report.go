package main

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/eval"
	"github.com/valence-rl/valence/core/report"
)

// reported is the result of report: the comparison on the first split, and what
// goes beyond it.
type reported struct {
	eval.Summary
	Splits   []eval.Summary `json:"splits,omitempty"` // the other splits
	Warnings []string       `json:"warnings,omitempty"`
	Page     string         `json:"page,omitempty"`

	of *report.Report
}

func (r reported) table(w io.Writer, p palette) {
	r.of.Table(w)
	if r.Page != "" {
		io.WriteString(w, "\n"+p.in(p.dim, "page: "+r.Page)+"\n")
	}
}

func newReportCommand(a *app) *cobra.Command {
	var noPage bool
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show what a run achieved: a table, and report.html in the run's folder",
		Long: `Show what a run achieved. The table compares the first and the last evaluation,
skill by skill, with 95% intervals; report.html in the run's folder has the curves,
the mix, the lengths, the failures and a few episodes. It needs no network.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&noPage, "no-page", false, "leave report.html as it is")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		r, err := report.Load(args[0])
		if err != nil {
			return err
		}
		out := reported{of: r, Warnings: r.Warnings}
		out.Run, out.Steps, out.Skills = r.Name, r.LastStep(), []eval.SkillSummary{}
		for i, s := range r.Splits {
			if i == 0 {
				out.Summary = s.Summary
				continue
			}
			out.Splits = append(out.Splits, s.Summary)
		}
		if !noPage {
			if err := r.WriteFile(args[0]); err != nil {
				return err
			}
			out.Page = filepath.Join(args[0], "report.html")
		}
		return a.out.result(out)
	}
	return cmd
}
