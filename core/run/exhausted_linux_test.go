package run

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// short is a driver on a machine that runs out of something while the first sandbox
// of each of the names is made.
type short struct {
	*local.Driver
	without func(t testing.TB) (restore func()) // takes it away
	t       testing.TB

	mu    sync.Mutex
	names map[string]bool
	faced int
}

func (d *short) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.names[spec.Name] {
		return d.Driver.Create(ctx, spec)
	}
	delete(d.names, spec.Name)
	// Some are made from what the driver holds already, or by what took the place of
	// something that went.
	const most = 50
	for range most {
		restore := d.without(d.t)
		b, err := d.Driver.Create(ctx, spec)
		restore()
		if err != nil {
			d.faced++
			return nil, err
		}
		defer b.Close()
	}
	return nil, fmt.Errorf("%d sandboxes were made all the same", most)
}

// noDescriptors leaves this process none but those that are open.
func noDescriptors(t testing.TB) func() {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
}

// spawners are the processes that start sandboxes for this one.
func spawners(t testing.TB) []int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has ended
		}
		for _, p := range bytes.Fields(b) {
			var pid int
			if _, err := fmt.Sscan(string(p), &pid); err != nil {
				t.Fatal(err)
			}
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.HasPrefix(name, []byte("valence-spawner")) {
				out = append(out, pid)
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no spawner was found")
	}
	return out
}

// noMemory has no new program fit into the memory of the spawners' children.
func noMemory(t testing.TB) func() {
	t.Helper()
	var was unix.Rlimit
	// One of a driver that was closed may be about to go, and one that needs memory
	// itself goes with it.
	var all []int
	for _, pid := range spawners(t) {
		switch err := unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY}, &was); err {
		case nil:
			all = append(all, pid)
		case unix.ESRCH:
		default:
			t.Fatal(err)
		}
	}
	return func() {
		for _, pid := range all {
			if err := unix.Prlimit(pid, unix.RLIMIT_AS, &was, nil); err != nil && err != unix.ESRCH {
				t.Error(err)
			}
		}
	}
}

// A machine that runs out of something fails to make a sandbox; the episode is tried
// again, and nobody gets a 0 for it.
func TestExhaustionIsNoScore(t *testing.T) {
	const rolling = "eval-000000-eval-repro-repro/hand-clamp-0"
	for name, without := range map[string]func(testing.TB) func(){"descriptors": noDescriptors, "memory": noMemory} {
		if name == "memory" && raced {
			// The race detector needs memory all the time: a spawner dies of it at once and is
			// replaced, which TestKilledSpawnerIsNoScore is about.
			t.Log("memory: tried without the race detector only")
			continue
		}
		for _, kind := range []string{rolling, "run"} {
			t.Run(name+", "+strings.SplitN(kind, "-", 2)[0], func(t *testing.T) {
				inner := ownDriver(t, local.Options{Dir: t.TempDir()})
				d := &short{Driver: inner, without: without, t: t, names: map[string]bool{kind: true}}
				e, errors := measureOne(t, d)
				if d.faced != 1 {
					t.Fatalf("the machine ran out of it %d times", d.faced)
				}
				if e.Outcome != journal.Scored || e.Score != 1 || e.Attempt != 1 || errors["sandbox"] != 1 || len(errors) != 1 {
					t.Errorf("outcome %q, score %g, attempt %d, failures %v: %s", e.Outcome, e.Score, e.Attempt, errors, e.Error)
				}
			})
		}
	}
}

// A spawner that is killed is replaced, and an episode goes on.
func TestKilledSpawnerIsNoScore(t *testing.T) {
	inner := ownDriver(t, local.Options{Dir: t.TempDir()})
	d := &interrupting{Driver: inner, before: func() {
		for _, pid := range spawners(t) {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
				t.Error(err)
			}
		}
	}}
	e, errors := measureOne(t, d)
	if e.Outcome != journal.Scored || e.Score != 1 || errors["sandbox"] > 1 {
		t.Errorf("outcome %q, score %g, attempt %d, failures %v: %s", e.Outcome, e.Score, e.Attempt, errors, e.Error)
	}
}

// interrupting does something before the first sandbox of an evaluation.
type interrupting struct {
	sandbox.Driver
	before func()
	once   sync.Once
}

func (d *interrupting) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Name == "run" {
		d.once.Do(d.before)
	}
	return d.Driver.Create(ctx, spec)
}

