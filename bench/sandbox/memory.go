package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// trees is what processes and their descendants take for themselves, in KiB: pages
// that others share are left out.
func trees(roots []int) (int, error) {
	sum := 0
	for _, root := range roots {
		all, err := descent(root)
		if err != nil {
			return 0, err
		}
		for _, pid := range all {
			n, err := private(pid)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// descent lists a process and its descendants.
func descent(pid int) ([]int, error) {
	out := []int{pid}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(b)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return nil, err
			}
			below, err := descent(id)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
	}
	return out, nil
}

func private(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil // it has ended
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sum := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Private_"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[1])
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, syscall.ESRCH) {
		return 0, err
	}
	return sum, nil
}

// available is the machine's memory that is to be had, in KiB.
func available() (int, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			return strconv.Atoi(string(bytes.Fields(rest)[0]))
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
