package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/core/sandbox/seccomp"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk/wire"
)

// socket is in the pod's own network namespace. As long as process 1 holds it,
// nobody can put another one in its place, as they could with a file.
const socket = "@valence-toolserver"

// Main does what args say and gives the exit code.
func Main(args []string) int {
	err := errors.New("usage: copy, serve, attach, or dial and any number of NETWORK/ADDRESS")
	if len(args) > 0 {
		switch args[0] {
		case Copy:
			err = copySelf()
		case Serve:
			err = serve()
		case Attach:
			err = attach()
		case Dial:
			err = dial(args[1:])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		return 1
	}
	return 0
}

func copySelf() error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(Program, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		return err
	}
	return to.Close()
}

func serve() error {
	if os.Getpid() != 1 {
		return errors.New("it is not process 1 of a container")
	}
	begun, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	go func() {
		<-stop
		os.Exit(0)
	}()
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0))) // it waits, mostly
	spawn, err := spawner()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var tree *toolserver.Tree
	server, err := toolserver.New(toolserver.Config{
		Resumable: true,
		Spawn:     spawn,
		Setup: func(d *toolserver.Decoder) (func(*toolserver.Encoder), error) {
			var s Setup
			s.Decode(d)
			if err := d.Err(); err != nil {
				return nil, err
			}
			h := hello()
			if h.Dir = s.Dir; h.Dir == "" {
				if h.Dir = begun; begun == "/" {
					h.Dir = DefaultDir
				}
			}
			t, err := s.lay(h.Dir)
			var e *diag.Error
			if errors.As(err, &e) && e.Kind == diag.KindData {
				h.Refused = e.Error()
				return h.Encode, nil
			}
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			tree = t
			return h.Encode, nil
		},
		Diff: func(limit int64) ([]wire.Change, error) {
			mu.Lock()
			t := tree
			mu.Unlock()
			if t == nil {
				return nil, errors.New("there is no workspace yet")
			}
			return t.Diff(limit)
		},
	})
	if err != nil {
		return err
	}
	// Keeps commands from tracing this process and from reading its descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return err
		}
		if !fromOutside(conn) {
			conn.Close()
			continue
		}
		go server.Serve(conn)
	}
}

// spawner starts the thread that forks commands, under the filter, and gives what
// runs a function on it.
func spawner() (func(func()), error) {
	filter, err := seccomp.Filter(false)
	if err != nil {
		return nil, err
	}
	ready, work := make(chan error), make(chan func())
	go func() {
		runtime.LockOSThread()
		ready <- toolserver.LoadFilter(filter)
		for f := range work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return func(f func()) {
		done := make(chan struct{})
		work <- func() {
			defer close(done)
			f()
		}
		<-done
	}, nil
}

// lay makes the workspace in dir and remembers it. What is wrong with files and patches
// is of diag.KindData.
func (s *Setup) lay(dir string) (*toolserver.Tree, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	changes, err := patch.Over(func(name string) (wire.Change, error) { return read(root, name) }, s.Files, s.Patches...)
	if err != nil {
		return nil, err
	}
	for i := range changes {
		changes[i].Path = path.Join(dir, changes[i].Path)
	}
	if err := toolserver.WriteChanges(changes); err != nil {
		return nil, err
	}
	return toolserver.Remember(dir)
}

// read gives what the image has at name.
func read(root *os.Root, name string) (wire.Change, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist // a folder of the patch is a file of the image
	}
	if err != nil {
		return wire.Change{}, err
	}
	c := wire.Change{Path: name, Exec: info.Mode()&0o100 != 0}
	switch {
	case info.Mode().IsRegular():
		c.Data, err = root.ReadFile(name)
	case info.Mode()&fs.ModeSymlink != 0:
		c.Symlink, err = root.Readlink(name)
	default:
		err = diag.Errorf(diag.KindData, "read the image", name, "it is no file")
	}
	return c, err
}

func hello() Hello {
	h := Hello{Protocol: toolserver.Protocol}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host != "" {
		h.API = net.JoinHostPort(host, port)
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "KUBERNETES_") && !strings.HasPrefix(v, "HOSTNAME=") {
			h.Env = append(h.Env, v)
		}
	}
	return h
}

// fromOutside tells whether conn's other end was started by the container's runtime:
// such a process has a parent that cannot be seen from within, while every command,
// orphans included, descends from process 1.
func fromOutside(conn *net.UnixConn) bool {
	pid, err := peer(conn)
	if err != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(b), "\nPPid:\t0\n")
}

// peer is the number of the process that opened or holds the other end.
func peer(conn *net.UnixConn) (int32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, inner
	}
	return cred.Pid, nil
}

// attach joins the standard streams to process 1, until one of them ends.
func attach() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var conn *net.UnixConn
	err := error(syscall.ECONNREFUSED)
	// Process 1 listens a moment after it has started.
	for range 200 {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if pid, err := peer(conn); err != nil || pid != 1 {
		return fmt.Errorf("process %d answers instead of process 1: %w", pid, errors.Join(err))
	}
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(os.Stdout, conn)
		ended <- err
	}()
	return <-ended
}

// patience is how long an address is tried.
const patience = 2 * time.Second

// dial prints the addresses that can be reached, all tried at once.
func dial(addresses []string) error {
	var all sync.WaitGroup
	for _, a := range addresses {
		network, address, _ := strings.Cut(a, "/")
		all.Go(func() {
			if c, err := net.DialTimeout(network, address, patience); err == nil {
				c.Close()
				fmt.Println(a)
			}
		})
	}
	all.Wait()
	return nil
}
