package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is what many sandboxes at once are like.
type crowd struct {
	Alive      int     `json:"alive"`
	Level      string  `json:"level"`
	Made       float64 `json:"made_s"`
	Answered   float64 `json:"answered_s"`
	KiB        int     `json:"memory_kib"`         // of each one's processes, host included
	MachineKiB int     `json:"machine_memory_kib"` // what the machine has less, for each
	Gone       float64 `json:"gone_s"`             // from the kill of the host to the end of the last process
	Left       string  `json:"left"`               // after the next host has started
}

// gather makes n sandboxes, has all answer, kills their host and looks for what is left.
func gather(p *place, l level, n int) (*crowd, error) {
	l.dir += "-crowd"
	c := &crowd{Alive: n, Level: l.name}
	mounts, err := countMounts()
	if err != nil {
		return nil, err
	}
	before, err := available()
	if err != nil {
		return nil, err
	}
	w, err := newWorker(p, l)
	if err != nil {
		return nil, err
	}
	defer w.close()
	host := w.cmd.Process.Pid
	own, err := w.memory(nil)
	if err != nil {
		return nil, err
	}
	r, err := w.do(order{Do: doHold, Count: n, Beside: beside})
	if err != nil {
		return nil, err
	}
	c.Made = r.Took.Seconds()
	if r, err = w.do(order{Do: doAnswer, Beside: beside}); err != nil {
		return nil, err
	}
	c.Answered = r.Took.Seconds()
	after, err := available()
	if err != nil {
		return nil, err
	}
	c.MachineKiB = (before - after) / n
	all, err := w.memory(nil)
	if err != nil {
		return nil, err
	}
	c.KiB = (all - own) / n

	pids, err := descent(host)
	if err != nil {
		return nil, err
	}
	if len(pids) <= n {
		return nil, fmt.Errorf("%d processes of %d sandboxes found", len(pids), n)
	}
	var ends []unix.PollFd
	defer func() {
		for _, e := range ends {
			unix.Close(int(e.Fd))
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ends = append(ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	began := time.Now()
	if err := w.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	var left []string
	alive := 0
	for i := range ends {
		if _, err := unix.Poll(ends[i:i+1], int(max(0, time.Minute-time.Since(began))/time.Millisecond)); err != nil && err != unix.EINTR {
			return nil, err
		}
		if ends[i].Revents == 0 {
			alive++
		}
	}
	c.Gone = time.Since(began).Seconds()
	if alive > 0 {
		left = append(left, fmt.Sprintf("%d processes", alive))
	}
	now, err := countMounts()
	if err != nil {
		return nil, err
	}
	if now != mounts {
		left = append(left, fmt.Sprintf("%d mounts", now-mounts))
	}
	// What lies on disk is the next host's to clear away.
	next, err := newWorker(p, l)
	if err != nil {
		return nil, err
	}
	if err := next.close(); err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(filepath.Join(p.dir, l.dir))
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		left = append(left, "folder "+f.Name())
	}
	groups, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/valence/*-%d-*", host))
	if err != nil {
		return nil, err
	}
	unified, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/valence/*-%d-*", host))
	if err != nil {
		return nil, err
	}
	if n := len(groups) + len(unified); n > 0 {
		left = append(left, fmt.Sprintf("%d control groups", n))
	}
	if c.Left = strings.Join(left, ", "); c.Left == "" {
		c.Left = "nothing"
	}
	return c, nil
}

// countMounts counts those of this machine that look like a sandbox's.
func countMounts() (int, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "scratch" || f[0] == "workspace" {
			n++
		}
	}
	return n, nil
}
