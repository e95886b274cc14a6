package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limit holds the data of a process to n bytes.
func limit(pid int, n int64) error {
	l := unix.Rlimit{Cur: uint64(n), Max: uint64(n)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &l, nil); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// reap waits for the program's end and ends what it has started. The program's
// number is taken until it is waited for, so that the kill meets nobody else.
func (p *program) reap() {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	killAll(p.cmd.Process)
	p.running = false
	p.mu.Unlock()
	p.cmd.Wait()
}
