//go:build unix

package sdktest

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command into a process group that ends as a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// signal is the number of the signal that ended a command, or 0.
func signal(exit *exec.ExitError) int {
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal())
	}
	return 0
}
