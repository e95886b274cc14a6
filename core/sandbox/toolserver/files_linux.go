package toolserver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/sdk/wire"
)

// File requests are served by the first process with its own rights, on paths
// that commands control. Every path is therefore resolved by the kernel beneath
// the root and without the magic links of /proc, through which this process's
// descriptors could be reached.
const resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

func openAt(name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve})
		if err == unix.EINTR || err == unix.EAGAIN { // the path changed during the resolution
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// readFile reads a regular file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	fd, err := openAt(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	var where unix.Statfs_t
	if err := unix.Fstatfs(fd, &where); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EISDIR}
	case st.Mode&unix.S_IFMT != unix.S_IFREG || where.Type == unix.PROC_SUPER_MAGIC:
		return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EINVAL}
	case st.Size > limit:
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	data, err := readAll(fd, st.Size, limit)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// readAll reads a file of about size bytes that may still be growing.
func readAll(fd int, size, limit int64) ([]byte, error) {
	data := make([]byte, 0, size+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; int64(len(data)) > limit {
			return nil, ErrTooLarge
		}
	}
}

// WriteChanges makes the removals first, so that a directory can become a file.
func WriteChanges(changes []wire.Change) error { return (*User)(nil).write(changes) }

// write is WriteChanges for u, who owns what is made; nil is this process's user.
func (u *User) write(changes []wire.Change) error {
	for _, c := range changes {
		if c.Deleted {
			if err := remove(c.Path); err != nil {
				return err
			}
		}
	}
	for _, c := range changes {
		if !c.Deleted {
			if err := u.writeOne(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// parent opens the directory that holds name, and makes it if asked to.
func (u *User) parent(name string, make bool) (dir int, base string, err error) {
	name = path.Clean("/" + name)
	up, base := path.Split(name)
	if base == "" {
		return -1, "", &fs.PathError{Op: "open", Path: name, Err: unix.EISDIR}
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY
	dir, err = openAt(up, flags)
	if !make || !errors.Is(err, fs.ErrNotExist) {
		return dir, base, err
	}
	at, done := -1, "/"
	defer func() { unix.Close(at) }()
	if at, err = openAt("/", flags); err != nil {
		return -1, "", err
	}
	for _, part := range strings.Split(strings.Trim(up, "/"), "/") {
		done = path.Join(done, part)
		err := unix.Mkdirat(at, part, 0o755)
		if err == nil {
			err = u.own(at, part)
		}
		if err != nil && err != unix.EEXIST {
			return -1, "", &fs.PathError{Op: "mkdir", Path: done, Err: err}
		}
		next, err := openAt(done, flags)
		if err != nil {
			return -1, "", err
		}
		unix.Close(at)
		at = next
	}
	dir, at = at, -1
	return dir, base, nil
}

// writeOne makes a path what c says, whatever it was; only a directory that holds
// files stays, and is the error.
func (u *User) writeOne(c wire.Change) error {
	dir, base, err := u.parent(c.Path, true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fail := func(op string, err error) error { return &fs.PathError{Op: op, Path: c.Path, Err: err} }
	if c.Symlink != "" {
		if err := clear(dir, base); err != nil {
			return fail("remove", err)
		}
		if err := unix.Symlinkat(c.Symlink, dir, base); err != nil {
			return fail("symlink", err)
		}
		return u.own(dir, base)
	}
	mode := uint32(0o644)
	if c.Exec {
		mode = 0o755
	}
	fd, err := u.openToWrite(dir, base, mode)
	if err != nil {
		return fail("write", err)
	}
	f := os.NewFile(uintptr(fd), c.Path)
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Write(c.Data); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return fail("chmod", err)
	}
	return nil
}

// openToWrite opens the file base of dir, which it makes if there is none, or something else.
func (u *User) openToWrite(dir int, base string, mode uint32) (int, error) {
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	var st unix.Stat_t
	for tries := 0; ; tries++ {
		fd, err := unix.Openat(dir, base, flags, 0)
		if err == nil {
			if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				return fd, nil
			}
			unix.Close(fd)
		}
		// Nothing, or a link, a device, a pipe or an empty directory in the way.
		if err := clear(dir, base); err != nil {
			return -1, err
		}
		fd, err = unix.Openat(dir, base, flags|unix.O_CREAT|unix.O_EXCL, mode)
		if err == nil {
			if err := u.own(dir, base); err != nil {
				unix.Close(fd)
				return -1, err
			}
			return fd, nil
		}
		if err != unix.EEXIST || tries == 3 { // it came meanwhile
			return -1, err
		}
	}
}

// own gives to u what this process has made in dir.
func (u *User) own(dir int, base string) error {
	if u == nil {
		return nil
	}
	return unix.Fchownat(dir, base, int(u.UID), int(u.GID), unix.AT_SYMLINK_NOFOLLOW)
}

// remove takes name away, with all that is under it. That it is not there is fine.
func remove(name string) error {
	dir, base, err := (*User)(nil).parent(name, false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := removeAll(dir, base, true); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// clear makes room for name, which may be anything but a directory with files.
func clear(dir int, base string) error { return removeAll(dir, base, false) }

// removeAll removes base in dir: a file, a link, or a directory, which may hold
// files only if files is set. It follows no link.
func removeAll(dir int, base string, files bool) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	sub := os.NewFile(uintptr(fd), base)
	defer sub.Close()
	for {
		entries, err := sub.ReadDir(256)
		for _, e := range entries {
			if !files && !e.IsDir() {
				return unix.EISDIR
			}
			if err := removeAll(fd, e.Name(), files); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
}
