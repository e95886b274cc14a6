package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/run"
)

// imitated is the result of sft.
type imitated struct{ *run.Imitated }

func (r imitated) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s from %s, %d tokens, %d of them the policy's own\n", p.in(p.bold, "made"), r.Policy, countedTrajectories(r.Trajectories), r.Tokens, r.Learnt)
	if r.ByTokens > 0 {
		fmt.Fprintf(w, "%d by the token ids that they came with\n", r.ByTokens)
	}
	if n := len(r.LeftOut); n > 0 {
		fmt.Fprintf(w, "%s %s; -o json names each\n", p.in(p.yellow, "left out"), countedTrajectories(n))
	}
}

func newSFTCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sft -c FILE [TRAJECTORIES…]",
		Short: "Make a cold-start policy from verified trajectories",
		Long: `Make a cold-start policy: play the expert on the training tasks of every skill,
keep what the skill's evaluator scores 1, and train on it. The policy folder that
the configuration names is written at the end. Started again after a kill, it goes
on from what it has in the run's folder.

With TRAJECTORIES, or [sft] trajectories, nothing is played: it trains on what stands in
these files and folders, all of it. They are what data trajectories gathered or exported,
or OpenAI messages, ATIF and Parquet of other programs (docs/sft.md).`,
		Example: `  valence sft -c examples/quickstart/sft.toml
  valence sft -c sft.toml demos/ more.jsonl`,
		Args: cobra.ArbitraryArgs,
	}
	f := a.configFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			f.sets = append(f.sets, fmt.Sprintf("sft.trajectories=[%s]", strings.Join(quoted(args), ", ")))
		}
		cfg, err := f.load()
		if err != nil {
			return err
		}
		var im *run.Imitated
		if len(cfg.SFT.Trajectories) > 0 {
			view := a.newView(cfg)
			im, err = run.Imitate(cmd.Context(), cfg, run.Options{Log: a.logger(), Observe: view.observe})
			view.close()
		} else {
			im, err = a.coldStart(cmd.Context(), f)
		}
		if err != nil {
			return err
		}
		return a.out.result(imitated{im})
	}
	return cmd
}

func (a *app) coldStart(ctx context.Context, f *configFlags) (*run.Imitated, error) {
	s, view, err := a.open(ctx, f, run.Options{Unbuilt: true})
	if err != nil {
		return nil, err
	}
	defer view.close()
	defer s.Close()
	return s.ColdStart(ctx)
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
