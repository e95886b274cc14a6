package seccomp

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is what the kernel shows a filter, see struct seccomp_data.
type call struct {
	arch   uint32
	number int
	args   [6]uint64
}

// packet lays c out for the interpreter, which reads words in network order while
// the kernel's are native; the halves of an argument stay where they are.
func (c call) packet() []byte {
	var native [64]byte
	binary.NativeEndian.PutUint32(native[0:], uint32(c.number))
	binary.NativeEndian.PutUint32(native[4:], c.arch)
	for i, a := range c.args {
		binary.NativeEndian.PutUint64(native[16+8*i:], a)
	}
	var out []byte
	for i := 0; i < len(native); i += 4 {
		out = binary.BigEndian.AppendUint32(out, binary.NativeEndian.Uint32(native[i:]))
	}
	return out
}

func TestFilter(t *testing.T) {
	instructions, err := program(false)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	native, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) int {
		n, ok := native.SyscallNames[name]
		if !ok {
			t.Fatalf("no system call %s", name)
		}
		return n
	}
	const allow = unix.SECCOMP_RET_ALLOW
	refuse := func(e unix.Errno) int { return int(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	id := uint32(native.ID)
	const forkFlags = unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)
	for _, c := range []struct {
		name string
		call call
		want int
	}{
		{"read", call{arch: id, number: number("read")}, allow},
		{"execve", call{arch: id, number: number("execve")}, allow},
		{"mount", call{arch: id, number: number("mount")}, refuse(unix.EPERM)},
		{"keyctl", call{arch: id, number: number("keyctl")}, refuse(unix.EPERM)},
		{"io_uring", call{arch: id, number: number("io_uring_setup")}, refuse(unix.EPERM)},
		{"clone3", call{arch: id, number: number("clone3")}, refuse(unix.ENOSYS)},
		{"fork", call{arch: id, number: number("clone"), args: [6]uint64{forkFlags}}, allow},
		{"thread", call{arch: id, number: number("clone"), args: [6]uint64{0x3d0f00}}, allow},
		{"clone of a user namespace", call{arch: id, number: number("clone"), args: [6]uint64{forkFlags | unix.CLONE_NEWUSER}}, refuse(unix.EPERM)},
		{"clone of a network namespace", call{arch: id, number: number("clone"), args: [6]uint64{unix.CLONE_NEWNET}}, refuse(unix.EPERM)},
		{"unix socket", call{arch: id, number: number("socket"), args: [6]uint64{unix.AF_UNIX}}, allow},
		{"inet socket", call{arch: id, number: number("socket"), args: [6]uint64{unix.AF_INET}}, allow},
		{"vsock", call{arch: id, number: number("socket"), args: [6]uint64{unix.AF_VSOCK}}, refuse(unix.EAFNOSUPPORT)},
		{"packet socket", call{arch: id, number: number("socket"), args: [6]uint64{unix.AF_PACKET}}, refuse(unix.EAFNOSUPPORT)},
		{"keystrokes into a terminal", call{arch: id, number: number("ioctl"), args: [6]uint64{0, unix.TIOCSTI}}, refuse(unix.EPERM)},
		{"size of a terminal", call{arch: id, number: number("ioctl"), args: [6]uint64{0, unix.TIOCGWINSZ}}, allow},
		// Numbers of another architecture mean other calls: 386's 41 is dup, 288 keyctl.
		{"another architecture", call{arch: unix.AUDIT_ARCH_I386, number: 288}, refuse(unix.ENOSYS)},
		{"another architecture's read", call{arch: unix.AUDIT_ARCH_I386, number: 3}, refuse(unix.ENOSYS)},
	} {
		got, err := vm.Run(c.call.packet())
		if err != nil || got != c.want {
			t.Errorf("%s: got %#x, %v; want %#x", c.name, got, err, c.want)
		}
	}
	if native.ID == arch.X86_64.ID {
		if got, err := vm.Run(call{arch: id, number: 0x40000000 | 250}.packet()); err != nil || got != refuse(unix.ENOSYS) {
			t.Errorf("a number of the x32 convention: got %#x, %v", got, err)
		}
	}
}
