package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

func newDriver(t *testing.T) *Driver {
	t.Helper()
	return driverWith(t, Options{Dir: t.TempDir()})
}

func driverWith(t *testing.T, o Options) *Driver {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestReservedDirectories(t *testing.T) {
	d := newDriver(t)
	for _, dir := range []string{"/usr", "/usr/src/app", "/etc", "/proc/x", "/dev", "/lib64"} {
		if _, err := d.Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Dir: dir}}); diag.KindOf(err) != diag.KindData {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

// A creation that fails at any point must come to an end and leave nothing.
func TestCreateFails(t *testing.T) {
	d := newDriver(t)
	for name, spec := range map[string]sandbox.Spec{
		"inside":   {Workspace: sdk.Workspace{Dir: "/" + strings.Repeat("x", 300)}},
		"too late": {Limits: sandbox.Limits{Create: time.Nanosecond}},
		"no room":  {Limits: sandbox.Limits{Disk: 4096}},
	} {
		if _, err := d.Create(t.Context(), spec); diag.KindOf(err) != diag.KindSandbox {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if s, err := d.Create(ctx, sandbox.Spec{}); err == nil {
			s.Close()
			<-s.(*box).dead
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.boxes) > 0 {
		t.Errorf("%d sandboxes are left", len(d.boxes))
	}
}

// The interpreter works inside, at the path that Python names.
func TestPythonInside(t *testing.T) {
	path, err := Python()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newDriver(t).Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), sandbox.Command{Shell: `python3 -c 'import sys, unittest, json, ctypes; print(sys.executable)'; command -v python3`})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("code %d, %s, %v", r.ExitCode, r.Output, err)
	}
	if want := filepath.Dir(path); !strings.Contains(string(r.Output), want) && want != "/usr/bin" {
		t.Errorf("got %s, want something in %s", r.Output, want)
	}
}

func TestPythonMissing(t *testing.T) {
	for name, script := range map[string]string{"absent": "", "broken": "#!/bin/sh\nexit 1\n", "silent": "#!/bin/sh\n"} {
		dir := t.TempDir()
		if script != "" {
			if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		_, err := Python()
		var d *diag.Diagnostic
		if !errors.As(err, &d) || d.Kind != diag.KindSandbox || !strings.Contains(d.Hint, "install") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A spawner that dies takes no sandbox with it, and another one takes its place.
func TestSpawnerDies(t *testing.T) {
	d := newDriver(t)
	s, err := d.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.spawners.all {
		if err := p.process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.dead
	}
	for range 2 * forkers() {
		other, err := d.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := other.Exec(t.Context(), sandbox.Command{Shell: "echo x"}); err != nil || string(r.Output) != "x\n" {
			t.Errorf("%q, %v", r.Output, err)
		}
		other.Close()
	}
	if r, err := s.Exec(t.Context(), sandbox.Command{Shell: "echo x"}); err != nil || string(r.Output) != "x\n" {
		t.Errorf("%q, %v", r.Output, err)
	}
	s.Close()
	<-s.(*box).dead
}

// When the first process dies, by whatever means, the error says how.
func TestFirstProcessDies(t *testing.T) {
	s, err := newDriver(t).Create(t.Context(), sandbox.Spec{Name: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	s.(*box).process.kill()
	_, err = s.Exec(t.Context(), sandbox.Command{Shell: "sleep 1000"})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "killed") || !strings.Contains(err.Error(), "victim") {
		t.Errorf("got %v", err)
	}
}

// Where memory cannot be limited as a whole, a single process still is.
func TestDataLimit(t *testing.T) {
	d := newDriver(t)
	if slices.Contains(d.Isolation().Limits, "memory") {
		return
	}
	s, err := d.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{Memory: 100 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), sandbox.Command{Shell: "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c"})
	if err != nil || strings.Contains(string(r.Output), "300000000") {
		t.Errorf("%s, %v", r.Output, err)
	}
}

func TestMerge(t *testing.T) {
	got := sandbox.MergeEnv([]string{"A=1", "B=2"}, nil, []string{"B=3", "C=4"}, []string{"A=5"})
	if d := cmp.Diff([]string{"A=5", "B=3", "C=4"}, got); d != "" {
		t.Error(d)
	}
}

func TestDead(t *testing.T) {
	own, err := processName(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(own, "-")
	for name, want := range map[string]bool{
		own:                            false,
		part[0] + "-" + part[1] + "-1": true,  // the number has been used again
		part[0] + "-999999999-1":       true,  // nobody has it
		"1-" + part[1] + "-1":          false, // elsewhere, nobody knows
		"junk":                         false,
		"a-b-c":                        false,
	} {
		if dead(name) != want {
			t.Errorf("%s: dead is %v", name, !want)
		}
	}
}

// Files of drivers that are alive must be left alone.
func TestTwoDriversInOneDirectory(t *testing.T) {
	dir := t.TempDir()
	var all []*Driver
	for range 2 {
		d, err := New(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		all = append(all, d)
	}
	for _, d := range all {
		s, err := d.Create(t.Context(), sandbox.Spec{Workspace: benchWorkspace})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(t.Context(), "test.py", 0); err != nil {
			t.Error(err)
		}
	}
}
