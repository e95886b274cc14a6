//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package wasm

import "golang.org/x/sys/unix"

// reserve maps n bytes without committing them; nil if the system refuses.
func reserve(n uint64) []byte {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func release(b []byte) { unix.Munmap(b) }
