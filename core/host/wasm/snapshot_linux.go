package wasm

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// snapshot is the content of a memory, kept by the kernel, which any number of
// memories can begin with. They share each page until they write to it.
type snapshot struct {
	file  *os.File
	bytes []byte   // the same, mapped to be read
	pages *os.File // the page map of this process; nil where the system shows none
}

// take keeps what is in b, whose length is a multiple of the system's page. Pages of
// zeros take no space.
func take(b []byte) (s *snapshot, err error) {
	fd, err := unix.MemfdCreate("valence-image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	s = &snapshot{file: os.NewFile(uintptr(fd), "image")}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.file.Truncate(int64(len(b))); err != nil {
		return nil, err
	}
	size := os.Getpagesize()
	zero := make([]byte, size)
	for at := 0; at < len(b); at += size {
		if p := b[at : at+size]; !bytes.Equal(p, zero) {
			if _, err := s.file.WriteAt(p, int64(at)); err != nil {
				return nil, err
			}
		}
	}
	if s.bytes, err = unix.Mmap(fd, 0, len(b), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	if f, err := os.Open("/proc/self/pagemap"); err == nil {
		s.pages = f
	}
	return s, nil
}

// over lets b, which is mapped and at least as long, begin with the snapshot.
func (s *snapshot) over(b []byte) error {
	_, err := unix.MmapPtr(int(s.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(s.bytes)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// What is copied back; if more was changed, all pages are let go, to be fetched again
// as they are needed. That costs more, but leaves no memory behind.
const (
	manyRegions = 128
	manyBytes   = 1 << 20
)

// restore undoes all changes to b since over.
func (s *snapshot) restore(b []byte) error {
	b = b[:len(s.bytes)]
	var list [manyRegions]region
	n, err := s.changed(b, list[:])
	size := uint64(0)
	for _, r := range list[:n] {
		size += r.end - r.start
	}
	if err != nil || n == manyRegions || size > manyBytes {
		return unix.Madvise(b, unix.MADV_DONTNEED)
	}
	begin := address(b)
	for _, r := range list[:n] {
		copy(b[r.start-begin:r.end-begin], s.bytes[r.start-begin:])
	}
	return nil
}

// region is a range of addresses, as the kernel writes it: the last word is its kinds.
type region struct{ start, end, _ uint64 }

// Kinds of pages, of PAGEMAP_SCAN.
const (
	pageFile    = 1 << 2
	pagePresent = 1 << 3
	pageSwapped = 1 << 4
)

const pagemapScan = 0xc0606610 // ioctl of the page map, since Linux 6.7

// changed lists the ranges of b that were written to since over: those whose pages
// do not belong to the file any more.
func (s *snapshot) changed(b []byte, list []region) (int, error) {
	if s.pages == nil {
		return 0, unix.ENOSYS
	}
	arg := struct {
		size, flags, start, end, walkEnd      uint64
		vec                                   *region
		vecLen, maxPages, inverted, all, any_ uint64
		wanted                                uint64
	}{
		size: 96, start: address(b), end: address(b) + uint64(len(b)),
		vec: unsafe.SliceData(list), vecLen: uint64(len(list)),
		inverted: pageFile, all: pageFile, any_: pagePresent | pageSwapped, wanted: pageFile,
	}
	n, _, e := unix.Syscall(unix.SYS_IOCTL, s.pages.Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (s *snapshot) close() {
	if s.bytes != nil {
		unix.Munmap(s.bytes)
	}
	if s.pages != nil {
		s.pages.Close()
	}
	s.file.Close()
}
