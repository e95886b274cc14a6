//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// separate puts the program into a process group of its own, out of the
// terminal's reach.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killAll ends the program's group.
func killAll(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }
