package image

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a folder that is filled under names that somebody else chose. No operation
// follows a symbolic link or leaves the folder, which the kernel sees to.
type tree struct {
	fd int // of the folder

	at   string // the folder that was looked up last
	atFD int    // -1: none
}

func openTree(dir string) (*tree, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &tree{fd: fd, atFD: -1}, nil
}

func (t *tree) close() {
	t.forget()
	unix.Close(t.fd)
}

// forget drops the folder that was looked up last, after one was removed.
func (t *tree) forget() {
	if t.atFD >= 0 {
		unix.Close(t.atFD)
		t.atFD = -1
	}
}

// beneath is how every path is looked up.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// open opens what is at p; ELOOP if that is a link, or behind one.
func (t *tree) open(p string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(t.fd, p, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath})
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// dir gives a descriptor of the folder p, which is good until the next call.
func (t *tree) dir(p string) (int, error) {
	if p == "." {
		return t.fd, nil
	}
	if t.atFD >= 0 && t.at == p {
		return t.atFD, nil
	}
	fd, err := t.open(p, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	t.forget()
	t.at, t.atFD = p, fd
	return fd, nil
}

// stat tells what is at p itself.
func (t *tree) stat(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	dir, err := t.dir(path.Dir(p))
	if err == nil {
		err = unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return st, err
}

// isDir tells whether there is a folder at p.
func (t *tree) isDir(p string) bool {
	st, err := t.stat(p)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// exists tells whether there is something at p.
func (t *tree) exists(p string) (bool, error) {
	_, err := t.stat(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	return err == nil, err
}

// remove removes what is at p with all that is in it.
func (t *tree) remove(p string) error {
	dir, err := t.dir(path.Dir(p))
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, path.Base(p), 0); !errors.Is(err, unix.EISDIR) {
		return err
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", t.fd))
	if err != nil {
		return err
	}
	defer root.Close()
	t.forget()
	return root.RemoveAll(p)
}

// attributes are what a file has beside its content.
type attributes struct {
	uid, gid int // -1: whoever makes it
	mode     uint32
	time     time.Time
	extended map[string]string
}

// apply sets attributes of base in dir, which is no symbolic link if link is not set.
// It gives how many extended ones the file system refused.
func (a attributes) apply(dir int, base string, link bool) (refused int64, err error) {
	if a.uid >= 0 {
		if err := unix.Fchownat(dir, base, a.uid, a.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return 0, &os.PathError{Op: "chown", Path: base, Err: err}
		}
	}
	if !link {
		if err := unix.Fchmodat(dir, base, a.mode, 0); err != nil {
			return 0, &os.PathError{Op: "chmod", Path: base, Err: err}
		}
	}
	for name, value := range a.extended {
		if link || setAttribute(dir, base, name, value) != nil {
			refused++
		}
	}
	stamp, err := unix.TimeToTimespec(a.time)
	if err != nil {
		stamp = unix.Timespec{}
	}
	if err := unix.UtimesNanoAt(dir, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, &os.PathError{Op: "set time", Path: base, Err: err}
	}
	return refused, nil
}

// setAttribute sets an extended attribute of a file that is no symbolic link.
func setAttribute(dir int, base, name, value string) error {
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", fd), name, []byte(value), 0)
}

// attribute reads an extended attribute; "" if there is none.
func attribute(dir int, base, name string) string {
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var v [64]byte
	n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), name, v[:])
	if err != nil {
		return ""
	}
	return string(v[:n])
}

// extended gives the attributes user.* of a file, but for overlay's; none of what is
// neither a file nor a folder.
func extended(dir int, base string) (map[string]string, error) {
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: base, Err: err}
	}
	defer unix.Close(fd)
	file := fmt.Sprintf("/proc/self/fd/%d", fd)
	names := make([]byte, 64<<10)
	n, err := unix.Listxattr(file, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "list attributes", Path: base, Err: err}
	}
	var all map[string]string
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !isOrdinary(name) {
			continue
		}
		n, err := unix.Getxattr(file, name, value)
		if err != nil {
			return nil, &os.PathError{Op: "read attribute " + name, Path: base, Err: err}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = string(value[:n])
	}
	return all, nil
}

// isOrdinary tells whether an extended attribute means nothing to the kernel.
func isOrdinary(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, userOverlay)
}
