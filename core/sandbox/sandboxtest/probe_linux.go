package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe turns the program into the attacker if it was started as such inside a
// sandbox, and then does not return. Otherwise it does nothing.
func Probe() {
	if filepath.Base(os.Args[0]) != attackerName || len(os.Args) < 2 {
		return
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "dial":
		dial(args[0], args[1])
	case "families":
		families()
	case "loopback":
		ownLoopback()
	case "descriptors":
		openDescriptors()
	case "calls":
		calls()
	case "writable":
		writable(args)
	case "memory":
		grow(args[0])
	default:
		fmt.Println("unknown attack", os.Args[1])
		os.Exit(2)
	}
	os.Exit(0)
}

func dial(network, address string) {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err == nil && network == "udp" {
		_, err = c.Write([]byte("x"))
	}
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("reached", address)
}

func families() {
	var open []string
	for name, f := range map[string]int{
		"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK, "packet": unix.AF_PACKET, "vsock": unix.AF_VSOCK,
		"alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH, "can": unix.AF_CAN, "key": unix.AF_KEY, "tipc": unix.AF_TIPC, "x25": unix.AF_X25, "xdp": unix.AF_XDP, "rds": unix.AF_RDS,
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_RAW} {
			if fd, err := unix.Socket(f, kind, 0); err == nil {
				unix.Close(fd)
				open = append(open, name)
				break
			}
		}
	}
	sort.Strings(open)
	for _, n := range open {
		fmt.Print(n, " ")
	}
	fmt.Println()
}

func ownLoopback() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := net.DialTimeout("tcp", l.Addr().String(), 2*time.Second); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ok")
}

// openDescriptors lists those that were open before the program opened its own,
// which all have the close-on-exec flag.
func openDescriptors() {
	for fd := range 1024 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && (fd < 3 || flags&unix.FD_CLOEXEC == 0) {
			fmt.Print(fd, " ")
		}
	}
	fmt.Println()
}

// calls prints those that got past the checks of rights.
func calls() {
	zero := uintptr(unsafe.Pointer(&make([]byte, 4096)[0]))
	text := func(s string) uintptr { b := append([]byte(s), 0); return uintptr(unsafe.Pointer(&b[0])) }
	for _, c := range []struct {
		name    string
		number  uintptr
		a, b, c uintptr
	}{
		{"keyctl", unix.SYS_KEYCTL, 0, ^uintptr(2), 1},
		{"add_key", unix.SYS_ADD_KEY, text("user"), text("x"), zero},
		{"bpf", unix.SYS_BPF, 0, zero, 64},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, zero, 0, ^uintptr(0)},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, 1, zero, 0},
		{"userfaultfd", unix.SYS_USERFAULTFD, 1, 0, 0},
		{"mount", unix.SYS_MOUNT, text("none"), text("/tmp"), text("tmpfs")},
		{"fsopen", unix.SYS_FSOPEN, text("tmpfs"), 0, 0},
		{"open_tree", unix.SYS_OPEN_TREE, ^uintptr(99), text("/"), 1},
		{"unshare user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0},
		{"unshare mount", unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0, 0},
		{"setns", unix.SYS_SETNS, 0, 0, 0},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, 0, zero, 0},
		{"ptrace of the first process", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0},
		{"process_vm_readv of the first process", unix.SYS_PROCESS_VM_READV, 1, zero, 1},
		{"kexec_load", unix.SYS_KEXEC_LOAD, 0, 0, 0},
		{"reboot", unix.SYS_REBOOT, 0xfee1dead, 672274793, 0x89abcdef},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, zero, 0, 0},
		{"sethostname", unix.SYS_SETHOSTNAME, text("x"), 1, 0},
		{"syslog", unix.SYS_SYSLOG, 3, zero, 4096},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, 0, 0, 0},
		{"swapon", unix.SYS_SWAPON, text("/tmp/x"), 0, 0},
		{"init_module", unix.SYS_INIT_MODULE, zero, 4096, zero},
		{"clone3", unix.SYS_CLONE3, zero, 0, 0},
	} {
		_, _, err := unix.Syscall(c.number, c.a, c.b, c.c)
		if err != unix.EPERM && err != unix.ENOSYS && err != unix.EACCES {
			fmt.Printf("%s (%v), ", c.name, err)
		}
	}
	// The same by way of another architecture's numbers would need assembly; the
	// filter's own test covers it.
	fmt.Println()
}

func writable(names []string) {
	for _, n := range names {
		// Opened and closed, never written.
		if f, err := os.OpenFile(n, os.O_WRONLY, 0); err == nil {
			f.Close()
			fmt.Print(n, " ")
		}
	}
	fmt.Println()
}

// grow takes so many megabytes and touches every page.
func grow(megabytes string) {
	n, err := strconv.Atoi(megabytes)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := syscall.Mmap(-1, 0, n<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		fmt.Println(strings.ToLower(err.Error()))
		return
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("got", n)
}
