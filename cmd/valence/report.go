package main

import (
	"github.com/spf13/cobra"
)

func newReportCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "report DIR", Short: "Show what a run achieved", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return nil }}
}
