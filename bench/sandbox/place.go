package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// place is where everything lies that is measured.
type place struct {
	dir     string
	program string // this one, for everybody
	root    string // a root directory for the peers, without /usr; it has the workspace, for images
	files   string // the workspace
}

// files of the workspace.
var files = map[string]string{"pkg/mod.py": "x = 1\n", "test.py": "import pkg.mod\n"}

func newPlace() (p *place, err error) {
	dir, err := os.MkdirTemp("", "bench-sandbox-")
	if err != nil {
		return nil, err
	}
	p = &place{dir: dir, program: filepath.Join(dir, "bench"), root: filepath.Join(dir, "root"), files: filepath.Join(dir, "workspace")}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile("/proc/self/exe", p.program, 0o755)); err != nil {
		return nil, err
	}
	for _, d := range []string{"usr", "etc", "proc", "sys", "dev", "tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(p.root, d), 0o755); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+d, filepath.Join(p.root, d)); err != nil {
			return nil, err
		}
	}
	return p, errors.Join(os.WriteFile(filepath.Join(p.root, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/bash\n"), 0o644), p.lay(p.files), p.lay(filepath.Join(p.root, "workspace")))
}

func (p *place) remove() { os.RemoveAll(p.dir) }

// lay writes the workspace to dir.
func (p *place) lay(dir string) error {
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// sub makes a directory for somebody's own use.
func (p *place) sub(name string) (string, error) {
	dir := filepath.Join(p.dir, name)
	return dir, errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777))
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
