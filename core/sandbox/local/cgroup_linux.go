package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// controllers are what sandboxes are limited by, in both versions of cgroups.
var controllers = []string{"memory", "cpu", "pids"}

// groupFolder holds the groups of every driver on the machine. Below it a group
// is named after its host process, so that groups of the dead are known.
const groupFolder = "valence"

// serverTasks is what a sandbox's first process itself takes of a limit on
// processes that counts all of its threads.
const serverTasks = toolserver.Threads + 6

// groupFiles is the edge to the kernel's file system of control groups, in which a
// folder that is made has its files at once and is removed with them.
type groupFiles struct {
	mkdir, rmdir func(dir string) error
}

var kernelGroups = groupFiles{
	mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
	rmdir: func(dir string) error {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		return nil
	},
}

// mounted says where control groups are.
type mounted struct {
	files   groupFiles
	unified string            // mount of version 2; "": none
	own     string            // this process's group below it, with a slash in front
	legacy  map[string]string // mounts of version 1 by controller
}

// groups hands control groups out and takes them back for further use: making and
// removing one costs more than setting new limits.
type groups struct {
	files   groupFiles
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
	has  sandbox.Limits    // memory, CPUs and pids as set
}

// findGroups gives what this process may make groups in: version 2 where it has the
// controllers, else version 1. Where there is neither, the error says why.
func findGroups(host string, m mounted) (*groups, error) {
	var errs []error
	if m.unified != "" {
		folder, err := m.unifiedFolder()
		if err == nil {
			g := &groups{files: m.files, host: host, unified: folder}
			g.bury()
			return g, g.try()
		}
		errs = append(errs, fmt.Errorf("version 2: %w", err))
	}
	g := &groups{files: m.files, host: host, legacy: map[string]string{}}
	for _, c := range controllers {
		root, ok := m.legacy[c]
		if !ok {
			return nil, errors.Join(append(errs, fmt.Errorf("version 1: no %s controller is mounted", c))...)
		}
		folder := filepath.Join(root, groupFolder)
		if err := m.files.mkdir(folder); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(append(errs, fmt.Errorf("version 1: %w", err))...)
		}
		g.legacy[c] = folder
	}
	g.bury()
	return g, g.try()
}

// mountedGroups finds the mount of version 2 and those of version 1 by controller.
func mountedGroups() mounted {
	m := mounted{files: kernelGroups, legacy: map[string]string{}}
	if b, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for line := range strings.Lines(string(b)) {
			if own, ok := strings.CutPrefix(line, "0::"); ok {
				m.own = strings.TrimSpace(own)
			}
		}
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return m
	}
	for _, line := range strings.Split(string(b), "\n") {
		mount, fs, ok := strings.Cut(line, " - ")
		if !ok {
			continue
		}
		at, f := strings.Fields(mount), strings.Fields(fs)
		if len(at) < 5 || len(f) < 3 {
			continue
		}
		switch f[0] {
		case "cgroup2":
			m.unified = at[4]
		case "cgroup":
			for _, o := range strings.Split(f[2], ",") {
				m.legacy[o] = at[4]
			}
		}
	}
	return m
}

// unifiedFolder makes the folder of version 2 with the controllers that are needed:
// below the root where that is allowed, else below this process's own group, which
// a service manager may have delegated to it.
func (m mounted) unifiedFolder() (string, error) {
	folder, err := m.folderBelow(m.unified)
	if err == nil || m.own == "" {
		return folder, err
	}
	own := filepath.Join(m.unified, m.own)
	// A group with processes of its own can hand no controller on, so this process
	// moves one down, if it is the only one there.
	procs, e := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	if pid := strconv.Itoa(os.Getpid()); e != nil || strings.TrimSpace(string(procs)) != pid {
		return "", err
	} else if e := m.stepDown(own, pid); e != nil {
		return "", errors.Join(err, e)
	}
	folder, e = m.folderBelow(own)
	if e != nil {
		return "", errors.Join(err, e)
	}
	return folder, nil
}

// stepDown moves process pid into a group of its own below dir.
func (m mounted) stepDown(dir, pid string) error {
	leaf := filepath.Join(dir, "valence-host")
	if err := m.files.mkdir(leaf); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return set(leaf, "cgroup.procs", pid)
}

func (m mounted) folderBelow(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	have := strings.Fields(string(b))
	var enable []string
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			return "", fmt.Errorf("no %s controller in %s", c, root)
		}
		enable = append(enable, "+"+c)
	}
	if err := set(root, "cgroup.subtree_control", strings.Join(enable, " ")); err != nil {
		return "", err
	}
	folder := filepath.Join(root, groupFolder)
	if err := m.files.mkdir(folder); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return folder, set(folder, "cgroup.subtree_control", strings.Join(enable, " "))
}

func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_TRUNC, 0)
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
		if d := g.legacy[c]; !slices.Contains(out, d) {
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
			g.files.remove(filepath.Join(folder, e.Name()))
		}
	}
}

// remove removes a group whose processes are dead or about to be.
func (f groupFiles) remove(dir string) error {
	const tries = 100
	var err error
	for i := range tries {
		if err = f.rmdir(dir); err == nil {
			return nil
		}
		killGroup(dir)
		time.Sleep(time.Duration(min(i, 10)) * time.Millisecond)
	}
	return err
}

// killGroup kills what runs in a group: at one stroke where the kernel can (version
// 2 from Linux 5.14 on), else one by one, which new processes may outrun.
func killGroup(dir string) {
	if set(dir, "cgroup.kill", "1") == nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, p := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(p); err == nil && pid > 1 {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
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
		if err := g.files.mkdir(dir); err != nil {
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

// limit sets the limits of a group that no command has been started in.
func (g *groups) limit(one *group, l sandbox.Limits) error {
	want := sandbox.Limits{Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids}
	if one.has == want {
		return nil
	}
	one.has = sandbox.Limits{}
	if err := g.write(one, l); err != nil {
		return err
	}
	one.has = want
	return nil
}

func (g *groups) write(one *group, l sandbox.Limits) error {
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
		errs = append(errs, g.files.remove(d))
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
		g.files.rmdir(f) // refused while another driver has groups there
	}
	return errors.Join(errs...)
}
