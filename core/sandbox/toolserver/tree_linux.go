package toolserver

import (
	"crypto/sha256"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/sdk/wire"
)

// Tree is a directory as it was at one moment: what Diff compares with where no
// overlay keeps the files as they were. Files that nobody has touched since are
// told by their inode, size and time of change, and not read again.
type Tree struct {
	dir string
	was map[string]leaf
}

// leaf is a file or a link.
type leaf struct {
	target string // of a link; "" for a file
	exec   bool
	sum    [sha256.Size]byte
	stamp  stamp
}

// stamp changes with every change of a file: ordinary users cannot set the time of change.
type stamp struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{device: uint64(st.Dev), inode: st.Ino, size: st.Size, changed: st.Ctim}
}

// Remember reads all of dir. Whatever is called .git is removed from it first.
func Remember(dir string) (*Tree, error) {
	t := &Tree{dir: dir, was: map[string]leaf{}}
	err := t.walk(func(at *os.File, name, rel string, st *unix.Stat_t) error {
		l, err := look(at, name, st)
		if err == nil {
			t.was[rel] = l
		}
		return err
	}, true)
	return t, err
}

// look reads one file or link.
func look(at *os.File, name string, st *unix.Stat_t) (leaf, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := readLink(int(at.Fd()), name)
		return leaf{target: target}, err
	}
	data, err := readOwn(at, name, st, st.Size)
	return leaf{exec: st.Mode&0o100 != 0, sum: sha256.Sum256(data), stamp: stampOf(st)}, err
}

// Diff gives what differs, sorted by path. Contents beyond limit bytes are ErrTooLarge.
func (t *Tree) Diff(limit int64) ([]wire.Change, error) {
	w := walk{left: limit}
	seen := make(map[string]bool, len(t.was))
	err := t.walk(func(at *os.File, name, rel string, st *unix.Stat_t) error {
		seen[rel] = true
		was, known := t.was[rel]
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			target, err := readLink(int(at.Fd()), name)
			if gone(err) || (known && was.target == target) {
				return nil
			}
			if err != nil {
				return err
			}
			return w.add(wire.Change{Path: rel, Symlink: target})
		}
		exec := st.Mode&0o100 != 0
		if known && was.target == "" && was.exec == exec && was.stamp == stampOf(st) {
			return nil
		}
		if known && was.target == "" && was.exec == exec && was.stamp.size == st.Size {
			// Perhaps only its time has changed; an unchanged file does not count.
			data, err := readOwn(at, name, st, st.Size)
			if gone(err) || (err == nil && sha256.Sum256(data) == was.sum) {
				return nil
			}
		}
		if st.Size > w.left {
			return ErrTooLarge
		}
		data, err := readOwn(at, name, st, w.left)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(data) == 0 {
			data = nil
		}
		return w.add(wire.Change{Path: rel, Data: data, Exec: exec})
	}, false)
	if err != nil {
		return nil, err
	}
	for rel := range t.was {
		if !seen[rel] {
			if err := w.add(wire.Change{Path: rel, Deleted: true}); err != nil {
				return nil, err
			}
		}
	}
	return w.sorted(), nil
}

// gone tells whether what was listed a moment ago was removed or replaced.
func gone(err error) bool {
	return err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EINVAL
}

// walk calls f for every file and link. It follows none.
func (t *Tree) walk(f func(at *os.File, name, rel string, st *unix.Stat_t) error, prune bool) error {
	root, err := openDir(unix.AT_FDCWD, t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return walkDir(root, "", f, prune)
}

func walkDir(dir *os.File, rel string, f func(at *os.File, name, rel string, st *unix.Stat_t) error, prune bool) error {
	return each(dir, func(name string) error {
		if prune && name == ".git" {
			return removeAll(int(dir.Fd()), name, true)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			if gone(err) {
				return nil
			}
			return err
		}
		at := path.Join(rel, name)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			// The owner without special rights has to allow himself to look.
			const look = 0o500
			if st.Mode&look != look && unix.Fchmodat(int(dir.Fd()), name, st.Mode&0o7777|look, 0) == nil {
				defer unix.Fchmodat(int(dir.Fd()), name, st.Mode&0o7777, 0)
			}
			sub, err := openDir(int(dir.Fd()), name)
			if gone(err) {
				return nil
			}
			if err != nil {
				return err
			}
			defer sub.Close()
			return walkDir(sub, at, f, prune)
		case unix.S_IFREG, unix.S_IFLNK:
			return f(dir, name, at, &st)
		}
		return nil
	})
}

// readOwn reads a file that may be closed to its owner.
func readOwn(at *os.File, name string, st *unix.Stat_t, limit int64) ([]byte, error) {
	data, err := readEntry(int(at.Fd()), name, st.Size, limit)
	if err != unix.EACCES || unix.Fchmodat(int(at.Fd()), name, st.Mode&0o7777|0o400, 0) != nil {
		return data, err
	}
	defer unix.Fchmodat(int(at.Fd()), name, st.Mode&0o7777, 0)
	return readEntry(int(at.Fd()), name, st.Size, limit)
}
