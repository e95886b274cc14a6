package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratch makes a folder for what the commands of one sandbox write.
func (d *Driver) scratch() (string, error) {
	dir, err := os.MkdirTemp(d.state.dir, "scratch-")
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), d.own(dir)); err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// own gives dir to the sandbox's root.
func (d *Driver) own(dir string) error {
	if !d.privileged {
		return nil
	}
	return os.Chown(dir, firstID, firstID)
}

// headroom is what has to be free where sandboxes keep files for the host's disk not
// to count as full: a command that met the end of it may have cleaned up since.
const headroom = 16 << 20

// full is an error if the file system of the driver's files is full. A command that
// failed for that is no command's fault.
func (d *Driver) full() error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.state.dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: d.state.dir, Err: err}
	}
	if st.Bavail*uint64(st.Bsize) < headroom || st.Files > 0 && st.Ffree < 16 {
		return &os.PathError{Op: "write", Path: d.state.dir, Err: unix.ENOSPC}
	}
	return nil
}

// removeAll removes everything at and under dir, whatever modes commands have left.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
