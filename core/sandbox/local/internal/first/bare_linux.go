package first

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bare server has no namespaces: its commands are processes of the host among
// others. Two of its threads are under rules of Landlock: the one that serves file
// requests may use no file that is not the sandbox's, and the one that forks the
// commands, which inherit it, can moreover signal nobody else, nor reach a socket of
// others. That also holds the commands together: whom this thread can signal is one.

// scopes is the version of Landlock that can scope signals, of Linux 6.12.
const scopes = 6

// rightsOf what a rule may allow.
const (
	everyRight = 1<<16 - 1 // all that version 6 knows, handled or granted
	mayRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayRun     = mayRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	mayUse     = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	onDirs     = ^uint64(unix.LANDLOCK_ACCESS_FS_EXECUTE | mayUse | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
)

// bare makes the rules on files and the thread that serves file requests, and takes
// the part of mounts.
func (s *server) bare() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < scopes {
		return fmt.Errorf("landlock: version %d is needed (Linux 6.12), there is %d: %w", scopes, int(version), errors.Join(errnoOf(errno), errors.ErrUnsupported))
	}
	var err error
	if s.upper, err = unix.Open(s.setup.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: s.setup.Dir, Err: err}
	}
	lower := s.setup.Lowers[0]
	if s.lower, err = unix.Open(lower, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: lower, Err: err}
	}
	if s.rules, err = ruleset(&unix.LandlockRulesetAttr{Handled_access_fs: everyRight}); err != nil {
		return err
	}
	allow := map[string]uint64{s.setup.Dir: everyRight, s.setup.Base: everyRight, lower: mayRead, "/proc": mayRead}
	for _, b := range s.setup.Binds {
		allow[b.Path] = mayRun
	}
	for _, d := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		allow[d] = mayUse
	}
	for path, rights := range allow {
		if err := addRule(s.rules, path, rights); err != nil {
			return err
		}
	}
	// Orphans come here to be waited for.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	s.guarded = make(chan func())
	ready := make(chan error)
	go s.guard(ready)
	return <-ready
}

// guard serves what comes through guarded on a thread under the rules on files.
func (s *server) guard(ready chan<- error) {
	runtime.LockOSThread()
	ready <- restrict(s.rules)
	for f := range s.guarded {
		f()
	}
}

// onFiles calls f where paths that commands control may be followed, as the rest of
// this process sees the host.
func (s *server) onFiles(f func()) {
	done := make(chan struct{})
	s.guarded <- func() {
		defer close(done)
		f()
	}
	<-done
}

// restrict puts the calling thread, and what it starts, under rules, and takes every
// capability from it, which only the root of a container still has here.
func restrict(rules int) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&head, &new([2]unix.CapUserData)[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// aloof takes from the calling thread, and what it starts, every file but the
// sandbox's, every signal to others, every abstract socket and TCP port. That it
// holds is tried: the tool server relies on it.
func (s *server) aloof() error {
	scope, err := ruleset(&unix.LandlockRulesetAttr{
		Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
		Scoped:             unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
	})
	if err != nil {
		return err
	}
	defer unix.Close(scope)
	if err := errors.Join(restrict(s.rules), restrict(scope)); err != nil {
		return err
	}
	if err := unix.Kill(os.Getppid(), 0); err != unix.EPERM {
		return fmt.Errorf("landlock: a signal to another process is let through (%v)", err)
	}
	return nil
}

func errnoOf(n syscall.Errno) error {
	if n == 0 {
		return nil
	}
	return n
}

func ruleset(attr *unix.LandlockRulesetAttr) (int, error) {
	// Without the fields of later versions.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), unsafe.Offsetof(attr.Quiet_access_fs), 0)
	if errno != 0 {
		return -1, fmt.Errorf("landlock: %w", errno)
	}
	return int(fd), nil
}

// addRule grants rights at and beneath path; those that only directories have are
// left out for files.
func addRule(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &^= onDirs
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: allow %s: %w", path, errno)
	}
	return nil
}
