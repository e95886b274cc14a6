package toolserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// grace is how long output is awaited after the command itself has ended while
	// a background process still holds the pipe. A `>(tee log)` ends within it.
	grace = 10 * time.Millisecond
	// burial bounds the wait for killed processes to be gone after a timeout.
	burial = time.Second
)

// Exit codes of a command that could not be started, as a shell gives them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// run runs one command. A command that cannot be started is a result like any
// other: what commands before it did may be why.
func (s *Server) run(r Exec, cancelled <-chan struct{}) (Result, error) {
	began := time.Now()
	refused := func(code int, err error) (Result, error) {
		text := []byte("sandbox: " + err.Error() + "\n")
		return Result{Output: text, Bytes: int64(len(text)), ExitCode: code, Took: time.Since(began)}, nil
	}
	args := r.Args
	if len(args) == 0 {
		args = []string{"/bin/sh", "-c", r.Shell}
		if s.bash {
			args[0] = "/bin/bash"
		}
	}
	if err := isDirectory(r.Dir); err != nil {
		return refused(exitCannotRun, err)
	}
	program, err := lookPath(args[0], r.Dir, r.Env)
	if err != nil {
		return refused(exitNotFound, err)
	}
	if s.Limits != "" {
		// The limits cannot be this process's, which may hold more, and set from here
		// after the fork they would come too late for what the command has forked.
		args = append([]string{"/bin/sh", "-c", s.Limits + `exec "$0" "$@"`, program}, args[1:]...)
		program = args[0]
	}
	out, stdout, err := pipe(0)
	if err != nil {
		return Result{}, err
	}
	defer out.Close()
	stdin := s.null
	if len(r.Stdin) > 0 {
		in, from, err := pipe(1)
		if err != nil {
			unix.Close(stdout)
			return Result{}, err
		}
		stdin = from
		defer in.Close() // ends the writer if the command never read everything
		go func() {
			in.Write(r.Stdin)
			in.Close()
		}()
	}
	attr := &syscall.ProcAttr{
		Dir: r.Dir, Env: append(r.Env, "PWD="+r.Dir),
		Files: []uintptr{uintptr(stdin), uintptr(stdout), uintptr(stdout)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if u := s.User; u != nil {
		// Who opens /dev/stdout opens the pipe anew, which has to be his.
		for _, fd := range []int{stdin, stdout} {
			if fd != s.null {
				unix.Fchown(fd, int(u.UID), int(u.GID))
			}
		}
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if s.Bare {
		attr.Sys.Pdeathsig = syscall.SIGKILL // of the thread that forks, which ends with the process
	}
	ended, err := s.reaper.started(func() (int, error) {
		select {
		case <-cancelled:
			return 0, syscall.ECANCELED
		default:
			return s.fork(program, args, attr)
		}
	})
	unix.Close(stdout)
	if stdin != s.null {
		unix.Close(stdin)
	}
	if err != nil {
		return refused(exitCannotRun, fmt.Errorf("start %s: %w", args[0], err))
	}

	k := keeper{most: r.Output}
	eof := make(chan struct{})
	go func() {
		defer close(eof)
		k.drain(out)
	}()
	timer := time.NewTimer(r.Timeout)
	defer timer.Stop()
	var result Result
	var status syscall.WaitStatus
	select {
	case status = <-ended:
	case <-timer.C:
		result.TimedOut = true
		s.killAll()
		status = <-ended
		select {
		case <-s.reaper.idle():
		case <-time.After(burial):
		}
	}
	select {
	case <-eof:
	case <-time.After(grace):
		// Stop waiting, then take what lies in the pipe: a read that a deadline
		// ends may leave bytes behind.
		out.SetReadDeadline(time.Unix(1, 0))
		<-eof
		k.rest(out)
	}
	result.ExitCode = status.ExitStatus()
	if status.Signaled() {
		result.ExitCode = 128 + int(status.Signal())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	result.Output, result.Bytes = k.kept, k.total
	result.Truncated = k.total > int64(len(k.kept))
	result.Took = time.Since(began)
	return result, nil
}

// fork starts a program from the thread that has given up its rights. Its standing
// with the kernel's memory killer is that of this process at the moment of the
// fork, so it is put on and off around it.
func (s *Server) fork(program string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	s.Spawn(func() {
		// When memory runs out, commands go first: before this process, and before
		// anything of the host's.
		s.OOM.WriteAt([]byte("1000"), 0)
		defer s.OOM.WriteAt(s.score, 0)
		pid, err = syscall.ForkExec(program, args, attr)
	})
	return pid, err
}

// pipe makes a pipe whose end number ours belongs to this process and does not
// block a thread; the other one is for a command.
func pipe(ours int) (*os.File, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("pipe: %w", err)
	}
	if err := unix.SetNonblock(p[ours], true); err != nil {
		return nil, 0, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(p[ours]), "pipe"), p[1-ours], nil
}

// keeper keeps the first bytes of an output and counts the others.
type keeper struct {
	mu    sync.Mutex
	most  uint64
	kept  []byte
	total int64
}

func (k *keeper) take(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total += int64(len(b))
	if room := k.most - uint64(len(k.kept)); room > 0 {
		k.kept = append(k.kept, b[:min(uint64(len(b)), room)]...)
	}
}

// drain reads to the end, or to the deadline.
func (k *keeper) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		k.take(buf[:n])
		if err != nil {
			return
		}
	}
}

// rest takes what lies in the pipe without waiting, a pipe's capacity at most: a
// background process that keeps writing must not hold the command up.
func (k *keeper) rest(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	raw.Control(func(fd uintptr) {
		for range 16 {
			n, err := syscall.Read(int(fd), buf)
			if n <= 0 || err != nil {
				return
			}
			k.take(buf[:n])
		}
	})
}

func isDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return err
}

// lookPath finds a program as a shell would, by the PATH of env; a name with a
// slash is taken from dir.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		full := name
		if !path.IsAbs(full) {
			full = path.Join(dir, name)
		}
		if _, err := os.Stat(full); err != nil {
			return "", errors.New(name + ": not found")
		}
		return full, nil
	}
	var search string
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			search = p
		}
	}
	for _, d := range strings.Split(search, ":") {
		if d == "" || !path.IsAbs(d) {
			d = path.Join(dir, d)
		}
		full := path.Join(d, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", errors.New(name + ": not found")
}
