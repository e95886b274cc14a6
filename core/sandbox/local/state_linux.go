package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A driver's files lie in a folder of its own under Options.Dir, which the driver
// keeps locked. The kernel drops the lock with the process, so a folder that can
// be locked belongs to nobody.
const statePrefix = "driver-"

type state struct {
	dir  string
	lock *os.File
}

// newState makes a folder in dir and removes those of the dead.
func newState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// One driver at a time looks around, or a folder made but not yet locked would
	// pass for a dead one's.
	door, err := lockDir(dir, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer door.Close()
	old, err := filepath.Glob(filepath.Join(dir, statePrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, o := range old {
		f, err := lockDir(o, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue
		}
		err = removeAll(o)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	own, err := os.MkdirTemp(dir, statePrefix)
	if err != nil {
		return nil, err
	}
	f, err := lockDir(own, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return &state{dir: own, lock: f}, nil
}

func (s *state) close() error {
	err := removeAll(s.dir)
	s.lock.Close()
	return err
}

func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// processName names a process unmistakably as long as the machine is up: pid
// namespace, pid in it, and start time.
func processName(pid int) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return "", err
	}
	start, err := startTime(pid)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d-%d", st.Ino, pid, start), nil
}

// dead tells whether the process that processName named is gone for certain;
// of other pid namespaces nothing is certain.
func dead(name string) bool {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return false
	}
	pid, err := strconv.Atoi(part[1])
	if err != nil {
		return false
	}
	now, err := processName(pid)
	if err != nil {
		own, err := processName(os.Getpid())
		return err == nil && strings.HasPrefix(own, part[0]+"-")
	}
	return strings.HasPrefix(now, part[0]+"-") && now != name
}

// startTime is field 22 of /proc/PID/stat, counted past the name, which may hold anything.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
