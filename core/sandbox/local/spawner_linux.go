package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// spawners start the first processes; see first.Spawn. There are several on large
// machines, since each forks one process at a time.
type spawners struct {
	program string
	diary   *os.File

	mu   sync.Mutex
	all  []*spawner
	next int
}

// forkers is how many spawners a machine gets.
func forkers() int { return max(1, min(8, runtime.NumCPU()/8)) }

// spawner is the host's end of one.
type spawner struct {
	process *os.Process
	fd      int

	mu      sync.Mutex
	next    uint32
	answers map[uint32]chan spawned
	dead    chan struct{} // closed when it answers no more
}

type spawned struct {
	first.Spawned
	pidfd int
}

// child is the first process of a sandbox.
type child struct {
	pid     int
	answers <-chan spawned // one more, when it has ended
	spawner *spawner

	mu    sync.Mutex
	pidfd int // -1 once closed
}

// start starts a first process; files are those of first.Spawn.
func (p *spawners) start(r first.Spawn, files []*os.File) (*child, error) {
	s, err := p.pick()
	if err != nil {
		return nil, err
	}
	return s.start(r, files)
}

// pick gives the spawner whose turn it is, in place of one that has died.
func (p *spawners) pick() (*spawner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) < forkers() {
		s, err := startSpawner(p.program, p.diary)
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, s)
		return s, nil
	}
	p.next = (p.next + 1) % len(p.all)
	s := p.all[p.next]
	select {
	case <-s.dead:
		var err error
		if s, err = startSpawner(p.program, p.diary); err != nil {
			return nil, err
		}
		p.all[p.next] = s
	default:
	}
	return s, nil
}

func (p *spawners) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		unix.Shutdown(s.fd, unix.SHUT_WR)
		<-s.dead
	}
	p.all = nil
}

func startSpawner(program string, diary *os.File) (*spawner, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "spawner")
	defer theirs.Close()
	// A session of its own keeps the keyboard's signals away: the host decides what
	// an interrupt means for its sandboxes.
	process, err := os.StartProcess(program, []string{first.SpawnerName}, &os.ProcAttr{
		Dir: "/", Env: []string{"GOTRACEBACK=single"}, Files: []*os.File{nil, nil, diary, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("start the spawner: %w", err)
	}
	s := &spawner{process: process, fd: pair[0], answers: map[uint32]chan spawned{}, dead: make(chan struct{})}
	go s.listen()
	return s, nil
}

func (s *spawner) start(r first.Spawn, files []*os.File) (*child, error) {
	answers := make(chan spawned, 2)
	s.mu.Lock()
	s.next++
	r.ID = s.next
	s.answers[r.ID] = answers
	s.mu.Unlock()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var e toolserver.Encoder
	r.Encode(&e)
	err := first.Send(s.fd, e.B, fds...)
	runtime.KeepAlive(files)
	if err != nil {
		return nil, fmt.Errorf("ask the spawner: %w", err)
	}
	var a spawned
	select {
	case a = <-answers:
	case <-s.dead:
		select {
		case a = <-answers:
		default:
			return nil, errors.New("the spawner has died")
		}
	}
	if a.Text != "" {
		s.mu.Lock()
		delete(s.answers, r.ID)
		s.mu.Unlock()
		if a.Number != 0 {
			return nil, syscall.Errno(a.Number)
		}
		return nil, errors.New(a.Text)
	}
	return &child{pid: int(a.PID), pidfd: a.pidfd, answers: answers, spawner: s}, nil
}

// listen hands the spawner's packets on until it ends.
func (s *spawner) listen() {
	for {
		b, files, err := first.Receive(s.fd)
		lost := err == first.ErrNoDescriptors
		if err != nil && !lost || b == nil {
			break
		}
		var a spawned
		d := &toolserver.Decoder{B: b}
		a.Decode(d)
		if a.pidfd = -1; len(files) > 0 {
			a.pidfd = files[0]
		}
		if lost {
			// Whoever asked fails, and the process ends when its socket is closed.
			a.Text, a.Number = first.ErrNoDescriptors.Error(), uint64(first.ErrNoDescriptors)
		}
		s.mu.Lock()
		c := s.answers[a.ID]
		if a.Ended {
			delete(s.answers, a.ID)
		}
		s.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
	s.process.Kill()
	s.process.Wait()
	unix.Close(s.fd)
	close(s.dead)
}

// alive tells whether the process has not ended yet.
func (c *child) alive() bool {
	p := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n == 0 && err == nil
}

// kill ends the process, and with it everything in its namespaces.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	}
}

// wait blocks until the process has ended and tells how, if that is known.
func (c *child) wait() string {
	select {
	case a := <-c.answers:
		return ending(syscall.WaitStatus(a.Status))
	case <-c.spawner.dead:
	}
	// Nobody waits for it any more but the machine's own first process.
	for {
		p := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(p, -1); n > 0 || (err != nil && err != unix.EINTR) {
			return "its spawner has died"
		}
	}
}

func ending(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// close frees the descriptor, after wait.
func (c *child) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	unix.Close(c.pidfd)
	c.pidfd = -1
}
