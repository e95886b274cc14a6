package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// memory is what this process and those that it started take for themselves, in
// KiB: shared pages, such as those of an image that nobody wrote to, are left out.
func memory() (int, error) {
	debug.FreeOSMemory()
	return private(os.Getpid())
}

func private(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sum := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Private_"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[1])
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(b)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return 0, err
			}
			n, err := private(id)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
