package wasm

import (
	"bytes"
	"encoding/binary"
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

// Bits of an entry of the kernel's page map.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageShared  = 1 << 61 // it still belongs to the file
)

// manyPages is how many changed pages are copied back; if there are more, all are
// let go, to be fetched again as they are needed.
const manyPages = 1024

// restore undoes all changes to b since over.
func (s *snapshot) restore(b []byte) error {
	b = b[:len(s.bytes)]
	changed, known := s.changed(b)
	if !known || len(changed) > manyPages {
		return unix.Madvise(b, unix.MADV_DONTNEED)
	}
	size := os.Getpagesize()
	for _, at := range changed {
		copy(b[at:at+size], s.bytes[at:])
	}
	return nil
}

// changed finds the pages of b that were written to since over, if the system
// shows that.
func (s *snapshot) changed(b []byte) (offsets []int, known bool) {
	if s.pages == nil {
		return nil, false
	}
	size := os.Getpagesize()
	entries := make([]byte, 8*len(b)/size)
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b))) / uintptr(size)
	if _, err := s.pages.ReadAt(entries, int64(first)*8); err != nil {
		return nil, false
	}
	for i := 0; i < len(entries); i += 8 {
		e := binary.NativeEndian.Uint64(entries[i:])
		if e&(pagePresent|pageSwapped) != 0 && e&pageShared == 0 {
			offsets = append(offsets, i/8*size)
		}
	}
	return offsets, true
}

func (s *snapshot) close() {
	if s.bytes != nil {
		unix.Munmap(s.bytes)
	}
	if s.pages != nil {
		s.pages.Close()
	}
	s.file.Close()
}
