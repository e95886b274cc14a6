package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/run"
)

// swapped is the result of plugin swap.
type swapped struct {
	Run   string         `json:"run"`
	Swaps []journal.Swap `json:"swaps"`
}

func (s swapped) table(w io.Writer, p palette) {
	if len(s.Swaps) == 0 {
		fmt.Fprintln(w, "nothing to swap: this is what serves already")
	}
	for i := range s.Swaps {
		fmt.Fprintf(w, "%s %s\n", p.in(p.green, "swapped"), swapLine(&s.Swaps[i]))
	}
}

// swapLine is an accepted swap in words.
func swapLine(s *journal.Swap) string {
	role := "plugin"
	if s.Role == "judge" {
		role = "judge"
	}
	from := short(s.From)
	if from == "" {
		from = "none"
	}
	to := short(s.To)
	if to == "" {
		to = "none"
	}
	return fmt.Sprintf("%s %s: %s → %s (%s), from group %d, step %d", s.Skill, role, from, to, s.Ref, s.Dispatch, s.Step)
}

func newPluginSwapCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "swap RUN SKILL.KEY=VALUE…",
		Short: "Change a plugin, its settings or a judge of a run under way",
		Long: `Change a plugin, its settings or a judge of a run under way. Keys are plugin, judge,
transport, config.KEY and judge_config.KEY. The run builds and tries what is asked
for beside its rollouts and answers; what it accepts holds from the next group on, and
after a restart until the TOML's own value of the key changes. A refused swap changes
nothing.`,
		Example: `  valence plugin swap runs/quickstart repro.judge=judges/strict
  valence plugin swap runs/quickstart unittest.config.mutants=6`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			swaps, err := run.Ask(cmd.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			if swaps == nil {
				swaps = []journal.Swap{}
			}
			return a.out.result(swapped{Run: args[0], Swaps: swaps})
		},
	}
}
