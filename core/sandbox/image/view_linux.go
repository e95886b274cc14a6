package image

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// View reads the files of an image as a process in it would see them, without a mount.
// Paths are absolute; ones that end in a symbolic link are not followed there, and no
// path leads out of the image. A View keeps a descriptor for each layer, and is for one
// goroutine. Its errors are of the file system; [fs.ErrNotExist] where there is nothing.
type View struct{ stack *stack }

// Entry is a file, a folder or whatever of an image. Owners are ids of the host.
type Entry struct {
	Mode     uint32 // type and permissions, as in stat(2)
	UID, GID int
	Target   string // of a symbolic link
}

// IsFolder tells what the name says.
func (e Entry) IsFolder() bool { return e.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsFile tells whether it is a regular file.
func (e Entry) IsFile() bool { return e.Mode&unix.S_IFMT == unix.S_IFREG }

// IsLink tells whether it is a symbolic link.
func (e Entry) IsLink() bool { return e.Mode&unix.S_IFMT == unix.S_IFLNK }

// View opens the image's files. The image must stay open as long.
func (i *Image) View() (*View, error) {
	// What hard links between layers mean has been settled by the trim.
	notes := slices.Repeat([]*note{{}}, len(i.Layers))
	s, err := openStack(i.Layers, notes)
	if err != nil {
		return nil, err
	}
	return &View{s}, nil
}

// Close frees the descriptors.
func (v *View) Close() { v.stack.close() }

// inner is a path as stacks have it.
func inner(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		return "."
	}
	return p
}

func missing(p string) error { return &fs.PathError{Op: "look at", Path: p, Err: fs.ErrNotExist} }

// Lstat tells what is at p. The folders on the way to it must be folders, not links.
func (v *View) Lstat(p string) (Entry, error) {
	if in := inner(p); in != "." {
		f, err := v.stack.find(in)
		if err != nil {
			return Entry{}, err
		}
		if f.what == nothing {
			return Entry{}, missing(p)
		}
		e := entryOf(f.stat)
		if e.IsLink() {
			e.Target, err = v.stack.target(f)
		}
		return e, err
	}
	st, err := v.stack.layers[0].stat(".")
	return entryOf(st), err
}

func entryOf(st unix.Stat_t) Entry {
	return Entry{Mode: st.Mode, UID: int(st.Uid), GID: int(st.Gid)}
}

// target reads a symbolic link.
func (s *stack) target(f found) (string, error) {
	dir, err := s.layers[f.layer].dir(path.Dir(f.path))
	if err != nil {
		return "", err
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, path.Base(f.path), b)
	if err != nil {
		return "", &os.PathError{Op: "read link", Path: f.path, Err: err}
	}
	return string(b[:n]), nil
}

// Read gives the bytes of the file at p, which are at most limit.
func (v *View) Read(p string, limit int64) ([]byte, error) {
	f, err := v.stack.find(inner(p))
	if err != nil {
		return nil, err
	}
	if f.what == nothing {
		return nil, missing(p)
	}
	if f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &fs.PathError{Op: "read", Path: p, Err: unix.EINVAL}
	}
	if f.stat.Size > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("it has %d bytes, at most %d are read", f.stat.Size, limit)}
	}
	fd, err := v.stack.layers[f.layer].open(f.path, unix.O_RDONLY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	file := os.NewFile(uintptr(fd), p)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// Resolve follows the symbolic links of p, the last one too, as a process in the image
// would. What there is nothing of stays as it is.
func (v *View) Resolve(p string) (string, error) {
	at, _, err := v.stack.resolve(inner(p))
	if err != nil {
		return "", err
	}
	return path.Join("/", at), nil
}

// Find gives the paths of all that is called name in the folder dir and in the folders
// below it, sorted. Of what it finds it does not look inside.
func (v *View) Find(dir, name string) ([]string, error) {
	var all []string
	err := v.walk(inner(dir), name, &all)
	slices.Sort(all)
	return all, err
}

func (v *View) walk(dir, name string, all *[]string) error {
	chain, err := v.stack.chain(dir)
	if err != nil {
		return err
	}
	candidates := map[string]bool{}
	for _, i := range chain {
		fd, err := v.stack.layers[i].open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: dir, Err: err}
		}
		folder := os.NewFile(uintptr(fd), dir)
		entries, err := folder.ReadDir(-1)
		folder.Close()
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || e.Name() == name {
				candidates[e.Name()] = true
			}
		}
	}
	for c := range candidates {
		p := path.Join(dir, c)
		f, err := v.stack.find(p)
		switch {
		case err != nil:
			return err
		case f.what == nothing:
		case c == name:
			*all = append(*all, "/"+p)
		case f.stat.Mode&unix.S_IFMT == unix.S_IFDIR:
			if err := v.walk(p, name, all); err != nil {
				return err
			}
		}
	}
	return nil
}
