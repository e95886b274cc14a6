package first

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// server is the first process of a sandbox: it makes the surroundings, starts
// commands, reaps every orphan and reads and writes files, all on request of the
// host. It runs no command itself, so it keeps the rights that commands lack.
type server struct {
	conn  *os.File
	setup Setup

	upper, lower int      // the overlay's directories, O_PATH
	null         int      // stdin of commands that get none
	oom          *os.File // this process's oom_score_adj
	score        []byte   // what it says
	bash         bool
	rules        int         // on files, of a bare sandbox
	guarded      chan func() // to the thread under them

	writing sync.Mutex    // of conn
	rights  chan struct{} // the surroundings are made, rights can be given up
	ready   chan error    // they were
	spawn   chan func()
	reaper  reaper
	files   chan struct{} // a token for each file request at work

	running sync.Mutex
	cancels map[uint32]chan struct{} // of the commands at work
}

// prepare makes the surroundings and the thread that commands are started from.
func (s *server) prepare() error {
	if err := s.surroundings(); err != nil {
		return err
	}
	var err error
	if s.oom, err = os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0); err != nil {
		return err
	}
	// Keeps commands from tracing this process and from reading its descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	if n := s.setup.MaxProcs; n > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	if s.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	_, err = os.Stat("/bin/bash")
	s.bash = err == nil
	s.files = make(chan struct{}, 2)
	if s.setup.Bare {
		if err := s.bare(); err != nil {
			return err
		}
	}
	s.rights <- struct{}{}
	if err := <-s.ready; err != nil {
		return err
	}
	score := make([]byte, 16)
	n, err := s.oom.ReadAt(score, 0)
	if n == 0 {
		return err
	}
	s.score = score[:n]
	return nil
}

// surroundings separates the sandbox from the host.
func (s *server) surroundings() error {
	if s.setup.Bare {
		return nil // by rules, which bind this process too: see prepare
	}
	if err := s.mounts(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	return loopback()
}

// spawner owns the thread that forks every command. Rights are given up on this
// thread alone: commands inherit that, and no other thread has to be stopped for it.
func (s *server) spawner() {
	runtime.LockOSThread()
	err := s.join()
	<-s.rights
	switch {
	case err != nil:
	case s.setup.Bare:
		err = s.aloof() // its user has no capabilities
	default:
		err = dropCapabilities()
	}
	if err == nil {
		err = loadFilter(s.setup.Filter)
	}
	s.ready <- err
	for f := range s.spawn {
		f()
	}
}

// join moves this thread, or the whole process, into control groups of version 1,
// which one depends on the file. Where it is this thread alone, commands inherit
// its place, and whatever they use up, the rest of the process can go on. A move
// waits for every CPU once; meanwhile the file systems are mounted.
func (s *server) join() error {
	fd := firstTreeFD
	if s.setup.Lower == "" {
		fd++
	}
	for _, b := range s.setup.Binds {
		if b.Tree {
			fd++
		}
	}
	if s.setup.Given {
		fd++
	}
	for range s.setup.Joins {
		// Zero is the caller. The kernel goes by the rights of who opened the file.
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("join a control group: %w", err)
		}
		unix.Close(fd)
		fd++
	}
	return nil
}

func startThreads() {
	var started sync.WaitGroup
	release := make(chan struct{})
	for range Threads {
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
		f, err := ReadFrame(s.conn)
		if err != nil {
			return
		}
		// In order, so that a cancellation never overtakes its command.
		switch f.Kind {
		case KindExec:
			c := make(chan struct{})
			s.running.Lock()
			s.cancels[f.ID] = c
			s.running.Unlock()
			go s.handle(f, c)
		case KindCancel:
			s.cancel(f)
		default:
			go s.handle(f, nil)
		}
	}
}

func (s *server) answer(id uint32, err error, body func(*Encoder)) {
	var e Encoder
	e.failure(err)
	if err == nil && body != nil {
		body(&e)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	WriteFrame(s.conn, Frame{ID: id, Kind: KindAnswer, Body: e.B})
}

// cancel ends the command whose id is the body, with everything else that runs,
// before any later request is looked at.
func (s *server) cancel(f Frame) {
	d := &Decoder{B: f.Body}
	id := uint32(d.Uint())
	s.running.Lock()
	c := s.cancels[id]
	delete(s.cancels, id)
	s.running.Unlock()
	if c == nil {
		return // it has ended
	}
	// No command starts meanwhile: this one never will, if it has not yet.
	s.reaper.mu.Lock()
	defer s.reaper.mu.Unlock()
	close(c)
	s.killAll()
}

func (s *server) handle(f Frame, cancelled <-chan struct{}) {
	d := &Decoder{B: f.Body}
	if f.Kind != KindExec {
		s.files <- struct{}{}
		defer func() { <-s.files }()
	}
	var err error
	var body func(*Encoder)
	switch f.Kind {
	case KindExec:
		var r Exec
		r.Decode(d)
		if err = d.Err(); err == nil {
			var result Result
			result, err = s.run(r, cancelled)
			s.running.Lock()
			delete(s.cancels, f.ID)
			s.running.Unlock()
			body = func(e *Encoder) { result.encode(e) }
		}
	case KindRead:
		name, limit := d.String(), d.Uint()
		if err = d.Err(); err == nil {
			var data []byte
			s.onFiles(func() { data, err = readFile(name, int64(limit)) })
			body = func(e *Encoder) { e.Bytes(data) }
		}
	case KindWrite:
		changes := d.Changes()
		if err = d.Err(); err == nil {
			s.onFiles(func() { err = writeChanges(changes) })
		}
	case KindDiff:
		limit := d.Uint()
		if err = d.Err(); err == nil {
			w := walk{left: int64(limit)}
			s.onFiles(func() { err = w.diff(s.upper, s.lower, s.setup.Bare) })
			body = func(e *Encoder) { e.Changes(w.sorted()) }
		}
	default:
		err = errors.New("unknown request")
	}
	s.answer(f.ID, err, body)
}

// killAll kills every process of the sandbox but this one.
func (s *server) killAll() {
	if !s.setup.Bare {
		syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	// The thread that forks reaches its commands and no other process: see aloof.
	done := make(chan struct{})
	s.spawn <- func() {
		defer close(done)
		syscall.Kill(-1, syscall.SIGKILL)
	}
	<-done
}

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
