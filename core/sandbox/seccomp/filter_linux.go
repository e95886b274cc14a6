// Package seccomp is the filter that decides about every system call of a
// sandboxed command.
package seccomp

import (
	"encoding/binary"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that give EPERM: those that reach what no namespace
// separates, and those whose kernel code no command under test needs.
var denied = []string{
	"mount", "umount2", "pivot_root", "fsopen", "fsmount", "fsconfig", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr", "setns", "unshare",
	"bpf", "perf_event_open", "keyctl", "add_key", "request_key", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "open_by_handle_at", "name_to_handle_at", "swapon", "swapoff", "reboot",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "acct", "quotactl", "quotactl_fd", "lookup_dcookie", "iopl", "ioperm", "syslog", "nfsservctl", "vhangup",
	"fanotify_init", "process_vm_readv", "process_vm_writev", "move_pages", "migrate_pages", "kcmp", "pidfd_getfd",
}

// namespaces are the flags with which clone would make one.
var namespaces = []uint64{
	unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP,
}

// errno is the seccomp action that lets a call fail.
func errno(n unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(n) }

// bareDenied are those that are denied as well where no namespace separates anything:
// what reaches other processes of the same user, or is named for the whole machine.
var bareDenied = []string{
	"shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl", "mq_open", "mq_unlink",
	"ptrace", "pidfd_open", "pidfd_send_signal", "setpriority", "ioprio_set", "process_madvise", "process_mrelease", "fanotify_mark",
}

func refusedCalls(bare bool) []string {
	if !bare {
		return denied
	}
	return slices.Concat(denied, bareDenied)
}

// program is what decides about every system call of a command; bare is
// for one without namespaces.
func program(bare bool) ([]bpf.Instruction, error) {
	native, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	refused := seccomp.SyscallGroup{Action: errno(unix.EPERM)}
	for _, n := range refusedCalls(bare) {
		if _, ok := native.SyscallNames[n]; ok {
			refused.Names = append(refused.Names, n)
		}
	}
	// No filter can see the flags of clone3, so it does not exist and libc falls back to clone.
	absent := seccomp.SyscallGroup{Action: errno(unix.ENOSYS), Names: []string{"clone3"}}
	checked := seccomp.SyscallGroup{Action: errno(unix.EPERM), NamesWithCondtions: []seccomp.NameWithConditions{
		{Name: "ioctl", Conditions: seccomp.ArgumentConditions{{Argument: 1, Operation: seccomp.Equal, Value: unix.TIOCSTI}}},
		{Name: "ioctl", Conditions: seccomp.ArgumentConditions{{Argument: 1, Operation: seccomp.Equal, Value: unix.TIOCLINUX}}},
	}}
	for _, flag := range namespaces {
		checked.NamesWithCondtions = append(checked.NamesWithCondtions, seccomp.NameWithConditions{
			Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: flag}}})
	}
	// Sockets that stay in the network namespace; AF_VSOCK and AF_ALG for instance do not.
	var family seccomp.ArgumentConditions
	for _, f := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		family = append(family, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: f})
	}
	sockets := seccomp.SyscallGroup{Action: errno(unix.EAFNOSUPPORT), NamesWithCondtions: []seccomp.NameWithConditions{
		{Name: "socket", Conditions: family}, {Name: "socketpair", Conditions: family},
	}}
	if bare {
		// Without a network namespace there is no socket but a pair of them.
		sockets.Names, sockets.NamesWithCondtions = []string{"socket"}, sockets.NamesWithCondtions[1:]
		checked.NamesWithCondtions = append(checked.NamesWithCondtions,
			seccomp.NameWithConditions{Name: "prlimit64", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.NotEqual, Value: 0}}},
			seccomp.NameWithConditions{Name: "sched_setaffinity", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.NotEqual, Value: 0}}})
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{refused, absent, checked, sockets}}
	body, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// The library lets other architectures' calls through, int 0x80 among them.
	const archOffset = 4
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(errno(unix.ENOSYS))},
	}, body...), nil
}

// Filter assembles the program for the kernel, which is Linux on the processor that
// this program was built for; bare is for commands without namespaces.
func Filter(bare bool) ([]byte, error) {
	instructions, err := program(bare)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, r := range raw {
		out = binary.NativeEndian.AppendUint16(out, r.Op)
		out = append(out, r.Jt, r.Jf)
		out = binary.NativeEndian.AppendUint32(out, r.K)
	}
	return out, nil
}
