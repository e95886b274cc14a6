package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// stack reads layers the way that overlay shows them.
type stack struct {
	layers []*tree             // the topmost first
	links  []map[string]string // of each layer: hard links to what it does not have
	chains map[string][]int
}

// openStack opens folders, the topmost first; notes are theirs.
func openStack(dirs []string, notes []*note) (*stack, error) {
	s := &stack{chains: map[string][]int{}}
	for i, d := range dirs {
		links := map[string]string{}
		for _, l := range notes[i].Links {
			links[string(l.Path)] = string(l.Target)
		}
		s.links = append(s.links, links)
		t, err := openTree(d)
		if err != nil {
			s.close()
			return nil, err
		}
		s.layers = append(s.layers, t)
	}
	return s, nil
}

func (s *stack) close() {
	for _, t := range s.layers {
		t.close()
	}
}

// sort is what a layer has at a path.
type sort int

const (
	nothing sort = iota
	aWhiteout
	aFolder
	anOpaqueFolder
	aFile // or anything else that is no folder
	aLink // to a file of a lower layer
)

// look tells what layer i has at p, whose parent is a folder of it.
func (s *stack) look(i int, p string) (sort, unix.Stat_t, error) {
	if _, is := s.links[i][p]; is {
		return aLink, unix.Stat_t{}, nil
	}
	t := s.layers[i]
	st, err := t.stat(p)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nothing, st, nil
	case err != nil:
		return nothing, st, &os.PathError{Op: "look at", Path: p, Err: err}
	}
	dir, err := t.dir(path.Dir(p))
	if err != nil {
		return nothing, st, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		for _, name := range []string{userOpaque, trustedOpaque} {
			if attribute(dir, path.Base(p), name) == "y" {
				return anOpaqueFolder, st, nil
			}
		}
		return aFolder, st, nil
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return aWhiteout, st, nil
		}
	case unix.S_IFREG:
		if st.Size == 0 && attribute(dir, path.Base(p), userWhiteout) != "" {
			return aWhiteout, st, nil
		}
	}
	return aFile, st, nil
}

// chain lists the layers whose folders at p are merged, the topmost first. It is empty
// where the stack has no folder.
func (s *stack) chain(p string) ([]int, error) {
	if c, known := s.chains[p]; known {
		return c, nil
	}
	var c []int
	if p == "." {
		for i := range s.layers {
			c = append(c, i)
		}
		s.chains[p] = c
		return c, nil
	}
	above, err := s.chain(path.Dir(p))
	if err != nil {
		return nil, err
	}
search:
	for _, i := range above {
		what, _, err := s.look(i, p)
		if err != nil {
			return nil, err
		}
		switch what {
		case aFolder:
			c = append(c, i)
		case anOpaqueFolder:
			c = append(c, i)
			break search
		case aWhiteout, aFile, aLink:
			break search
		}
	}
	s.chains[p] = c
	return c, nil
}

// found is what a stack shows at a path.
type found struct {
	what  sort
	layer int    // that has it
	path  string // of it there, another one for a hard link
	stat  unix.Stat_t
}

// find gives what the stack shows at p.
func (s *stack) find(p string) (found, error) {
	above, err := s.chain(path.Dir(p))
	if err != nil {
		return found{}, err
	}
	for _, i := range above {
		what, st, err := s.look(i, p)
		switch {
		case err != nil:
			return found{}, err
		case what == aWhiteout:
			return found{}, nil
		case what == aLink:
			return s.follow(i, p)
		case what != nothing:
			return found{what, i, p, st}, nil
		}
	}
	return found{}, nil
}

// follow gives what the hard link p of layer i is one to.
func (s *stack) follow(i int, p string) (found, error) {
	below := &stack{layers: s.layers[i+1:], links: s.links[i+1:], chains: map[string][]int{}}
	f, err := below.find(s.links[i][p])
	f.layer += i + 1
	return f, err
}

// hops is how many symbolic links a path may lead through, as in the kernel.
const hops = 40

// resolve follows the symbolic links of p, the last one too, as a process inside would.
// What there is nothing of stays as it is; there tells whether p led through nothing
// but folders to something.
func (s *stack) resolve(p string) (at string, there bool, err error) {
	left := strings.Split(p, "/")
	at, there = ".", true
	for followed := 0; len(left) > 0; {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		f, err := s.find(next)
		if err != nil {
			return "", false, err
		}
		if f.what == nothing || f.stat.Mode&unix.S_IFMT != unix.S_IFLNK {
			isFolder := f.what == aFolder || f.what == anOpaqueFolder
			there = there && f.what != nothing && (isFolder || len(left) == 0)
			at = next
			continue
		}
		if followed++; followed > hops {
			return "", false, &fs.PathError{Op: "follow", Path: p, Err: unix.ELOOP}
		}
		link, err := s.target(f)
		if err != nil {
			return "", false, err
		}
		if strings.HasPrefix(link, "/") {
			at = "."
		}
		left = append(strings.Split(link, "/"), left...)
	}
	return at, there, nil
}

// read gives the text of a file as a process inside would see it, following symbolic
// links within the stack; "" where there is none. Of large files it gives the first
// megabytes.
func (s *stack) read(p string) (string, error) {
	const most = 4 << 20
	at, there, err := s.resolve(p)
	if errors.Is(err, unix.ELOOP) {
		return "", nil
	}
	if err != nil || !there {
		return "", err
	}
	f, err := s.find(at)
	if err != nil || f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", err
	}
	fd, err := s.layers[f.layer].open(f.path, unix.O_RDONLY)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: f.path, Err: err}
	}
	file := os.NewFile(uintptr(fd), f.path)
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, most))
	return string(b), err
}
