package first

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// A spawner is a small process that starts the first processes of sandboxes for
// the host. A process in a new user namespace has to be forked, not vforked, and
// that copies the page tables: from a host with 2 GiB of memory it takes 90 ms,
// from a spawner 2. It ends with its host.
//
// The two speak over a socket of type SEQPACKET: each Spawn comes in a packet with
// its descriptors, which is answered by a packet with the process's descriptor,
// and a second one once the process has ended and was waited for.

// Spawn asks for a process. With it come descriptors: stderr, the process's end of
// the control socket, Joins files of control groups of version 1 to write to, and if
// Group is set that of a control group of version 2.
type Spawn struct {
	ID     uint32
	Range  bool   // map the ids from 0 on to Count ids from User and Team on; else only 0, to User and Team
	User   uint64 // of the host
	Team   uint64 // the group id
	Count  uint64
	Joins  uint64
	Group  bool
	Values []string // the environment
	Bare   bool     // make no namespaces; with Range, run as User and Team
}

// Encode appends s to e.
func (s *Spawn) Encode(e *toolserver.Encoder) {
	e.Uint(uint64(s.ID))
	e.Bool(s.Range)
	e.Uint(s.User)
	e.Uint(s.Team)
	e.Uint(s.Count)
	e.Uint(s.Joins)
	e.Bool(s.Group)
	e.Strings(s.Values)
	e.Bool(s.Bare)
}

// Decode takes s off d.
func (s *Spawn) Decode(d *toolserver.Decoder) {
	s.ID = uint32(d.Uint())
	s.Range = d.Bool()
	s.User = d.Uint()
	s.Team = d.Uint()
	s.Count = d.Uint()
	s.Joins = d.Uint()
	s.Group = d.Bool()
	s.Values = d.Strings()
	s.Bare = d.Bool()
}

// Spawned is one packet of a spawner.
type Spawned struct {
	ID     uint32
	Ended  bool   // the process has ended with Status; nothing else is set
	Status uint64 // a syscall.WaitStatus
	PID    uint64 // of the new process; its descriptor comes along
	Text   string // why there is none
	Number uint64 // the error's number, if it has one
}

// Encode appends s to e.
func (s *Spawned) Encode(e *toolserver.Encoder) {
	e.Uint(uint64(s.ID))
	e.Bool(s.Ended)
	e.Uint(s.Status)
	e.Uint(s.PID)
	e.String(s.Text)
	e.Uint(s.Number)
}

// Decode takes s off d.
func (s *Spawned) Decode(d *toolserver.Decoder) {
	s.ID = uint32(d.Uint())
	s.Ended = d.Bool()
	s.Status = d.Uint()
	s.PID = d.Uint()
	s.Text = d.String()
	s.Number = d.Uint()
}

// Bounds of a packet: the message, and the descriptors with it, of which the kernel
// takes no more.
const (
	PacketSize  = 16 << 10
	PacketFiles = 253
)

// Receive reads one packet of fd. The descriptors get the close-on-exec flag. No
// bytes mean that the other end is closed.
func Receive(fd int) ([]byte, []int, error) { return receive(fd, PacketSize) }

// ErrNoDescriptors comes with a packet whose descriptors this process had no room for.
var ErrNoDescriptors = unix.EMFILE

// receive is Receive for packets, or pieces of a stream, of size bytes at most.
func receive(fd, size int) ([]byte, []int, error) {
	b, oob := make([]byte, size), make([]byte, unix.CmsgSpace(4*PacketFiles))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, nil, err
		}
		var files []int
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, nil, err
		}
		for i := range messages {
			f, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, nil, err
			}
			files = append(files, f...)
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			closeAll(files)
			if flags&unix.MSG_TRUNC == 0 {
				return b[:n], nil, ErrNoDescriptors
			}
			return nil, nil, unix.EMSGSIZE
		}
		return b[:n], files, nil
	}
}

// Send writes one packet to fd. It may be called by several at once.
func Send(fd int, b []byte, files ...int) error {
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	for {
		if err := unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL); err != unix.EINTR {
			return err
		}
	}
}

