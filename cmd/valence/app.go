package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"

	"github.com/spf13/cobra"
)

// app is what every verb shares: the streams, how results and errors are shown,
// and the user's wish to stop.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	output   string // table, json, jsonl
	progress string // auto, plain, none
	color    string // auto, always, never
	quiet    bool
	verbose  int

	began    bool // a verb's own code has been reached; errors before are usage
	out      *printer
	draining chan struct{} // closed by the first interrupt
	claimed  atomic.Bool   // a verb answers to draining
}

// execute is the whole program; it gives the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, draining: make(chan struct{})}
	a.out = &printer{app: a}
	ctx, stop := a.signals(context.Background())
	defer stop()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !a.began {
		err = usage(err)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil && diag.KindOf(err) != diag.KindInterrupted {
		// Whatever could not be done, this is why.
		err = &diag.Error{Kind: diag.KindInterrupted, Op: "interrupted", Err: err}
	}
	a.fail(err)
	return exitCode(err)
}

// signals makes the context that ends with the second interrupt, or with the first
// if the verb has not claimed [app.drain].
func (a *app) signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-c:
			case <-done:
				return
			}
			if n == 0 {
				close(a.draining)
			}
			if n > 0 || !a.claimed.Load() {
				cancel()
			}
		}
	}()
	return ctx, func() { signal.Stop(c); close(done); cancel() }
}

// drain gives the channel that the first interrupt closes, and from then on leaves
// the verb's context alive until the second: finish what is under way, save, and
// return a diag.Error of KindInterrupted.
func (a *app) drain() <-chan struct{} {
	a.claimed.Store(true)
	return a.draining
}

// exitStatus ends the program with a code of its own, without an error message:
// 3 for a run with losses, 4 for a missed gate.
type exitStatus int

const (
	statusLosses exitStatus = 3
	statusGate   exitStatus = 4
)

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func exitCode(err error) int {
	var s exitStatus
	if errors.As(err, &s) {
		return int(s)
	}
	return diag.KindOf(err).ExitCode()
}

// usage makes a diagnostic of what the command line's parser found.
func usage(err error) error {
	if k := diag.KindOf(err); k != diag.KindUnknown {
		return err
	}
	msg := err.Error()
	head, rest, _ := strings.Cut(msg, "\n")
	d := &diag.Diagnostic{Kind: diag.KindConfig, Code: "C040", Summary: head, Hint: "valence --help lists verbs; valence VERB --help lists flags"}
	if _, near, ok := strings.Cut(rest, "Did you mean this?"); ok {
		if words := strings.Fields(near); len(words) > 0 {
			d.Hint = fmt.Sprintf("did you mean %q?", words[0])
		}
	}
	return d
}

// logger writes to standard error: warnings, with -v information, with -vv
// everything, with -q errors only.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	switch {
	case a.quiet:
		level = slog.LevelError
	case a.verbose == 1:
		level = slog.LevelInfo
	case a.verbose > 1:
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// isTerminal tells whether a stream is a screen that can be drawn on.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// paint gives the colours for a stream: none with NO_COLOR, else as --color says.
func (a *app) paint(w any) palette {
	switch {
	case os.Getenv("NO_COLOR") != "":
		return palette{}
	case a.color == "always", a.color != "never" && isTerminal(w):
		return colours
	}
	return palette{}
}

// configFlags are those of a verb that reads a run's configuration.
type configFlags struct {
	path   string
	sets   []string
	locked bool
}

// configFlags adds -c, --set and --locked to a verb.
func (a *app) configFlags(cmd *cobra.Command) *configFlags {
	f := &configFlags{}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.locked, "locked", false, "refuse plugins that the lock file does not pin")
	return f
}

// add adds -c and --set.
func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "configuration of the run, a TOML `file`")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "override a key of the configuration, `section.key=value`; may be repeated")
	cmd.MarkFlagFilename("config", "toml")
}

// load reads the configuration that the flags name.
func (f *configFlags) load() (*config.Config, error) {
	if f.path == "" {
		return nil, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C041", Summary: "no configuration given", Hint: "name it with -c FILE, e.g. -c examples/quickstart/run.toml"}
	}
	return config.Load(f.path, f.sets)
}
