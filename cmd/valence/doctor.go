package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
)

// check is one line of the doctor's findings.
type check struct {
	Name   string    `json:"name"`
	Status string    `json:"status"` // ok, warn, FAIL
	Detail string    `json:"detail"`
	Remedy string    `json:"remedy,omitempty"`
	Kind   diag.Kind `json:"kind,omitempty"` // decides the exit code of a FAIL
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "FAIL"
)

// findings is the result of doctor.
type findings struct {
	Checks []check `json:"checks"`
	Failed int     `json:"failed"`
	quiet  bool
}

func (f findings) table(w io.Writer, p palette) {
	for _, c := range f.Checks {
		if f.quiet && c.Status != statusFail {
			continue
		}
		colour := map[string]string{statusOK: p.green, statusWarn: p.yellow, statusFail: p.red}[c.Status]
		fmt.Fprintf(w, "%s %-10s %s\n", p.in(colour, fmt.Sprintf("%-4s", c.Status)), c.Name, c.Detail)
		if c.Remedy != "" {
			fmt.Fprintf(w, "     %-10s %s\n", "", c.Remedy)
		}
	}
}

// The least a comfortable run wants; below it doctor warns.
const (
	wantMemory = 2 << 30
	wantDisk   = 2 << 30
)

func newDoctorCommand(a *app) *cobra.Command {
	var file configFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine offers to a run, and say how to mend it",
		Long: "Check what this machine offers to a run, and say how to mend it. With -c it is the run of that\n" +
			"configuration: where it brings its sandboxes to a cluster, one is made there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			looks := []func(context.Context) check{checkGo, checkPython, checkSandbox, checkCgroups, checkCPU, checkMemory, checkDisk}
			patience := time.Minute
			if file.path != "" || len(file.sets) > 0 {
				c, err := file.load()
				if err != nil {
					return err
				}
				if c.Sandbox.Driver == "kube" {
					looks = []func(context.Context) check{checkGo, checkCluster(c, a.logger()), checkCPU, checkMemory, checkDisk}
					patience += c.Sandbox.Kube.CreateTimeout
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			f := findings{quiet: a.quiet}
			for _, look := range looks {
				c := look(ctx)
				if c.Status == statusFail {
					f.Failed++
				} else {
					c.Kind = ""
				}
				f.Checks = append(f.Checks, c)
			}
			if err := a.out.result(f); err != nil {
				return err
			}
			for _, c := range f.Checks {
				if c.Status == statusFail {
					return diag.Errorf(c.Kind, "doctor", c.Name, "%s", c.Detail)
				}
			}
			return nil
		},
	}
	file.add(cmd)
	return cmd
}

// checkGo looks for the tool chain that compiles plugins from their folders.
func checkGo(ctx context.Context) check {
	c := check{Name: "go", Kind: diag.KindPlugin}
	out, err := exec.CommandContext(ctx, "go", "version").Output()
	if err != nil {
		c.Status, c.Detail = statusWarn, "no Go tool chain on PATH: plugins can be loaded as .wasm files only"
		c.Remedy = "install Go 1.26 or newer from https://go.dev/dl to build plugins from source"
		return c
	}
	c.Status, c.Detail = statusOK, strings.TrimPrefix(strings.TrimSpace(string(out)), "go version ")
	return c
}

// explain takes summary and remedy from a diagnostic.
func (c check) explain(err error) check {
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		c.Detail = d.Summary
		if d.Hint != "" {
			c.Remedy = d.Hint
		}
	}
	return c
}

// checkCgroups looks for a hierarchy that limits can be written to.
func checkCgroups(context.Context) check {
	c := check{Name: "cgroups", Kind: diag.KindSandbox}
	root := os.Geteuid() == 0
	for _, h := range []struct{ name, probe, dir string }{
		{"v2", "/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup"},
		{"v1", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory"},
	} {
		if _, err := os.Stat(h.probe); err != nil {
			continue
		}
		if unix.Access(h.dir, unix.W_OK) == nil {
			c.Status, c.Detail = statusOK, h.name+", writable at "+h.dir
			return c
		}
		c.Status, c.Detail = statusWarn, h.name+" is mounted at "+h.dir+" but cannot be written: memory and processor limits are weaker"
		c.Remedy = "run as root, or delegate a cgroup to this user (systemd-run --user --scope -p Delegate=yes)"
		if root {
			c.Remedy = "remount it writable, or start this container with a writable /sys/fs/cgroup"
		}
		return c
	}
	c.Status, c.Detail = statusWarn, "no cgroup hierarchy: memory and processor limits are weaker"
	c.Remedy = "mount cgroup2 at /sys/fs/cgroup"
	return c
}

func checkCPU(context.Context) check {
	return check{Name: "cpu", Status: statusOK, Detail: fmt.Sprintf("%d cores, %s", runtime.GOMAXPROCS(0), runtime.GOARCH)}
}

// checkMemory reads what is free for sandboxes and the engine.
func checkMemory(context.Context) check {
	c := check{Name: "memory"}
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		c.Status, c.Detail = statusWarn, "unknown: "+err.Error()
		return c
	}
	defer f.Close()
	var available int64
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			available = kib << 10
		}
	}
	c.Status, c.Detail = statusOK, roughly(available)+" available"
	if available < wantMemory {
		c.Status, c.Remedy = statusWarn, "lower rollout.concurrency and sandbox.memory: a run wants "+roughly(wantMemory)
	}
	return c
}

// checkDisk reads what is free where runs and sandboxes write.
func checkDisk(context.Context) check {
	c := check{Name: "disk", Status: statusOK}
	var parts []string
	seen := map[string]bool{}
	for _, dir := range []string{".", os.TempDir()} {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			c.Status = statusWarn
			parts = append(parts, dir+": "+err.Error())
			continue
		}
		free := int64(s.Bavail) * int64(s.Bsize)
		part := fmt.Sprintf("%s free", roughly(free))
		if id := fmt.Sprint(s.Fsid); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		parts = append(parts, part+" at "+dir)
		if free < wantDisk {
			c.Status, c.Remedy = statusWarn, "free some: runs keep every episode and "+roughly(wantDisk)+" is a comfortable start"
		}
	}
	c.Detail = strings.Join(parts, ", ")
	return c
}

// roughly shows a size with one decimal.
func roughly(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return config.Size(n).String()
}
