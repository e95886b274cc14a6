//go:build unix

package process

import (
	"io"
	"os"
	"sync"
	"syscall"
)

// pipe is the host's end of what a process writes to.
type pipe struct {
	file *os.File
	mu   sync.Mutex // held while to is written to
	to   io.Writer
}

// pump passes on what is written until the pipe ends or is closed.
func (p *pipe) pump() {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(p.take)
}

// drain passes on what was written before it was called. It does not block.
func (p *pipe) drain() {
	if raw, err := p.file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { p.take(fd) })
	}
}

// take passes on what there is, and tells whether no more will come.
func (p *pipe) take(fd uintptr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b [4 << 10]byte
	for {
		n, err := syscall.Read(int(fd), b[:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		case n <= 0:
			return true
		default:
			p.to.Write(b[:n])
		}
	}
}
