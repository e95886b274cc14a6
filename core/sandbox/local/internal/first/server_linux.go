package first

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk/wire"
)

// server is the first process of a sandbox: it makes the surroundings, and then
// serves the host's requests. It runs no command itself, so it keeps the rights
// that commands lack.
type server struct {
	conn  *os.File
	setup Setup
	tools *toolserver.Server

	upper, lower int         // the overlay's directories, O_PATH
	rules        int         // on files, of a bare sandbox
	guarded      chan func() // to the thread under them

	rights chan struct{} // the surroundings are made, rights can be given up
	ready  chan error    // they were
	spawn  chan func()
}

// prepare makes the surroundings and the thread that commands are started from.
func (s *server) prepare() error {
	if err := s.surroundings(); err != nil {
		return err
	}
	// While this process may still open it.
	standing, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
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
	if s.setup.Bare {
		if err := s.bare(); err != nil {
			return err
		}
	}
	s.rights <- struct{}{}
	if err := <-s.ready; err != nil {
		return err
	}
	config := toolserver.Config{Spawn: s.onSpawner, OOM: standing, Limits: s.setup.limits(), Bare: s.setup.Bare, User: s.setup.User,
		Diff: func(limit int64) ([]wire.Change, error) { return toolserver.Overlay(s.upper, s.lower, limit) }}
	if s.setup.Image {
		config.Diff = func(limit int64) ([]wire.Change, error) {
			return toolserver.OverlayAt(s.upper, s.lower, strings.TrimPrefix(s.setup.Dir, "/"), limit)
		}
		if _, err := os.Stat("/bin/sh"); err != nil && config.Limits != "" {
			// No shell can set them before a command.
			config.Limits = ""
			if err := s.setup.bind(); err != nil {
				return err
			}
		}
	}
	if s.setup.Bare {
		config.Files = s.onFiles
		config.Diff = func(limit int64) ([]wire.Change, error) { return toolserver.Copy(s.upper, s.lower, limit) }
	}
	s.tools, err = toolserver.New(config)
	return err
}

// onSpawner runs f on the spawner's thread.
func (s *server) onSpawner(f func()) {
	done := make(chan struct{})
	s.spawn <- func() {
		defer close(done)
		f()
	}
	<-done
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
		err = toolserver.LoadFilter(s.setup.Filter)
	}
	s.ready <- err
	for f := range s.spawn {
		f()
	}
}

// join moves this thread, or the whole process, into control groups of version 1,
// which one depends on the file. Where it is this thread alone, commands inherit
// its place, and whatever they use up, the rest of the process can go on. A move
// waits for every CPU once, which is why it is made ahead.
func (s *server) join() error {
	joins, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	for fd := firstJoinFD; fd < firstJoinFD+joins; fd++ {
		// Zero is the caller. The kernel goes by the rights of who opened the file.
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("join a control group: %w", err)
		}
		unix.Close(fd)
	}
	return nil
}
