package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
)

// checkPython looks for the interpreter that runs Python tasks, where sandboxes
// will look for it.
func checkPython(ctx context.Context) check {
	c := check{Name: "python3", Kind: diag.KindSandbox}
	program, err := local.Python()
	if err != nil {
		c.Status, c.Detail, c.Remedy = statusFail, err.Error(), "install Python 3.8 or newer so that python3 is on PATH, e.g. apt-get install python3"
		return c.explain(err)
	}
	out, err := exec.CommandContext(ctx, program, "-I", "-S", "-c", "import platform; print(platform.python_version())").Output()
	if err != nil {
		c.Status, c.Detail, c.Remedy = statusFail, program+" does not run: "+err.Error(), "reinstall Python"
		return c
	}
	c.Status, c.Detail = statusOK, strings.TrimSpace(string(out))+" at "+program
	return c
}

// checkSandbox makes a sandbox and reports what separates it from this machine.
func checkSandbox(context.Context) check {
	c := check{Name: "sandbox", Kind: diag.KindSandbox}
	d, err := local.New(local.Options{Dir: run.SandboxDir()})
	if err != nil {
		c.Status, c.Detail = statusFail, err.Error()
		c = c.explain(err)
		if bare, e := local.New(local.Options{Dir: run.SandboxDir(), Bare: true}); e == nil {
			defer bare.Close()
			i := bare.Isolation()
			c.Detail += fmt.Sprintf("; with [sandbox] bare = true: %s: %s, not isolated; limits on %s", i.Driver, i.Level, strings.Join(i.Limits, ", "))
		}
		return c
	}
	defer d.Close()
	return c.isolation(d.Isolation())
}

// checkCluster makes a sandbox as cfg says, in its cluster.
func checkCluster(cfg *config.Config, log *slog.Logger) func(context.Context) check {
	return func(ctx context.Context) check {
		c := check{Name: "sandbox", Kind: diag.KindSandbox}
		d, err := run.Sandboxes(ctx, cfg, log, nil)
		if err != nil {
			c.Status, c.Detail = statusFail, err.Error()
			return c.explain(err)
		}
		c = c.isolation(d.Isolation())
		if err := d.Close(); err != nil {
			c.Status, c.Detail = statusFail, err.Error()
		}
		return c
	}
}

// isolation reports what a driver says of itself.
func (c check) isolation(i sandbox.Isolation) check {
	c.Status, c.Detail = statusOK, fmt.Sprintf("%s: %s; limits on %s", i.Driver, i.Level, strings.Join(i.Limits, ", "))
	if len(i.Missing) > 0 {
		c.Status = statusWarn
		c.Remedy = "not enforced: " + strings.Join(i.Missing, "; ")
	}
	return c
}