func closeAll(files []int) {
	for _, f := range files {
		unix.Close(f)
	}
}

// spawner is the process's state.
type spawner struct {
	null int

	mu    sync.Mutex
	ids   map[int]uint32             // requests by the number of their process
	early map[int]syscall.WaitStatus // of processes that ended before they were entered in ids
	kick  chan struct{}              // a child has come
}

func spawn() {
	unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "spawner:", err)
		os.Exit(1)
	}
	s := &spawner{null: null, ids: map[int]uint32{}, early: map[int]syscall.WaitStatus{}, kick: make(chan struct{}, 1)}
	go s.reap()
	for {
		b, files, err := Receive(controlFD)
		if err != nil {
			fmt.Fprintln(os.Stderr, "spawner:", err)
			os.Exit(1)
		}
		if b == nil {
			os.Exit(0) // the host is gone, or wants no more
		}
		go s.start(b, files)
	}
}

func (s *spawner) start(b []byte, files []int) {
	defer closeAll(files)
	var r Spawn
	d := &toolserver.Decoder{B: b}
	r.Decode(d)
	answer := Spawned{ID: r.ID}
	var fd []int
	if err := d.Err(); err != nil {
		answer.Text = err.Error()
	} else if pid, pidfd, err := s.fork(&r, files); err != nil {
		answer.Text = err.Error()
		if n, ok := err.(syscall.Errno); ok {
			answer.Number = uint64(n)
		}
	} else {
		defer unix.Close(pidfd)
		answer.PID, fd = uint64(pid), []int{pidfd}
		// The answer goes first, the end may be known already.
		defer s.enter(pid, r.ID)
	}
	var e toolserver.Encoder
	answer.Encode(&e)
	Send(controlFD, e.B, fd...)
}

func (s *spawner) fork(r *Spawn, files []int) (pid, pidfd int, err error) {
	name, sys := Name, &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if r.Bare {
		name = BareName
		if r.Range {
			sys.Credential = &syscall.Credential{Uid: uint32(r.User), Gid: uint32(r.Team)}
		}
	} else {
		r.separate(sys)
	}
	if n := len(files) - 1; r.Group && n >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, files[n]
		files = files[:n]
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: r.Values, Sys: sys, Files: []uintptr{uintptr(s.null), uintptr(s.null)}}
	for _, f := range files {
		attr.Files = append(attr.Files, uintptr(f))
	}
	pid, err = syscall.ForkExec("/proc/self/exe", []string{name, strconv.FormatUint(r.Joins, 10)}, attr)
	if err != nil {
		return 0, 0, err
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return pid, pidfd, nil
}

// separate gives the process namespaces of its own.
func (s *Spawn) separate(sys *syscall.SysProcAttr) {
	sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	count := 1
	if s.Range {
		count = int(s.Count)
		sys.GidMappingsEnableSetgroups = true
		// Without it the program would run under an id that has no name inside, and
		// lose its capabilities at once.
		sys.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(s.User), Size: count}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(s.Team), Size: count}}
}

// enter makes the end of pid known as that of request id.
func (s *spawner) enter(pid int, id uint32) {
	s.mu.Lock()
	status, ended := s.early[pid]
	if ended {
		delete(s.early, pid)
	} else {
		s.ids[pid] = id
	}
	s.mu.Unlock()
	if ended {
		s.ended(id, status)
	}
}

func (s *spawner) ended(id uint32, status syscall.WaitStatus) {
	var e toolserver.Encoder
	(&Spawned{ID: id, Ended: true, Status: uint64(status)}).Encode(&e)
	Send(controlFD, e.B)
}

func (s *spawner) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			s.mu.Lock()
			id, known := s.ids[pid]
			if known {
				delete(s.ids, pid)
			} else {
				s.early[pid] = status
			}
			s.mu.Unlock()
			if known {
				s.ended(id, status)
			}
		case syscall.ECHILD:
			<-s.kick
		}
	}
}
