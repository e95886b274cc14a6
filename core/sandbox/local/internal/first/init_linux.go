package first

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// Descriptors that come with the process: the control socket, and for the first
// process the tree of the workspace's files, those of the binds that come as such,
// and the files of control groups to write to.
const (
	controlFD   = 3
	firstTreeFD = 4
)

// init turns a process that was started as one of this package into that. It does so here and not in main because everything that this package does not
// import would be initialised before main, in every sandbox, for nothing.
func init() {
	// This goroutine is tied to the main thread while packages are initialised,
	// which would make every switch from and to it one of threads.
	switch {
	case os.Args[0] == Name && os.Getpid() == 1, os.Args[0] == BareName:
		go begin()
	case os.Args[0] == SpawnerName:
		go spawn()
	default:
		return
	}
	select {}
}

func begin() {
	// The host may have inherited descriptors that lack the flag.
	unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.SetNonblock(controlFD, true); err != nil {
		fmt.Fprintln(os.Stderr, "control socket:", err)
		os.Exit(1)
	}
	s := &server{conn: os.NewFile(controlFD, "control"), rights: make(chan struct{}), ready: make(chan error), spawn: make(chan func())}
	f, err := toolserver.ReadFrame(s.conn)
	if err != nil {
		os.Exit(1)
	}
	d := &toolserver.Decoder{B: f.Body}
	s.setup.Decode(d)
	if err = d.Err(); err == nil {
		go s.spawner()
		err = s.prepare()
	}
	toolserver.WriteAnswer(s.conn, f.ID, err)
	if err != nil {
		os.Exit(1)
	}
	s.tools.Serve(s.conn)
	// The host is gone: the kernel kills everything else with this process, unless it is bare.
	if s.setup.Bare {
		s.tools.End()
	}
	os.Exit(0)
}
