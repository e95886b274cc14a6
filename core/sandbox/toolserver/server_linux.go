package toolserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/sdk/wire"
)

// Config says how a server works.
type Config struct {
	// Spawn runs f on the thread that commands are forked from, and whose rights
	// they inherit, and returns when it has.
	Spawn func(f func())
	// Diff gives what differs from the workspace as it was; see sandbox.Sandbox.
	Diff func(limit int64) ([]wire.Change, error)
	// Setup answers KindSetup. Default: it is an error.
	Setup func(*Decoder) (func(*Encoder), error)
	// Files runs f, which follows paths that commands control, and returns when it
	// has. Default: at once, as the server sees nothing but the sandbox.
	Files func(f func())
	// OOM is this process's oom_score_adj, to read and write. Default: it is opened.
	OOM *os.File
	// Limits is what a shell is told before every command, such as "ulimit -f 8; ".
	// Default: nothing, and no shell.
	Limits string
	// Bare means that the server is not process 1 but one of the host's among others,
	// which Spawn's thread cannot signal.
	Bare bool
	// User is whom commands run as, and who owns what Write makes. Default: this process's.
	User *User
	// Resumable keeps answers until the client has seen them, so that another
	// stream can take over.
	Resumable bool
}

// User is whom commands run as. Who is not user 0 has no rights but his own.
type User struct {
	UID, GID uint32
	Groups   []uint32 // further ones
}

// Server runs commands and handles files on request. It must be process 1 of its
// sandbox, or bare: it reaps every orphan, and a command that is out of time is killed with
// every other process.
type Server struct {
	Config

	null  int    // stdin of commands that get none
	score []byte // what OOM says
	bash  bool

	reaper reaper
	files  chan struct{} // a token for each file request at work

	mu    sync.Mutex
	calls map[uint32]*call

	writing sync.Mutex
	conn    io.WriteCloser // the stream at present
}

// call is a request that is carried out once.
type call struct {
	command   bool          // it can be cancelled
	cancelled chan struct{} // closed: nobody awaits it
	answer    []byte        // nil: at work
}

// New makes a server, once its surroundings are as they stay.
func New(c Config) (*Server, error) {
	if c.Files == nil {
		c.Files = func(f func()) { f() }
	}
	s := &Server{Config: c, files: make(chan struct{}, 2), calls: map[uint32]*call{}}
	var err error
	if s.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	if s.OOM == nil {
		if s.OOM, err = os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0); err != nil {
			return nil, err
		}
	}
	score := make([]byte, 16)
	n, err := s.OOM.ReadAt(score, 0)
	if n == 0 {
		return nil, fmt.Errorf("read /proc/self/oom_score_adj: %w", err)
	}
	s.score = score[:n]
	_, err = os.Stat("/bin/bash")
	s.bash = err == nil
	startThreads()
	s.reaper.start()
	return s, nil
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

// Serve answers the requests of conn until it ends, or another one takes its place.
func (s *Server) Serve(conn io.ReadWriteCloser) {
	s.replace(conn)
	for {
		f, err := ReadFrame(conn)
		if err != nil {
			return
		}
		// In order, so that a cancellation never overtakes its command.
		switch f.Kind {
		case KindExec, KindWrite, KindSetup:
			s.once(f)
		case KindCancel:
			d := &Decoder{B: f.Body}
			s.cancel(uint32(d.Uint()))
		case KindSeen:
			s.mu.Lock()
			delete(s.calls, f.ID)
			s.mu.Unlock()
		case KindResume:
			s.resume(f)
		default:
			go s.handle(f, nil)
		}
	}
}

