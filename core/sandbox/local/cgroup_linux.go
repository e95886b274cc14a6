package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
)

// controllers are what sandboxes are limited by, in both versions of cgroups.
var controllers = []string{"memory", "cpu", "pids"}

// groupFolder holds the groups of every driver on the machine. Below it a group
// is named after its host process, so that groups of the dead are known.
const groupFolder = "valence"

// serverTasks is what a sandbox's first process itself takes of a limit on
// processes that counts all of its threads.
const serverTasks = first.Threads + 6

// groups hands control groups out and takes them back for further use: making and
// removing one costs more than setting new limits.
type groups struct {
	host    string
	unified string            // folder of version 2, "" if version 1 is used
	legacy  map[string]string // folders of version 1 by controller

	mu   sync.Mutex
	made int
	free []*group
}

// spareGroups bounds the groups kept for further use.
const spareGroups = 128

// group is the control groups of one sandbox.
type group struct {
	dirs map[string]string // by controller; version 2 has one folder for all
	fd   *os.File          // of version 2's folder, to start a process in
}

// findGroups gives what this process may make groups in, or nil with the reason.
func findGroups(host string) (*groups, error) {
	unified, legacy := groupMounts()
	var errs []error
	if unified != "" {
		folder, err := unifiedFolder(unified)
		if err == nil {
			g := &groups{host: host, unified: folder}
			g.bury()
			return g, g.try()
		}
		errs = append(errs, fmt.Errorf("version 2: %w", err))
	}
	g := &groups{host: host, legacy: map[string]string{}}
	for _, c := range controllers {
		root, ok := legacy[c]
		if !ok {
			return nil, errors.Join(append(errs, fmt.Errorf("version 1: no %s controller is mounted", c))...)
		}
		folder := filepath.Join(root, groupFolder)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(append(errs, fmt.Errorf("version 1: %w", err))...)
		}
		g.legacy[c] = folder
	}
	g.bury()
	return g, g.try()
}

// groupMounts finds the mount of version 2 and those of version 1 by controller.
func groupMounts() (unified string, legacy map[string]string) {
	legacy = map[string]string{}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", legacy
	}
	for _, line := range strings.Split(string(b), "\n") {
		mount, fs, ok := strings.Cut(line, " - ")
		if !ok {
			continue
		}
		m, f := strings.Fields(mount), strings.Fields(fs)
		if len(m) < 5 || len(f) < 3 {
			continue
		}
		switch f[0] {
		case "cgroup2":
			unified = m[4]
		case "cgroup":
			for _, o := range strings.Split(f[2], ",") {
				legacy[o] = m[4]
			}
		}
	}
	return unified, legacy
}