// ownDriver is one that no other test uses. Nothing of it may be left at the end, be
// it a descriptor or a file.
func ownDriver(t *testing.T, o local.Options) *local.Driver {
	t.Helper()
	for _, p := range []string{"plugins/repro", "plugins/judges/rules"} {
		plugin(t, p) // which stays open
	}
	before := descriptors(t)
	d, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors are open, %d were", after, before)
		}
		if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
			t.Errorf("left in the driver's directory: %v, %v", left, err)
		}
	})
	return d
}

func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// measureOne plays an episode that deserves a 1, with one retry, and gives it with the
// failures that were counted.
func measureOne(t *testing.T, d sandbox.Driver) (journal.Episode, map[string]int) {
	t.Helper()
	k := skillOn(t, d, "repro")
	k.Binding().Eval["eval"] = []*sdk.Task{task(t, k, clamp, 1)}
	p := policy.NewScripted("scripted", func(*sdk.Task, uint64) []policy.Turn {
		return []policy.Turn{create("reproduce.py", "from shop import *\nassert clamp(3, 0, 2) == 2\n"), say("")}
	})
	_, episodes, errors := measuredOnce(t, d, k, p)
	return episodes[0], errors
}

// smallDisk, in the environment, is a folder that a test run makes a small disk.
const smallDisk = "VALENCE_TEST_DISK"

// ballast fills a disk while the sandboxes of a name are made or used, the first time.
type ballast struct {
	sandbox.Driver
	t      *testing.T
	disk   string
	kind   string
	during string // "create" or "exec"
	spent  bool
}

func (d *ballast) fill() {
	f, err := os.Create(filepath.Join(d.disk, "ballast"))
	if err != nil {
		d.t.Error(err)
		return
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(b)
	}
	d.spent = true
}

func (d *ballast) empty() {
	if err := os.Remove(filepath.Join(d.disk, "ballast")); err != nil {
		d.t.Error(err)
	}
}

func (d *ballast) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if d.spent || spec.Name != d.kind {
		return d.Driver.Create(ctx, spec)
	}
	if d.during == "create" {
		d.fill()
		defer d.empty()
		// A workspace of its own, as others lie on the disk already.
		spec.Workspace.Files = append(spec.Workspace.Files[:len(spec.Workspace.Files):len(spec.Workspace.Files)], sdk.File{Path: "large", Data: make([]byte, 1<<20)})
	}
	b, err := d.Driver.Create(ctx, spec)
	if err != nil || d.during == "create" {
		return b, err
	}
	return heavy{b, d}, nil
}

type heavy struct {
	sandbox.Sandbox
	driver *ballast
}

func (b heavy) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if !b.driver.spent {
		b.driver.fill()
		defer b.driver.empty()
	}
	return b.Sandbox.Exec(ctx, c)
}

// A full disk of the host costs an attempt, and nobody a score.
func TestFullDiskIsNoScore(t *testing.T) {
	disk := os.Getenv(smallDisk)
	if disk == "" {
		if os.Geteuid() != 0 {
			t.Log("only root can make a small disk; nothing was tried")
			return
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run", "^TestFullDiskIsNoScore$")
		cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("small", disk, "tmpfs", 0, "size=64m"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const rolling = "eval-000000-eval-repro-repro/hand-clamp-0"
	for _, c := range []struct {
		name, kind, during string
		upper              local.Upper
	}{
		{"rollout begins", rolling, "create", local.UpperMemory},
		{"evaluation begins", "run", "create", local.UpperMemory},
		{"evaluation begins, on disk", "run", "create", local.UpperDisk},
		{"evaluation, on disk", "run", "exec", local.UpperDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(disk, "driver")
			d := &ballast{Driver: ownDriver(t, local.Options{Dir: dir, Upper: c.upper}), t: t, disk: disk, kind: c.kind, during: c.during}
			e, errors := measureOne(t, d)
			if !d.spent {
				t.Fatal("the disk was never full")
			}
			if e.Outcome != journal.Scored || e.Score != 1 || e.Attempt != 1 || errors[string(diag.KindSandbox)] != 1 || len(errors) != 1 {
				t.Errorf("outcome %q, score %g, attempt %d, failures %v: %s", e.Outcome, e.Score, e.Attempt, errors, e.Error)
			}
		})
	}
}