// replace makes conn the stream that answers go to. A write to the one before ends
// by its being closed.
func (s *Server) replace(conn io.WriteCloser) {
	s.mu.Lock()
	old := s.conn
	s.mu.Unlock()
	if old != nil {
		old.Close()
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
}

// once starts what f asks for, unless it was asked before.
func (s *Server) once(f Frame) {
	s.mu.Lock()
	c := s.calls[f.ID]
	var answer []byte
	if c == nil {
		c = &call{command: f.Kind == KindExec, cancelled: make(chan struct{})}
		s.calls[f.ID] = c
		go s.handle(f, c)
	} else {
		answer = c.answer
	}
	s.mu.Unlock()
	if answer != nil {
		go s.write(f.ID, answer)
	}
}

// resume forgets whatever is not among the ids of f, which the client has given up
// or seen.
func (s *Server) resume(f Frame) {
	d := &Decoder{B: f.Body}
	awaited := map[uint32]bool{}
	for range d.Count() {
		awaited[uint32(d.Uint())] = true
	}
	if d.Err() != nil {
		return
	}
	var given []uint32
	s.mu.Lock()
	for id := range s.calls {
		if !awaited[id] {
			given = append(given, id)
		}
	}
	s.mu.Unlock()
	for _, id := range given {
		s.cancel(id)
	}
}

// cancel ends the command of that id, with everything else that runs, before any
// later request is looked at.
func (s *Server) cancel(id uint32) {
	s.mu.Lock()
	c := s.calls[id]
	delete(s.calls, id)
	ended := c == nil || !c.command || c.answer != nil
	s.mu.Unlock()
	if ended {
		return
	}
	// No command starts meanwhile: this one never will, if it has not yet.
	s.reaper.mu.Lock()
	defer s.reaper.mu.Unlock()
	close(c.cancelled)
	s.killAll()
}

// killAll kills every process of the sandbox but this one.
func (s *Server) killAll() {
	kill := func() { syscall.Kill(-1, syscall.SIGKILL) }
	if s.Bare {
		s.Spawn(kill) // whose thread reaches its commands and nothing else
		return
	}
	kill()
}

// End kills everything that runs. Nothing is answered any more: that commands end
// of this is no result.
func (s *Server) End() {
	s.writing.Lock() // for good
	s.killAll()
}

// handle carries out what f asks for; c is nil where asking twice does no harm.
func (s *Server) handle(f Frame, c *call) {
	if f.Kind != KindExec {
		s.files <- struct{}{}
		defer func() { <-s.files }()
	}
	body, err := s.carryOut(f, c)
	var e Encoder
	e.failure(err)
	if err == nil && body != nil {
		body(&e)
	}
	if c != nil {
		s.mu.Lock()
		c.answer = e.B
		if !s.Resumable {
			delete(s.calls, f.ID)
		}
		s.mu.Unlock()
	}
	s.write(f.ID, e.B)
}

func (s *Server) carryOut(f Frame, c *call) (body func(*Encoder), err error) {
	d := &Decoder{B: f.Body}
	switch f.Kind {
	case KindExec:
		var r Exec
		r.Decode(d)
		if err := d.Err(); err != nil {
			return nil, err
		}
		result, err := s.run(r, c.cancelled)
		return result.Encode, err
	case KindRead:
		name, limit := d.String(), d.Uint()
		if err := d.Err(); err != nil {
			return nil, err
		}
		var data []byte
		var err error
		s.Files(func() { data, err = readFile(name, int64(limit)) })
		return func(e *Encoder) { e.Bytes(data) }, err
	case KindWrite:
		changes := d.Changes()
		if err := d.Err(); err != nil {
			return nil, err
		}
		var err error
		s.Files(func() { err = s.User.write(changes) })
		return nil, err
	case KindDiff:
		limit := d.Uint()
		if err := d.Err(); err != nil {
			return nil, err
		}
		var changes []wire.Change
		var err error
		s.Files(func() { changes, err = s.Diff(int64(limit)) })
		return func(e *Encoder) { e.Changes(changes) }, err
	case KindSetup:
		if s.Setup != nil {
			return s.Setup(d)
		}
	}
	return nil, errors.New("unknown request")
}

// write sends an answer. Where it fails the stream is gone, and the client asks
// again on the next one or never.
func (s *Server) write(id uint32, answer []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := WriteFrame(s.conn, Frame{ID: id, Kind: KindAnswer, Body: answer}); err != nil {
		s.conn.Close()
	}
}
