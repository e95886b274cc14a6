//go:build !unix

package process

import (
	"io"
	"os"
	"os/exec"
)

func separate(*exec.Cmd) {}

func killAll(p *os.Process) { p.Kill() }

// pipe is the host's end of what a process writes to.
type pipe struct {
	file *os.File
	to   io.Writer
}

func (p *pipe) pump() { io.Copy(p.to, p.file) }

func (*pipe) drain() {}
