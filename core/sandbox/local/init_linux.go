package local

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// initName is argv[0] of a program that was started to be the first process of a
// sandbox.
const initName = "valence-sandbox"

// Descriptors that the host hands to the first process: the control socket, the
// tree of the workspace's files, then the trees of the binds that come as such.
const (
	controlFD   = 3
	firstTreeFD = 4
)

// Init must be the first thing that main and TestMain of a program call that
// makes local sandboxes: the driver starts the program again as the first process
// of each sandbox, and that process never returns from Init. In every other
// process Init gives false at once and does nothing.
func Init() bool {
	if os.Args[0] != initName || os.Getpid() != 1 {
		return false
	}
	// The heap is a few hundred kilobytes; thousands of these processes live at once.
	debug.SetGCPercent(50)
	// The host may have inherited descriptors that lack the flag.
	unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.SetNonblock(controlFD, true); err != nil {
		fmt.Fprintln(os.Stderr, "control socket:", err)
		os.Exit(1)
	}
	s := &server{conn: os.NewFile(controlFD, "control")}
	f, err := readFrame(s.conn)
	if err != nil {
		os.Exit(1)
	}
	d := &decoder{b: f.body}
	s.setup.decode(d)
	if err = d.err(); err == nil {
		err = s.prepare()
	}
	s.answer(f.id, err, nil)
	if err != nil {
		os.Exit(1)
	}
	s.serve()
	// The host is gone: the kernel kills everything else with this process.
	os.Exit(0)
	return true
}
