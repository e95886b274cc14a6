package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
)

// server is the first process of a sandbox: it makes the surroundings, starts
// commands, reaps every orphan and reads and writes files, all on request of the
// host. It runs no command itself, so it keeps the rights that commands lack.
type server struct {
	conn  *os.File
	setup setup

	upper, lower int      // the overlay's directories, O_PATH
	null         int      // stdin of commands that get none
	oom          *os.File // this process's oom_score_adj, nil if the host left it alone
	bash         bool

	writing sync.Mutex // of conn
	spawn   chan func()
	reaper  reaper
	files   chan struct{} // a token for each file request at work

	running sync.Mutex
	cancels map[uint32]chan struct{} // of the commands at work
}

// spareThreads is the number of threads that this process needs at most. They are
// started before the first command, because none can be started once commands
// have used up the process limit, and a Go program dies where it cannot.
const spareThreads = 8

// prepare makes the surroundings and the thread that commands are started from.
func (s *server) prepare() error {
	if err := s.mounts(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := loopback(); err != nil {
		return err
	}
	// Keeps commands from tracing this process and from reading its descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	var err error
	if s.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	_, err = os.Stat("/bin/bash")
	s.bash = err == nil
	s.files = make(chan struct{}, 2)
	s.spawn = make(chan func())
	ready := make(chan error)
	go s.spawner(ready)
	if err := <-ready; err != nil {
		return err
	}
	if f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0); err == nil {
		var score [8]byte
		if n, _ := f.ReadAt(score[:], 0); bytes.HasPrefix(score[:n], []byte("-")) {
			s.oom = f
		} else {
			f.Close()
		}
	}
	return nil
}

// spawner owns the thread that forks every command. Rights are given up on this
// thread alone: commands inherit that, and no other thread has to be stopped for it.
func (s *server) spawner(ready chan<- error) {
	runtime.LockOSThread()
	err := dropCapabilities()
	if err == nil {
		err = loadFilter(s.setup.filter)
	}
	ready <- err
	for f := range s.spawn {
		f()
	}
}

func startThreads() {
	var started sync.WaitGroup
	release := make(chan struct{})
	for range spareThreads {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	started.Wait()
	close(release)
}

// serve answers requests until the host closes its end.
func (s *server) serve() {
	startThreads()
	s.reaper.start()
	s.cancels = map[uint32]chan struct{}{}
	for {
		f, err := readFrame(s.conn)
		if err != nil {
			return
		}
		// In order, so that a cancellation never overtakes its command.
		switch f.kind {
		case kindExec:
			c := make(chan struct{})
			s.running.Lock()
			s.cancels[f.id] = c
			s.running.Unlock()
			go s.handle(f, c)
		case kindCancel:
			s.cancel(f)
		default:
			go s.handle(f, nil)
		}
	}
}

func (s *server) answer(id uint32, err error, body func(*encoder)) {
	var e encoder
	f := failureOf(err)
	f.encode(&e)
	if err == nil && body != nil {
		body(&e)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	writeFrame(s.conn, frame{id: id, kind: kindAnswer, body: e.b})
}

// cancel ends the command whose id is the body, with everything else that runs.
func (s *server) cancel(f frame) {
	d := &decoder{b: f.body}
	id := uint32(d.uint())
	s.running.Lock()
	defer s.running.Unlock()
	if c := s.cancels[id]; c != nil {
		close(c)
		delete(s.cancels, id)
	}
}

func (s *server) handle(f frame, cancelled <-chan struct{}) {
	d := &decoder{b: f.body}
	if f.kind != kindExec {
		s.files <- struct{}{}
		defer func() { <-s.files }()
	}
	var err error
	var body func(*encoder)
	switch f.kind {
	case kindExec:
		var r execRequest
		r.decode(d)
		if err = d.err(); err == nil {
			var result sandbox.Result
			result, err = s.run(r, cancelled)
			s.running.Lock()
			delete(s.cancels, f.id)
			s.running.Unlock()
			body = func(e *encoder) { encodeResult(e, &result) }
		}
	case kindRead:
		name, limit := d.string(), d.uint()
		if err = d.err(); err == nil {
			var data []byte
			data, err = readFile(name, int64(limit))
			body = func(e *encoder) { e.bytes(data) }
		}
	case kindWrite:
		changes := d.changes()
		if err = d.err(); err == nil {
			err = writeChanges(changes)
		}
	case kindDiff:
		limit := d.uint()
		if err = d.err(); err == nil {
			w := walk{left: int64(limit)}
			err = w.diff(s.upper, s.lower)
			body = func(e *encoder) { e.changes(w.sorted()) }
		}
	default:
		err = errors.New("unknown request")
	}
	s.answer(f.id, err, body)
}

// killAll kills every process of the sandbox but this one.
func (s *server) killAll() { syscall.Kill(-1, syscall.SIGKILL) }

// reaper waits for every child, commands and orphans alike, in one loop.
type reaper struct {
	mu    sync.Mutex
	waits map[int]chan syscall.WaitStatus
	kick  chan struct{} // a child may have appeared
	quiet chan struct{} // closed when there is none; replaced when one starts
}

func (r *reaper) start() {
	r.waits = map[int]chan syscall.WaitStatus{}
	r.kick = make(chan struct{}, 1)
	r.quiet = make(chan struct{})
	close(r.quiet)
	go r.loop()
}

func (r *reaper) loop() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			r.mu.Lock()
			c := r.waits[pid]
			delete(r.waits, pid)
			r.mu.Unlock()
			if c != nil {
				c <- status
			}
		case syscall.ECHILD:
			r.mu.Lock()
			// Nothing starts while the lock is held; a child that started since the
			// call has left a kick.
			if len(r.waits) == 0 {
				select {
				case <-r.quiet:
				default:
					close(r.quiet)
				}
			}
			r.mu.Unlock()
			<-r.kick
		}
	}
}

// started runs fork, which gives the pid of a new child, and gives the channel
// that its status will come through.
func (r *reaper) started(fork func() (int, error)) (<-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return nil, err
	}
	c := make(chan syscall.WaitStatus, 1)
	r.waits[pid] = c
	select {
	case <-r.quiet:
		r.quiet = make(chan struct{})
	default:
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return c, nil
}

// idle is closed once no child is left.
func (r *reaper) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}
