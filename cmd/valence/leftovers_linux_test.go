package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of every orphan below it, so that what
// outlives the program can be found and waited for.
func adopt(t testing.TB) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// patience is how long orphans may take to die. Their kernel kills them; it is
// busy, not asked.
const patience = time.Minute

// orphans waits until every process that the program left has died. The program
// itself must have been waited for.
func orphans(t testing.TB) {
	t.Helper()
	late := time.After(patience)
	for {
		left := children()
		if len(left) == 0 {
			return
		}
		pid := left[0]
		ended := make(chan error, 1)
		go func() {
			_, err := unix.Wait4(pid, nil, 0, nil)
			ended <- err
		}()
		select {
		case <-ended:
		case <-late:
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			unix.Kill(pid, unix.SIGKILL)
			t.Fatalf("process %d outlives the program: %q", pid, line)
		}
	}
}

// children are the processes whose parent this one is.
func children() []int {
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range stats {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		line := string(b)
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _, _ := strings.Cut(line, " ")
			if n, err := strconv.Atoi(pid); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// groupName is how control groups of sandboxes are called; the second number is
// the program's.
var groupName = regexp.MustCompile(`^\d+-(\d+)-\d+\.`)

// leavesNothing checks that no process, mount, control group or temporary file of
// the program is left. After a kill that holds once the next one has run.
func (q *quickstart) leavesNothing(t testing.TB) {
	t.Helper()
	orphans(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(mounts), "\n") {
		if strings.Contains(line, q.tmp) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/valence/*", "/sys/fs/cgroup/*/valence/*"} {
		dirs, _ := filepath.Glob(pattern)
		for _, d := range dirs {
			m := groupName.FindStringSubmatch(filepath.Base(d))
			for _, pid := range q.pids {
				if m != nil && m[1] == strconv.Itoa(pid) {
					t.Errorf("a control group is left: %s", d)
				}
			}
		}
	}
	// The folder that all runs of a user share may stay, empty.
	shared := fmt.Sprintf("valence-%d", os.Getuid())
	for _, dir := range []string{q.tmp, filepath.Join(q.tmp, shared)} {
		left, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range left {
			if e.Name() != shared {
				t.Errorf("a temporary file is left: %s", filepath.Join(dir, e.Name()))
			}
		}
	}
}
