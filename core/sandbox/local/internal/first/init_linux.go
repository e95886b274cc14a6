package first

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// Descriptors of a first process. The control socket comes with it, and the files of
// control groups to write to, whose number is its argument. The trees come over the
// socket, once it is known what the process is the first of: that of the workspace's
// files and those of the binds that come as such. They lie above all others.
const (
	controlFD   = 3
	firstJoinFD = 4
	firstTreeFD = 200
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
	s := &server{rights: make(chan struct{}), ready: make(chan error, 1), spawn: make(chan func())}
	go s.spawner()
	if more, err := receiveTrees(); err != nil {
		fmt.Fprintln(os.Stderr, "trees:", err)
		os.Exit(1)
	} else if !more {
		os.Exit(0) // the host is gone, or wants no sandbox of this process
	}
	if err := unix.SetNonblock(controlFD, true); err != nil {
		fmt.Fprintln(os.Stderr, "control socket:", err)
		os.Exit(1)
	}
	s.conn = os.NewFile(controlFD, "control")
	f, err := toolserver.ReadFrame(s.conn)
	if err != nil {
		os.Exit(1)
	}
	d := &toolserver.Decoder{B: f.Body}
	s.setup.Decode(d)
	if err = d.Err(); err == nil {
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

// SendTrees hands the trees of a sandbox to its first process, at the other end of a
// control socket.
func SendTrees(fd int, trees []int) error { return Send(fd, []byte{0}, trees...) }

// receiveTrees puts what SendTrees sent from firstTreeFD on. It waits for it, and
// tells whether anything came.
func receiveTrees() (bool, error) {
	b, files, err := receive(controlFD, 1)
	if b == nil || err != nil {
		return false, err
	}
	for _, f := range files {
		if _, err := unix.FcntlInt(uintptr(f), unix.F_DUPFD_CLOEXEC, firstTreeFD); err != nil {
			return false, fmt.Errorf("keep a tree: %w", err)
		}
		unix.Close(f)
	}
	return true, nil
}
