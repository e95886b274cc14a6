package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
