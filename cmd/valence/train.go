package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/report"
	"github.com/valence-rl/valence/core/run"
)

func newTrainCommand(a *app) *cobra.Command {
	var resume, dry bool
	cmd := &cobra.Command{
		Use:   "train -c FILE",
		Short: "Train a policy on all skills of a configuration",
		Long: `Train a policy on all skills of a configuration: measure it, run the configured
steps, measure it again, and write a report. The first interrupt finishes the
episodes under way and saves; the second stops at once. Either way --resume goes on
from the newest checkpoint, and so it does after a kill.

While it trains, plugins and judges can be swapped: change them in the configuration,
send SIGHUP to have everything that it names looked up anew, or use
valence plugin swap. A swap holds from the next group on.`,
		Args: cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	cmd.Flags().BoolVar(&resume, "resume", false, "go on with the run if it exists")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "open everything, list the tasks, and train nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		reload := f.again()
		if resume {
			if err := f.takeOrders(); err != nil {
				return err
			}
		}
		s, view, err := a.open(cmd.Context(), f, run.Options{})
		if err != nil {
			return err
		}
		defer view.close()
		defer s.Close()
		if dry {
			view.close()
			return a.out.result(planned(s))
		}
		lost, err := s.Train(cmd.Context(), run.TrainOptions{
			Resume: resume, Drain: a.drain(), Reload: reload, Renew: hangups(cmd.Context()),
		})
		view.close()
		dir := runFolder(s.Config)
		if err != nil {
			return err
		}
		if _, err := report.Write(dir); err != nil {
			return err
		}
		if err := a.out.result(trained{Run: s.Config.Run.Name, Folder: dir, Report: filepath.Join(dir, "report.html"), Excluded: lost}); err != nil {
			return err
		}
		if lost > 0 {
			return statusLosses
		}
		return nil
	}
	return cmd
}

// again reads the configuration as load does now, with further values of --set.
func (f *configFlags) again() run.Reload {
	sets := slices.Clone(f.sets)
	return func(more ...string) (*config.Config, error) { return config.Load(f.path, slices.Concat(sets, more)) }
}

// takeOrders adds what commands set while the run was under way.
func (f *configFlags) takeOrders() error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	sets, err := run.Ordered(cfg)
	f.sets = append(f.sets, sets...)
	return err
}

// hangups tells of SIGHUP until ctx ends.
func hangups(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	in := make(chan os.Signal, 1)
	signal.Notify(in, syscall.SIGHUP)
	go func() {
		defer signal.Stop(in)
		for {
			select {
			case <-ctx.Done():
				return
			case <-in:
				select {
				case out <- struct{}{}:
				default: // one is waiting already
				}
			}
		}
	}()
	return out
}

func runFolder(c *config.Config) string { return filepath.Join(c.Run.Dir, c.Run.Name) }

// trained is the result of train; the figures are those of `valence report`.
type trained struct {
	Run      string `json:"run"`
	Folder   string `json:"folder"`
	Report   string `json:"report"`
	Excluded int    `json:"excluded"` // episodes lost to infrastructure failures
}

func (t trained) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s; the page is %s\n", p.in(p.green, "trained"), t.Folder, t.Report)
	if t.Excluded > 0 {
		fmt.Fprintf(w, "%d episodes were excluded because the infrastructure failed\n", t.Excluded)
	}
}

// plan is the result of train --dry-run.
type plan struct {
	Run    string      `json:"run"`
	Steps  int         `json:"steps"`
	Skills []planSkill `json:"skills"`
}

type planSkill struct {
	Name   string         `json:"name"`
	Plugin string         `json:"plugin"`
	Weight float64        `json:"weight"`
	Train  int            `json:"train"`
	Eval   map[string]int `json:"eval"`
}

func planned(s *run.Setup) plan {
	out := plan{Run: s.Config.Run.Name, Steps: s.Config.Run.Steps}
	for _, k := range s.Skills {
		b := k.Binding()
		p := planSkill{Name: k.Name, Plugin: b.Plugin.String(), Weight: k.Weight, Train: len(b.Train), Eval: map[string]int{}}
		for split, ts := range b.Eval {
			p.Eval[split] = len(ts)
		}
		out.Skills = append(out.Skills, p)
	}
	return out
}

func (d plan) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "run %s, %d steps\n", d.Run, d.Steps)
	g := grid{head: []string{"SKILL", "PLUGIN", "WEIGHT", "TRAIN", "EVAL"}, left: map[int]bool{1: true}}
	for _, k := range d.Skills {
		n := 0
		for _, x := range k.Eval {
			n += x
		}
		g.add(k.Name, k.Plugin, fmt.Sprintf("%.2f", k.Weight), fmt.Sprint(k.Train), fmt.Sprint(n))
	}
	g.write(w, p)
}
