package image

import (
	"errors"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// trimmer makes what layers could not know by themselves: see the package's comment.
type trimmer struct {
	stack   *stack
	implied []map[string]bool // of each layer, folders without an entry
	emptied []map[string]bool // of these, those that are the lower layers' all the same
	budget  *budget
	form    Form

	dir   string // made when the first thing goes into it
	out   *tree
	made  map[string]bool // folders of out, but for its root
	files map[twin]string // where the copy of a file lies
	disk  int64
}

// twin is a file of a layer, whatever its name.
type twin struct {
	layer int
	inode uint64
}

// trim fills dir, which it makes if there is anything to fill in, and gives the disk
// that it takes.
func trim(s *stack, notes []*note, dir string, form Form, b *budget) (disk int64, err error) {
	t := &trimmer{stack: s, budget: b, form: form, dir: dir, made: map[string]bool{}, files: map[twin]string{}}
	for _, n := range notes {
		t.implied = append(t.implied, setOf(n.Implied))
		t.emptied = append(t.emptied, setOf(n.Emptied))
	}
	defer func() {
		if t.out != nil {
			t.out.close()
		}
	}()
	for i, n := range notes {
		for _, step := range []func(int, *note) error{t.folders, t.bare, t.links} {
			if err := step(i, n); err != nil {
				return 0, err
			}
		}
	}
	return t.disk, t.dress()
}

// folders makes those that layer i only implies and a lower one describes otherwise.
func (t *trimmer) folders(i int, n *note) error {
	for _, raw := range n.Implied {
		p := string(raw)
		chain, err := t.stack.chain(p)
		if err != nil {
			return err
		}
		if len(chain) == 0 || chain[0] != i {
			continue
		}
		from, err := t.described(p)
		if err != nil {
			return err
		}
		if from == i {
			continue
		}
		is, err := t.attributes(i, p)
		if err != nil {
			return err
		}
		ought, err := t.attributes(from, p)
		if err != nil {
			return err
		}
		if is.mode == ought.mode && is.uid == ought.uid && is.gid == ought.gid {
			continue
		}
		if err := t.folder(p); err != nil {
			return err
		}
	}
	return nil
}

// bare makes those that whiteouts of layer i are in and no other layer has.
func (t *trimmer) bare(i int, n *note) error {
	for _, raw := range n.Whiteouts {
		dir := path.Dir(string(raw))
		chain, err := t.stack.chain(dir)
		if err != nil {
			return err
		}
		if dir != "." && len(chain) == 1 && chain[0] == i {
			if err := t.folder(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// links makes the files that layer i links to in lower layers.
func (t *trimmer) links(i int, n *note) error {
	for _, l := range n.Links {
		p := string(l.Path)
		from, err := t.stack.follow(i, p)
		if err != nil {
			return err
		}
		if from.what != aFile {
			return refuse(Malformed, "%q: a hard link to %q, which is no file of this layer or a lower one", p, l.Target)
		}
		seen, err := t.shows(i, p)
		if err != nil {
			return err
		}
		if !seen {
			continue
		}
		if err := t.folder(path.Dir(p)); err != nil {
			return err
		}
		if err := t.file(from, p); err != nil {
			return &entryError{p, err}
		}
	}
	return nil
}

// shows tells whether what layer i has at p is what the stack shows there.
func (t *trimmer) shows(i int, p string) (bool, error) {
	chain, err := t.stack.chain(path.Dir(p))
	if err != nil {
		return false, err
	}
	for _, j := range chain {
		if j == i {
			return true, nil
		}
		if what, _, err := t.stack.look(j, p); err != nil || what != nothing {
			return false, err
		}
	}
	return false, nil
}

// described gives the layer whose entry the folder p has its attributes from: the
// topmost that has one, or the lowest that has the folder.
func (t *trimmer) described(p string) (int, error) {
	if p == "." {
		for i := range t.stack.layers {
			if !t.implied[i]["."] {
				return i, nil
			}
		}
		return len(t.stack.layers) - 1, nil
	}
	above, err := t.stack.chain(path.Dir(p))
	if err != nil {
		return 0, err
	}
	lowest := -1
	for _, i := range above {
		what, _, err := t.stack.look(i, p)
		if err != nil {
			return 0, err
		}
		if what == nothing {
			continue
		}
		if what != aFolder && what != anOpaqueFolder {
			break
		}
		lowest = i
		if !t.implied[i][p] || what == anOpaqueFolder && !t.emptied[i][p] {
			break
		}
	}
	if lowest < 0 {
		return 0, &os.PathError{Op: "look at", Path: p, Err: unix.ENOENT}
	}
	return lowest, nil
}

func setOf(paths []rawPath) map[string]bool {
	set := map[string]bool{}
	for _, p := range paths {
		set[string(p)] = true
	}
	return set
}

func (t *trimmer) attributes(i int, p string) (attributes, error) {
	layer := t.stack.layers[i]
	dir, base := layer.fd, "."
	var st unix.Stat_t
	var err error
	if p != "." {
		dir, err = layer.dir(path.Dir(p))
		base = path.Base(p)
	}
	if err == nil {
		err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return attributes{}, &os.PathError{Op: "look at", Path: p, Err: err}
	}
	a := attributes{uid: -1, gid: -1, mode: st.Mode & 0o7777, time: time.Unix(st.Mtim.Unix())}
	if t.form.shifted() {
		a.uid, a.gid = int(st.Uid), int(st.Gid)
	}
	a.extended, err = extended(dir, base)
	return a, err
}

// folder makes p and all above it.
func (t *trimmer) folder(p string) error {
	if t.out == nil {
		if err := os.Mkdir(t.dir, 0o700); err != nil {
			return err
		}
		var err error
		if t.out, err = openTree(t.dir); err != nil {
			return err
		}
		t.disk += blockSize
	}
	if p == "." || t.made[p] {
		return nil
	}
	if err := t.folder(path.Dir(p)); err != nil {
		return err
	}
	dir, err := t.out.dir(path.Dir(p))
	if err == nil {
		err = unix.Mkdirat(dir, path.Base(p), 0o700)
	}
	if err != nil {
		return &os.PathError{Op: "make", Path: p, Err: err}
	}
	t.made[p] = true
	t.disk += blockSize
	return nil
}

// file copies what was found to p.
func (t *trimmer) file(f found, p string) error {
	to, err := t.out.open(path.Dir(p), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	base := path.Base(p)
	key := twin{f.layer, f.stat.Ino}
	if copied, is := t.files[key]; is {
		from, err := t.out.dir(path.Dir(copied))
		if err != nil {
			return err
		}
		return unix.Linkat(from, path.Base(copied), to, base, 0)
	}
	t.files[key] = p
	if err := t.budget.spendBytes(f.stat.Size); err != nil {
		return err
	}
	from, err := t.stack.layers[f.layer].dir(path.Dir(f.path))
	if err != nil {
		return err
	}
	kind := f.stat.Mode & unix.S_IFMT
	switch kind {
	case unix.S_IFLNK:
		text := make([]byte, f.stat.Size+1)
		n, e := unix.Readlinkat(from, path.Base(f.path), text)
		if err = e; err == nil {
			err = unix.Symlinkat(string(text[:n]), to, base)
		}
	case unix.S_IFIFO:
		err = unix.Mknodat(to, base, unix.S_IFIFO|0o600, 0)
	default:
		err = copyFile(from, path.Base(f.path), to, base)
	}
	if err != nil {
		return err
	}
	t.disk += blockSize + (f.stat.Size+blockSize-1)/blockSize*blockSize
	a, err := t.attributes(f.layer, f.path)
	if err != nil {
		return err
	}
	_, err = a.apply(to, base, kind == unix.S_IFLNK)
	return err
}

func copyFile(fromDir int, from string, toDir int, to string) (err error) {
	in, err := unix.Openat(fromDir, from, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r := os.NewFile(uintptr(in), from)
	defer r.Close()
	out, err := unix.Openat(toDir, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	w := os.NewFile(uintptr(out), to)
	_, err = w.ReadFrom(r)
	return errors.Join(err, w.Close())
}

// dress gives the folders their attributes, the deepest first.
func (t *trimmer) dress() error {
	if t.out == nil {
		return nil
	}
	paths := []string{"."}
	for p := range t.made {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int {
		switch {
		case a == ".":
			return 1
		case b == ".":
			return -1
		case a < b:
			return 1
		}
		return -1
	})
	for _, p := range paths {
		from, err := t.described(p)
		if err != nil {
			return err
		}
		a, err := t.attributes(from, p)
		if err != nil {
			return err
		}
		if p == "." {
			if _, err := a.apply(t.out.fd, ".", false); err != nil {
				return err
			}
			continue
		}
		dir, err := t.out.dir(path.Dir(p))
		if err != nil {
			return err
		}
		if _, err := a.apply(dir, path.Base(p), false); err != nil {
			return err
		}
	}
	return nil
}
