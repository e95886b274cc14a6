package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/run"
)

func newSFTCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sft -c FILE",
		Short: "Make a cold-start policy from the expert's verified trajectories",
		Long: `Make a cold-start policy: play the expert on the training tasks of every skill,
keep what the skill's evaluator scores 1, and train on it. The policy folder that
the configuration names is written at the end. Started again after a kill, it goes
on from what it has in the run's folder.`,
		Args: cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, view, err := a.open(cmd.Context(), f, run.Options{Unbuilt: true})
		if err != nil {
			return err
		}
		defer view.close()
		defer s.Close()
		return s.ColdStart(cmd.Context())
	}
	return cmd
}

// open opens the configuration that the flags name with a progress view. The
// caller closes the set-up and then the view.
func (a *app) open(ctx context.Context, f *configFlags, o run.Options) (*run.Setup, *view, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, nil, err
	}
	v := a.newView(cfg)
	o.Log, o.Observe, o.Locked = a.logger(), v.observe, f.locked
	s, err := run.Open(ctx, cfg, o)
	if err != nil {
		v.close()
		return nil, nil, err
	}
	return s, v, nil
}