// unifiedFolder makes the folder below root with the controllers that are needed.
func unifiedFolder(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	have := strings.Fields(string(b))
	var enable []string
	for _, c := range controllers {
		if !contains(have, c) {
			return "", fmt.Errorf("no %s controller", c)
		}
		enable = append(enable, "+"+c)
	}
	folder := filepath.Join(root, groupFolder)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	for _, d := range []string{root, folder} {
		if err := set(d, "cgroup.subtree_control", strings.Join(enable, " ")); err != nil {
			return "", err
		}
	}
	return folder, nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// folders are those that groups lie in, without repetition.
func (g *groups) folders() []string {
	if g.unified != "" {
		return []string{g.unified}
	}
	var out []string
	for _, c := range controllers {
		if d := g.legacy[c]; !contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// bury removes the groups of hosts that are dead.
func (g *groups) bury() {
	for _, folder := range g.folders() {
		old, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range old {
			host, _, ok := strings.Cut(e.Name(), ".")
			if !ok || !e.IsDir() || !dead(host) {
				continue
			}
			removeGroup(filepath.Join(folder, e.Name()))
		}
	}
}

// removeGroup removes a group whose processes are dead or about to be.
func removeGroup(dir string) error {
	const tries = 100
	var err error
	for i := range tries {
		if err = unix.Rmdir(dir); err == nil || err == unix.ENOENT {
			return nil
		}
		if b, e := os.ReadFile(filepath.Join(dir, "cgroup.procs")); e == nil {
			for _, p := range strings.Fields(string(b)) {
				if pid, e := strconv.Atoi(p); e == nil && pid > 1 {
					unix.Kill(pid, unix.SIGKILL)
				}
			}
		}
		time.Sleep(time.Duration(min(i, 10)) * time.Millisecond)
	}
	return &os.PathError{Op: "rmdir", Path: dir, Err: err}
}

// try finds out whether groups can be made and limited at all.
func (g *groups) try() error {
	one, err := g.take(sandbox.DefaultLimits())
	if err != nil {
		return err
	}
	g.give(one)
	return nil
}

// take gives a group with limits l and no process in it.
func (g *groups) take(l sandbox.Limits) (*group, error) {
	g.mu.Lock()
	var one *group
	if n := len(g.free); n > 0 {
		one, g.free = g.free[n-1], g.free[:n-1]
	}
	g.made++
	name := fmt.Sprintf("%s.%d", g.host, g.made)
	g.mu.Unlock()
	if one != nil {
		if err := g.limit(one, l); err == nil {
			return one, nil
		}
		// What the last sandbox wrote may still be being freed.
		g.drop(one)
	}
	one = &group{dirs: map[string]string{}}
	for _, folder := range g.folders() {
		dir := filepath.Join(folder, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			g.drop(one)
			return nil, err
		}
		for _, c := range controllers {
			if g.unified != "" || g.legacy[c] == folder {
				one.dirs[c] = dir
			}
		}
	}
	if g.unified != "" {
		f, err := os.Open(one.dirs["memory"])
		if err != nil {
			g.drop(one)
			return nil, err
		}
		one.fd = f
	}
	if err := g.limit(one, l); err != nil {
		g.drop(one)
		return nil, err
	}
	return one, nil
}

// period is that of the CPU quota, in microseconds.
const period = 100_000

func (g *groups) limit(one *group, l sandbox.Limits) error {
	own := 1 // the thread that forks
	if g.unified != "" {
		own = serverTasks
	}
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Pids+own)
	quota := strconv.Itoa(max(1000, int(l.CPUs*period)))
	if err := set(one.dirs["pids"], "pids.max", pids); err != nil {
		return err
	}
	if g.unified != "" {
		// Absent where the kernel does not account swap.
		if err := set(one.dirs["memory"], "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return errors.Join(
			set(one.dirs["memory"], "memory.max", memory),
			set(one.dirs["cpu"], "cpu.max", quota+" "+strconv.Itoa(period)))
	}
	// Memory with swap may never be the smaller of the two: lift, then set both.
	const swap = "memory.memsw.limit_in_bytes"
	err := set(one.dirs["memory"], swap, "-1")
	counted := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := set(one.dirs["memory"], "memory.limit_in_bytes", memory); err != nil {
		return err
	}
	if counted {
		if err := set(one.dirs["memory"], swap, memory); err != nil {
			return err
		}
	}
	return errors.Join(
		set(one.dirs["cpu"], "cpu.cfs_period_us", strconv.Itoa(period)),
		set(one.dirs["cpu"], "cpu.cfs_quota_us", quota))
}

// joins opens the files by which a sandbox's first process enters the group. In
// version 2 there are none, it is started there. In version 1 the thread that
// forks the commands enters memory and pids alone: what commands use up then does
// not touch the rest of the process.
func (one *group) joins() ([]*os.File, error) {
	if one.fd != nil {
		return nil, nil
	}
	var out []*os.File
	done := map[string]bool{}
	for _, c := range []string{"memory", "pids", "cpu"} {
		dir, file := one.dirs[c], "tasks"
		if done[dir] {
			continue
		}
		done[dir] = true
		if c == "cpu" {
			file = "cgroup.procs"
		}
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// give takes a group back whose processes have been waited for.
func (g *groups) give(one *group) {
	if one == nil {
		return
	}
	g.mu.Lock()
	keep := len(g.free) < spareGroups
	if keep {
		g.free = append(g.free, one)
	}
	g.mu.Unlock()
	if !keep {
		g.drop(one)
	}
}

func (g *groups) drop(one *group) error {
	if one.fd != nil {
		one.fd.Close()
	}
	var errs []error
	for _, d := range one.dirs {
		errs = append(errs, removeGroup(d))
	}
	return errors.Join(errs...)
}

// close removes every group that was given back, and the folders if no other
// driver has groups there.
func (g *groups) close() error {
	g.mu.Lock()
	free := g.free
	g.free = nil
	g.mu.Unlock()
	var errs []error
	for _, one := range free {
		errs = append(errs, g.drop(one))
	}
	for _, f := range g.folders() {
		unix.Rmdir(f)
	}
	return errors.Join(errs...)
}
