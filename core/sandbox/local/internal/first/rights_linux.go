package first

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// kept are the capabilities of commands, all within the sandbox's user namespace:
// what a package's tests expect of root, nothing that mounts, traces or configures.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_SETFCAP

// dropCapabilities takes every other capability from the calling thread, for good.
func dropCapabilities() error {
	for c := range 64 {
		if kept>>c&1 != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err == unix.EINVAL {
			break // past the last one that the kernel knows
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(kept&0xffffffff), uint32(kept>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// least is what this process needs itself of what it limits.
const least = 64 << 20

// bind sets the limits of every command on this process, which they inherit them from.
func (s *Setup) bind() error {
	if n := s.MaxData; n > 0 {
		n = max(n, least)
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	if s.Scratch == "" {
		return nil
	}
	// The signal would end this process over a file that is written for the host. To
	// ignore it would be inherited, so it is received.
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: s.Disk, Max: s.Disk})
}
