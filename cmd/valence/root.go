package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot makes the command tree. A verb is one constructor in a file of its own.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "valence",
		Short:         "Train and measure coding agents on atomic skills",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	f := root.PersistentFlags()
	a.output, a.progress, a.color = "table", "auto", "auto"
	f.VarP(&choice{&a.output, []string{"table", "json", "jsonl"}}, "output", "o", "form of results: table, json or jsonl")
	f.Var(&choice{&a.progress, []string{"auto", "plain", "none"}}, "progress", "progress on standard error: auto (live on a terminal), plain (lines) or none")
	f.Var(&choice{&a.color, []string{"auto", "always", "never"}}, "color", "colour: auto, always or never; NO_COLOR wins")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "errors only")
	f.CountVarP(&a.verbose, "verbose", "v", "log more; -vv logs everything")
	for _, v := range verbs {
		root.AddCommand(v(a))
	}
	return root
}

// verbs are the constructors of the commands under root.
var verbs = []func(*app) *cobra.Command{
	newTrainCommand,
	newSFTCommand,
	newEvalCommand,
	newRolloutCommand,
	newRejudgeCommand,
	newReportCommand,
	newDataCommand,
	newPluginCommand,
	newSandboxCommand,
	newConfigCommand,
	newDoctorCommand,
	newVersionCommand,
}

// choice is a flag that accepts a few words.
type choice struct {
	value *string
	words []string
}

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("want one of %s", strings.Join(c.words, ", "))
	}
	*c.value = s
	return nil
}

func (c *choice) Type() string { return strings.Join(c.words, "|") }
