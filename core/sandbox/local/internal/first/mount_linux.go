package first

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenTree clones the mounts at path into a detached tree that is private and
// read-only, free of devices and set-uid programs. It needs CAP_SYS_ADMIN over
// the caller's mount namespace. The tree vanishes with its descriptor unless it
// is attached before.
func OpenTree(path string) (int, error) { return openTree(path, unix.MOUNT_ATTR_RDONLY) }

// OpenScratch is OpenTree for a directory that is written to.
func OpenScratch(path string) (int, error) { return openTree(path, 0) }

func openTree(path string, more uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("open tree %s: %w", path, err)
	}
	attr := unix.MountAttr{
		Attr_set:    more | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set attributes of tree %s: %w", path, err)
	}
	return fd, nil
}

// attach puts a detached tree at target and closes its descriptor.
func attach(fd int, target string) error {
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach at %s: %w", target, err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	err := unix.Mount(source, target, kind, flags, data)
	if err != nil {
		what := kind
		if what == "" {
			what = source
		}
		return fmt.Errorf("mount %s at %s: %w", what, target, err)
	}
	return nil
}

// mounts builds the sandbox's file system and makes it the root. Everything is
// mounted in this process's own namespace and goes when the process goes.
//
// The scratch file system holds the root directory and the overlay's upper and work
// directories, so that its size, if it is in memory, bounds all that can be written. Upper and lower
// stay outside the new root; s.upper and s.lower are what keeps them in reach.
func (s *server) mounts() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	lowers, trees, scratch, err := s.trees()
	if err != nil {
		return err
	}
	if scratch >= 0 {
		err = attach(scratch, s.setup.Base)
	} else {
		size := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0755", s.setup.Disk, s.setup.Inodes)
		err = mount("scratch", s.setup.Base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size)
	}
	if err != nil {
		return err
	}
	if err := os.Chdir(s.setup.Base); err != nil {
		return err
	}
	for _, d := range []string{"upper", "work", "l", "root"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	// Relative paths, as mountinfo shows them to whoever is inside; and short ones, as all
	// options share a page.
	stack := ""
	for i, fd := range lowers {
		name := fmt.Sprintf("l/%d", i)
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := attach(fd, name); err != nil {
			return err
		}
		stack += ":" + name
	}
	stack = "lowerdir=" + stack[1:] + ",userxattr"
	if s.setup.Image {
		err = s.image(stack)
	} else {
		err = s.workspace(stack, trees)
	}
	if err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return os.Chdir("/")
}

// written are the options of an overlay that keeps what is written in upper.
const written = ",upperdir=upper,workdir=work"

// workspace makes a root of the tool chain with the workspace's files in it, and makes
// it the working directory.
func (s *server) workspace(stack string, trees []int) (err error) {
	if err := mount("root", "root", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	work := path.Join("root", s.setup.Dir)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if err := mount("workspace", work, "overlay", unix.MS_NOSUID|unix.MS_NODEV, stack+written); err != nil {
		return err
	}
	if err := s.keep("l/0"); err != nil {
		return err
	}
	if err := os.Chdir("root"); err != nil {
		return err
	}
	return s.skeleton(trees)
}

// image makes the root of an image's layers, and makes it the working directory. The
// topmost layer is the driver's: it has all mount points as real directories, so that
// no link of the image leads a mount elsewhere.
func (s *server) image(stack string) error {
	for _, d := range []string{"dev", "seen"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	// A second overlay without an upper directory shows the files as they were.
	if err := mount("image", "seen", "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, stack); err != nil {
		return err
	}
	if err := mount("image", "root", "overlay", unix.MS_NOSUID|unix.MS_NODEV, stack+written); err != nil {
		return err
	}
	if err := s.keep("seen"); err != nil {
		return err
	}
	if err := os.Chdir("root"); err != nil {
		return err
	}
	if err := mount("../dev", "dev", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, d := range []string{"dev/pts", "dev/shm"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod("dev/shm", 0o777|fs.ModeSticky), s.devices(), s.procfs())
}

// keep opens what Diff compares, which stays outside the new root.
func (s *server) keep(lower string) (err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if s.upper, err = unix.Open("upper", flags, 0); err != nil {
		return err
	}
	if s.lower, err = unix.Open(lower, flags, 0); err != nil {
		return err
	}
	return unix.Unmount(lower, unix.MNT_DETACH)
}

// trees gives the descriptors of the lower directories, of the binds, and of the
// scratch directory, -1 if that is to be made in memory.
func (s *server) trees() (lowers, binds []int, scratch int, err error) {
	next := firstTreeFD
	take := func(path string, inherited bool) (int, error) {
		if !inherited {
			return OpenTree(path)
		}
		next++
		return next - 1, nil
	}
	for _, l := range s.setup.Lowers {
		fd, err := take(l, l == "")
		if err != nil {
			return nil, nil, -1, err
		}
		lowers = append(lowers, fd)
	}
	for _, b := range s.setup.Binds {
		fd, err := take(b.Path, b.Tree)
		if err != nil {
			return nil, nil, -1, err
		}
		binds = append(binds, fd)
	}
	switch {
	case s.setup.Given:
		return lowers, binds, next, nil
	case s.setup.Scratch != "":
		scratch, err = OpenScratch(s.setup.Scratch)
		return lowers, binds, scratch, err
	}
	return lowers, binds, -1, nil
}

// skeleton fills the root, which is the working directory, with the tool chain
// and the pseudo file systems.
func (s *server) skeleton(trees []int) error {
	for i, b := range s.setup.Binds {
		target := strings.TrimPrefix(b.Target, "/")
		if err := mountPoint(target, b.File); err != nil {
			return err
		}
		if err := attach(trees[i], target); err != nil {
			return err
		}
	}
	for i := 0; i+1 < len(s.setup.Links); i += 2 {
		if err := os.Symlink(s.setup.Links[i+1], s.setup.Links[i]); err != nil {
			return err
		}
	}
	for i := 0; i+1 < len(s.setup.Files); i += 2 {
		name := s.setup.Files[i]
		if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(s.setup.Files[i+1]), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "dev/pts"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, d := range []string{"tmp", "dev/shm", "var/tmp"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(d, 0o777|fs.ModeSticky); err != nil {
			return err
		}
	}
	return errors.Join(s.devices(), s.procfs())
}

// mountPoint makes a file or a directory to attach something at.
func mountPoint(name string, file bool) error {
	if !file {
		return os.MkdirAll(name, 0o755)
	}
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *server) devices() error {
	for _, d := range []string{"dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom"} {
		if err := mountPoint(d, true); err != nil {
			return err
		}
		if err := mount("/"+d, d, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{
		{"pts/ptmx", "dev/ptmx"}, {"/proc/self/fd", "dev/fd"}, {"/proc/self/fd/0", "dev/stdin"},
		{"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
	} {
		if err := os.Symlink(l[0], l[1]); err != nil {
			return err
		}
	}
	return mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// procfs mounts /proc and covers what tells of the host or could change it. The
// kernel's own checks refuse such writes to the sandbox's user already.
func (s *server) procfs() error {
	if !s.setup.Proc {
		return mount("/proc", "proc", "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err := mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, name := range []string{"proc/cmdline", "proc/keys", "proc/kcore", "proc/timer_list"} {
		if err := unix.Mount("dev/null", name, "", unix.MS_BIND, ""); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cover %s: %w", name, err)
		}
	}
	if err := mount("proc/sys", "proc/sys", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", "proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// loopback brings lo up, the only interface that there is.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("loopback: %w", errno)
	}
	return nil
}
