package main

import "github.com/spf13/cobra"

func newDataCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "data", Short: "Make, check and convert records"}
	cmd.AddCommand(newDataMutateCommand(a), newDataMineCommand(a), newDataProveCommand(a))
	return cmd
}
