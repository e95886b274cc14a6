package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
)

// fakeGroups stands in for the kernel's file system of version 2: a plain folder in
// which a group gets its files when it is made. It shows what is written where; that
// the kernel acts on it only a machine with these controllers can show.
type fakeGroups struct{ root string }

func newFakeGroups(t *testing.T, available string) fakeGroups {
	t.Helper()
	f := fakeGroups{root: filepath.Join(t.TempDir(), "cgroup2")}
	if err := f.files().mkdir(f.root); err != nil {
		t.Fatal(err)
	}
	f.write(t, "cgroup.controllers", available)
	return f
}

func (f fakeGroups) files() groupFiles {
	return groupFiles{
		mkdir: func(dir string) error {
			err := os.Mkdir(dir, 0o755)
			for _, name := range []string{"cgroup.controllers", "cgroup.subtree_control", "cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "pids.max", "cpu.max"} {
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), nil, 0o644)
				}
			}
			return err
		},
		rmdir: func(dir string) error {
			entries, err := os.ReadDir(dir)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			for _, e := range entries {
				if e.IsDir() {
					return unix.EBUSY
				}
			}
			if b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")); len(b) > 0 {
				if kill, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill")); string(kill) != "1" {
					return unix.EBUSY
				}
			}
			return os.RemoveAll(dir)
		},
	}
}

func (f fakeGroups) write(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.root, name), []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (f fakeGroups) want(t *testing.T, dir, name, value string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != value {
		t.Errorf("%s in %s: %q, %v; want %q", name, dir, b, err, value)
	}
}

const allControllers = "cpuset cpu io memory hugetlb pids"

func TestVersion2Limits(t *testing.T) {
	f := newFakeGroups(t, allControllers)
	g, err := findGroups("1-2-3", mounted{files: f.files(), unified: f.root, legacy: map[string]string{"memory": "/nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	f.want(t, f.root, "cgroup.subtree_control", "+memory +cpu +pids")
	f.want(t, g.unified, "cgroup.subtree_control", "+memory +cpu +pids")
	one, err := g.take(sandbox.Limits{Memory: 64 << 20, CPUs: 0.5, Pids: 10})
	if err != nil {
		t.Fatal(err)
	}
	dir := one.dirs["memory"]
	f.want(t, dir, "memory.max", "67108864")
	f.want(t, dir, "memory.swap.max", "0")
	f.want(t, dir, "cpu.max", "50000 100000")
	f.want(t, dir, "pids.max", "24") // and the first process's threads
	if files, err := one.joins(); err != nil || len(files) > 0 || one.fd == nil {
		t.Errorf("a process is started in the group, and not moved there: %v, %v, %v", files, one.fd, err)
	}
	g.give(one)
	again, err := g.take(sandbox.Limits{Memory: 32 << 20, CPUs: 2, Pids: 20})
	if err != nil || again.dirs["memory"] != dir {
		t.Fatalf("the group was not used again: %v, %v", again, err)
	}
	f.want(t, dir, "cpu.max", "200000 100000")
	f.want(t, dir, "memory.max", "33554432")
	g.give(again)
	if err := g.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.unified); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", g.unified, err)
	}
}

// Where the root belongs to others, a delegated group does.
func TestVersion2Delegated(t *testing.T) {
	f := newFakeGroups(t, "cpu")
	own := filepath.Join(f.root, "service")
	if err := f.files().mkdir(own); err != nil {
		t.Fatal(err)
	}
	pid := strings.Fields(readFile(t, "/proc/self/stat"))[0]
	f.write(t, "service/cgroup.controllers", allControllers)
	m := mounted{files: f.files(), unified: f.root, own: "/service"}
	f.write(t, "service/cgroup.procs", pid+"\n1\n")
	if g, err := findGroups("1-2-3", m); err == nil {
		t.Errorf("a group with strangers in it was taken: %+v", g)
	}
	f.write(t, "service/cgroup.procs", pid+"\n")
	g, err := findGroups("1-2-3", m)
	if err != nil {
		t.Fatal(err)
	}
	f.want(t, filepath.Join(own, "valence-host"), "cgroup.procs", pid)
	f.want(t, own, "cgroup.subtree_control", "+memory +cpu +pids")
	if g.unified != filepath.Join(own, groupFolder) {
		t.Errorf("groups are made in %s", g.unified)
	}
}

func TestVersionsMissing(t *testing.T) {
	f := newFakeGroups(t, "hugetlb")
	_, err := findGroups("1-2-3", mounted{files: f.files(), unified: f.root, legacy: map[string]string{}})
	if err == nil || !strings.Contains(err.Error(), "version 2: no memory controller") || !strings.Contains(err.Error(), "version 1: no memory controller") {
		t.Errorf("got %v", err)
	}
}

// What a killed host left in version 2 is killed at one stroke and removed.
func TestVersion2Burial(t *testing.T) {
	f := newFakeGroups(t, allControllers)
	own, err := processName(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	stale := strings.Split(own, "-")[0] + "-999999999-1.abc.1"
	folder := filepath.Join(f.root, groupFolder)
	for _, d := range []string{folder, filepath.Join(folder, stale), filepath.Join(folder, own+".x.1")} {
		if err := f.files().mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	f.write(t, groupFolder+"/"+stale+"/cgroup.procs", "999999998\n")
	if _, err := findGroups("1-2-3", mounted{files: f.files(), unified: f.root}); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*-999999999-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(folder, own+".x.1")); err != nil {
		t.Errorf("the group of one who lives is gone: %v", err)
	}
}

// On the kernel's own version 2, with or without controllers: a process starts in
// its group, and the group is killed at one stroke.
func TestVersion2Kernel(t *testing.T) {
	m := mountedGroups()
	if m.unified == "" || os.Geteuid() != 0 {
		t.Log("no cgroup2 is mounted, or it belongs to root: nothing was tested")
		return
	}
	dir, err := os.MkdirTemp(m.unified, "valence-test-")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("sh", "-c", "sleep 100008 & echo; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if n := len(strings.Fields(readFile(t, filepath.Join(dir, "cgroup.procs")))); n != 2 {
		t.Errorf("%d processes in the group, want 2", n)
	}
	if err := kernelGroups.remove(dir); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
