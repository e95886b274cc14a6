package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/run"
)

func newConfigCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration or print the reference of its keys",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newConfigCheckCommand(a), newConfigDocsCommand(a))
	return cmd
}

// needsVerb answers a group of verbs that was called without one of them.
func needsVerb(cmd *cobra.Command, args []string) error {
	d := &diag.Diagnostic{Kind: diag.KindConfig, Code: "C040", Summary: fmt.Sprintf("%q needs a verb", cmd.CommandPath())}
	if len(args) > 0 {
		d.Summary = fmt.Sprintf("unknown verb %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			d.Hint = fmt.Sprintf("did you mean %q?", near[0])
		}
	}
	for _, c := range cmd.Commands() {
		d.Detail = append(d.Detail, fmt.Sprintf("  %-10s %s", c.Name(), c.Short))
	}
	return d
}

// checked is the result of config check.
type checked struct {
	File     string        `json:"file"`
	Run      string        `json:"run"`
	Steps    int           `json:"steps"`
	Skills   []checkedPart `json:"skills"`
	Suites   []checkedPart `json:"suites,omitempty"`
	Resolved string        `json:"resolved,omitempty"`
}

type checkedPart struct {
	Name   string  `json:"name"`
	Plugin string  `json:"plugin"`
	Share  float64 `json:"share"`
}

func (c checked) table(w io.Writer, p palette) {
	if c.Resolved != "" {
		io.WriteString(w, c.Resolved)
		return
	}
	fmt.Fprintf(w, "%s %s: run %s, %d steps\n", p.in(p.green, "ok"), c.File, c.Run, c.Steps)
	g := grid{head: []string{"SKILL", "SHARE", "PLUGIN"}, left: map[int]bool{2: true}}
	for _, s := range c.Skills {
		g.add(s.Name, fmt.Sprintf("%.3f", s.Share), s.Plugin)
	}
	for _, s := range c.Suites {
		g.add(s.Name, "suite", s.Plugin)
	}
	g.write(w, p)
}

func newConfigCheckCommand(a *app) *cobra.Command {
	var resolved bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration and report everything that is wrong with it",
		Long: `Check a configuration and report everything that is wrong with it, also with what it says
to plugins: their roles, grants and settings, as far as they lie in folders and files.
With --locked, every plugin is found as a run would find it, and compared with its pin.`,
		Args: cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	cmd.Flags().BoolVar(&resolved, "resolved", false, "print the configuration with every default and --set written out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.load()
		if err != nil {
			return err
		}
		o, err := run.Registry(c, run.Options{Locked: f.locked, Log: a.logger()})
		if err != nil {
			return err
		}
		if err := run.Check(cmd.Context(), c, o); err != nil {
			return err
		}
		r := checked{File: c.File, Run: c.Run.Name, Steps: c.Run.Steps}
		for i, w := range c.Weights() {
			r.Skills = append(r.Skills, checkedPart{c.Skills[i].Name, c.Skills[i].Plugin, w})
		}
		for _, s := range c.Suites {
			r.Suites = append(r.Suites, checkedPart{Name: s.Name, Plugin: s.Plugin})
		}
		if resolved {
			r.Resolved = string(config.Resolved(c))
		}
		return a.out.result(r)
	}
	return cmd
}

func newConfigDocsCommand(a *app) *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Print the reference of all keys, or write the references under docs",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "write docs/config.md and docs/metrics.md under the current directory")
	cmd.RunE = func(*cobra.Command, []string) error {
		if !write {
			_, err := io.WriteString(a.stdout, config.Docs())
			return err
		}
		metrics, err := journal.Reference()
		if err != nil {
			return err
		}
		for file, text := range map[string]string{"docs/config.md": config.Docs(), "docs/metrics.md": metrics} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return diag.Wrap(diag.KindConfig, "write reference", "", err)
			}
		}
		return nil
	}
	return cmd
}
