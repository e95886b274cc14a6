package toolserver

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/sdk/wire"
)

// walk finds what an overlay's upper directory changes in its lower one: see
// "whiteouts and opaque directories" in the kernel's overlayfs documentation.
// Commands control every name and content, so it opens entries one by one,
// relative to their directory, and follows no link.
type walk struct {
	left    int64 // bytes that may still be collected
	changes []wire.Change
}

// entryCost is what a change counts beside its bytes, against millions of empty files.
const entryCost = 64

func (w *walk) sorted() []wire.Change {
	slices.SortFunc(w.changes, func(a, b wire.Change) int { return strings.Compare(a.Path, b.Path) })
	return w.changes
}

func (w *walk) add(c wire.Change) error {
	w.left -= int64(len(c.Data)+len(c.Path)+len(c.Symlink)) + entryCost
	if w.left < 0 {
		return ErrTooLarge
	}
	w.changes = append(w.changes, c)
	return nil
}

// Overlay gives what an overlay's upper directory changes in its lower one, sorted
// by path. Both are O_PATH descriptors. Contents beyond limit bytes are ErrTooLarge.
func Overlay(upper, lower int, limit int64) ([]wire.Change, error) {
	return diff(upper, lower, limit, false)
}

// OverlayAt is Overlay for the directory dir of both, a clean relative path. Upper may lack
// it, as it does while nothing has changed there. Where commands have put something else
// in the place of dir, or of a directory above it, all that was in it is gone.
func OverlayAt(upper, lower int, dir string, limit int64) ([]wire.Change, error) {
	w := walk{left: limit}
	low, err := openDir(lower, dir)
	if err != nil {
		return nil, err
	}
	defer low.Close()
	up, err := openDir(upper, ".")
	if err != nil {
		return nil, err
	}
	defer func() { up.Close() }()
	opaque := false
	for part := range strings.SplitSeq(dir, "/") {
		opaque = opaque || isOpaque(up)
		next, err := openDir(int(up.Fd()), part)
		switch {
		case err == unix.ENOENT && !opaque:
			return nil, nil
		case err == unix.ENOENT, err == unix.ENOTDIR, err == unix.ELOOP:
			err := each(low, func(name string) error { return w.vanished(low, name, name) })
			if err != nil {
				return nil, err
			}
			return w.sorted(), nil
		case err != nil:
			return nil, err
		}
		up.Close()
		up = next
	}
	if err := w.dir(up, low, "", opaque); err != nil {
		return nil, err
	}
	return w.sorted(), nil
}

// Copy is Overlay for a copy of lower that was changed.
func Copy(changed, lower int, limit int64) ([]wire.Change, error) {
	return diff(changed, lower, limit, true)
}

func diff(upper, lower int, limit int64, whole bool) ([]wire.Change, error) {
	w := walk{left: limit}
	if err := w.diff(upper, lower, whole); err != nil {
		return nil, err
	}
	return w.sorted(), nil
}

func (w *walk) diff(upper, lower int, whole bool) error {
	up, err := openDir(upper, ".")
	if err != nil {
		return err
	}
	defer up.Close()
	low, err := openDir(lower, ".")
	if err != nil {
		return err
	}
	defer low.Close()
	return w.dir(up, low, "", whole)
}

func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// dir compares a directory of upper with the one that it lies over; low is nil
// where there is none. An opaque directory hides the lower one, and so does
// everything in it.
func (w *walk) dir(up, low *os.File, rel string, opaque bool) error {
	seen := map[string]bool{}
	opaque = opaque || isOpaque(up)
	err := each(up, func(name string) error {
		seen[name] = true
		return w.entry(up, low, name, path.Join(rel, name), opaque)
	})
	if err != nil || !opaque || low == nil {
		return err
	}
	// Nothing of the lower directory shows through: what upper lacks is gone.
	return each(low, func(name string) error {
		if seen[name] {
			return nil
		}
		return w.vanished(low, name, path.Join(rel, name))
	})
}

