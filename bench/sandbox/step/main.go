// Command step plays the episodes of one training step all at once: local sandboxes,
// the quickstart's skills as WASM, real test runs, the scheduler, advantages. Only
// the policy is a fake: it runs the workspace's tests and then leaves the task's
// reference answer, or nothing, so that every score is known beforehand.
//
//	bench/sandbox/step/run [-tasks 64] [-rollouts 8]
//
// It fails unless every episode is scored, and scored right: an episode that
// suffered from the others and got a 0 for it would show.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/valence-rl/valence/core/sandbox/local"
)

//go:embed world.toml
var world []byte

func main() {
	if local.Init() {
		return
	}
	tasks := flag.Int("tasks", 64, "tasks of the step")
	rollouts := flag.Int("rollouts", 8, "episodes of each task")
	verbose := flag.Bool("v", false, "log failures of the infrastructure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	level := slog.LevelError
	if *verbose {
		level = slog.LevelWarn
	}
	s, err := play(ctx, *tasks, *rollouts, slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err == nil {
		fmt.Print(s)
		err = s.check()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench step:", err)
		os.Exit(1)
	}
}