func (w *walk) entry(up, low *os.File, name, rel string, opaque bool) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(up.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
		return nil // removed meanwhile
	} else if err != nil {
		return err
	}
	var was unix.Stat_t // zero: there was nothing
	if low != nil && unix.Fstatat(int(low.Fd()), name, &was, unix.AT_SYMLINK_NOFOLLOW) != nil {
		was = unix.Stat_t{}
	}
	kind, before := st.Mode&unix.S_IFMT, was.Mode&unix.S_IFMT
	if kind == unix.S_IFDIR {
		return w.subdir(up, low, name, rel, before, opaque)
	}
	// Where a directory was, all of its files are gone.
	if before == unix.S_IFDIR {
		if err := w.vanished(low, name, rel); err != nil {
			return err
		}
	}
	switch kind {
	case unix.S_IFREG:
		return w.file(up, low, name, rel, &st, &was)
	case unix.S_IFLNK:
		target, err := readLink(int(up.Fd()), name)
		if err == unix.ENOENT || err == unix.EINVAL {
			return nil // removed or replaced meanwhile
		}
		if err != nil {
			return err
		}
		if before == unix.S_IFLNK {
			if old, err := readLink(int(low.Fd()), name); err == nil && old == target {
				return nil
			}
		}
		return w.add(wire.Change{Path: rel, Symlink: target})
	}
	// A whiteout, or a pipe, socket or device, which no change can describe.
	if before == unix.S_IFREG || before == unix.S_IFLNK {
		return w.add(wire.Change{Path: rel, Deleted: true})
	}
	return nil
}

func (w *walk) subdir(up, low *os.File, name, rel string, before uint32, opaque bool) error {
	sub, err := openDir(int(up.Fd()), name)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return nil // replaced meanwhile
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	var below *os.File
	switch before {
	case unix.S_IFDIR:
		if below, err = openDir(int(low.Fd()), name); err != nil {
			return err
		}
		defer below.Close()
	case unix.S_IFREG, unix.S_IFLNK:
		if err := w.add(wire.Change{Path: rel, Deleted: true}); err != nil {
			return err
		}
	}
	return w.dir(sub, below, rel, opaque)
}

// file adds a regular file unless it equals what was there.
func (w *walk) file(up, low *os.File, name, rel string, st, was *unix.Stat_t) error {
	if st.Size > w.left {
		return ErrTooLarge
	}
	data, err := readEntry(int(up.Fd()), name, st.Size, w.left)
	if err == unix.ENOENT || err == unix.ELOOP {
		return nil
	}
	if err != nil {
		return err
	}
	exec := st.Mode&0o100 != 0
	if was.Mode&unix.S_IFMT == unix.S_IFREG && was.Size == int64(len(data)) && exec == (was.Mode&0o100 != 0) {
		if old, err := readEntry(int(low.Fd()), name, was.Size, was.Size); err == nil && bytes.Equal(old, data) {
			return nil
		}
	}
	return w.add(wire.Change{Path: rel, Data: data, Exec: exec})
}

// vanished adds the removal of everything at and under a name of the lower directory.
func (w *walk) vanished(low *os.File, name, rel string) error {
	sub, err := openDir(int(low.Fd()), name)
	if err != nil {
		return w.add(wire.Change{Path: rel, Deleted: true})
	}
	defer sub.Close()
	return each(sub, func(name string) error { return w.vanished(sub, name, path.Join(rel, name)) })
}

func each(dir *os.File, f func(name string) error) error {
	for {
		names, err := dir.Readdirnames(256)
		for _, n := range names {
			if err := f(n); err != nil {
				return err
			}
		}
		if err == io.EOF || errors.Is(err, unix.ENOENT) { // at its end, or itself removed
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func readEntry(dir int, name string, size, limit int64) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd, size, limit)
}

func readLink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// isOpaque tells whether nothing of the lower directory shows through dir. Mounts
// within a user namespace mark it with a user attribute.
func isOpaque(dir *os.File) bool {
	var v [8]byte
	n, err := unix.Fgetxattr(int(dir.Fd()), "user.overlay.opaque", v[:])
	return err == nil && n == 1 && v[0] == 'y'
}
