package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// marks is how whiteouts and opaque folders are written.
type marks struct {
	opaque    []string // attributes that make a folder opaque
	whiteouts bool     // by attribute, not by device
}

// Attributes of overlay itself. Those in an archive are never set.
const (
	userOpaque    = "user.overlay.opaque"
	userWhiteout  = "user.overlay.whiteout"
	trustedOpaque = "trusted.overlay.opaque"
	userOverlay   = "user.overlay."
)

// unpacker puts one layer into a folder.
type unpacker struct {
	tree   *tree
	form   Form
	marks  marks
	budget *budget
	note   note

	dirs      map[string]attributes // their attributes are set last, as files come into them
	implied   map[string]bool       // of dirs, those without an entry
	whiteouts map[string]bool
	opaque    map[string]bool
	links     map[string]string // to what is not in this layer
	buffer    []byte
}

// unpack reads an uncompressed archive into dir, which is empty. Of what it makes
// nothing is of use if it fails.
func unpack(ctx context.Context, archive io.Reader, dir string, form Form, m marks, b *budget) (*note, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	u := &unpacker{
		tree: t, form: form, marks: m, budget: b, buffer: make([]byte, 256<<10),
		dirs: map[string]attributes{}, implied: map[string]bool{}, whiteouts: map[string]bool{}, opaque: map[string]bool{}, links: map[string]string{},
	}
	u.imply(".")
	r := tar.NewReader(archive)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.entry(h, r); err != nil {
			return nil, named(h.Name, err)
		}
	}
	if err := u.finish(); err != nil {
		return nil, err
	}
	return &u.note, nil
}

// malformed is for what a reader of an archive says, which may be what is under it.
func malformed(err error) error {
	var file *fs.PathError
	if reasonOf(err) != "" || errors.As(err, &file) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return refuse(Malformed, "its archive cannot be read: %w", err)
}

// named says which entry an error of the file system is about.
func named(name string, err error) error {
	var number unix.Errno
	switch {
	case reasonOf(err) != "" || !errors.As(err, &number):
		return err
	case number == unix.ELOOP:
		return refuse(Unsafe, "%q: its path leads through a symbolic link", name)
	case number == unix.ENOTDIR:
		return refuse(Malformed, "%q: its path leads through what is no folder", name)
	case number == unix.ENAMETOOLONG:
		return refuse(TooLarge, "%q: its name or what it links to is too long", name)
	case number == unix.EXDEV:
		return refuse(Unsafe, "%q: its path leads out of the root", name)
	}
	return &entryError{name, err}
}

type entryError struct {
	name string
	err  error
}

func (e *entryError) Error() string { return e.name + ": " + e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	u.note.Entries++
	if err := u.budget.spendEntries(1); err != nil {
		return err
	}
	name, err := cleanName(h.Name, u.budget.limits.Path)
	if err != nil {
		return err
	}
	mark, p, err := readWhiteout(name)
	if err != nil {
		return err
	}
	switch mark {
	case ignored:
		return nil
	case opaque:
		u.opaque[p] = true
		_, err := u.parent(path.Join(p, "x"))
		return err
	case hides:
		u.whiteouts[p] = true
		_, err := u.parent(p)
		return err
	}
	if p == "." {
		if h.Typeflag != tar.TypeDir {
			return refuse(Malformed, "%q: the root is no folder", h.Name)
		}
		u.dirs["."] = u.attributes(h)
		delete(u.implied, ".")
		return nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(p, h)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(p, h, content)
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return refuse(Malformed, "%q: a symbolic link to nothing", h.Name)
		}
		return u.make(p, h, true, func(dir int, base string) error { return unix.Symlinkat(h.Linkname, dir, base) })
	case tar.TypeFifo:
		return u.make(p, h, false, func(dir int, base string) error { return unix.Mknodat(dir, base, unix.S_IFIFO|0o600, 0) })
	case tar.TypeLink:
		return u.link(p, h)
	case tar.TypeChar, tar.TypeBlock:
		u.note.Devices++
		return nil
	}
	return refuse(Malformed, "%q: entries of type %q are unknown", h.Name, h.Typeflag)
}

// blockSize is what a file, a folder or a link costs at least.
const blockSize = 4096

func (u *unpacker) count(size int64) {
	u.note.Disk += blockSize + (size+blockSize-1)/blockSize*blockSize
}

// attributes are those that an entry asks for, as the form has them.
func (u *unpacker) attributes(h *tar.Header) attributes {
	a := attributes{uid: -1, gid: -1, mode: uint32(h.Mode) & 0o7777, time: h.ModTime}
	if u.form.shifted() {
		var known, alsoKnown bool
		a.uid, known = u.form.id(h.Uid)
		a.gid, alsoKnown = u.form.id(h.Gid)
		if !known || !alsoKnown {
			u.note.Strangers++
		}
	} else {
		a.mode = ownMode(a.mode, h.Typeflag == tar.TypeDir)
	}
	for key, value := range h.PAXRecords {
		name, is := strings.CutPrefix(key, "SCHILY.xattr.")
		switch {
		case !is:
		case isOrdinary(name) && !strings.ContainsRune(name, 0):
			if a.extended == nil {
				a.extended = map[string]string{}
			}
			a.extended[name] = value
		default:
			u.note.Attributes++
		}
	}
	return a
}

// ownMode is a mode that an owner without further rights can work with.
func ownMode(mode uint32, dir bool) uint32 {
	if dir {
		return mode | 0o700
	}
	return mode&^uint32(unix.S_ISUID|unix.S_ISGID) | 0o400
}

// parent gives the folder that p goes into, made if no entry did before.
func (u *unpacker) parent(p string) (int, error) {
	dir := path.Dir(p)
	fd, err := u.tree.dir(dir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if _, linked := u.links[dir]; linked {
		return -1, unix.ENOTDIR
	}
	above, err := u.parent(dir)
	if err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(above, path.Base(dir), 0o700); err != nil {
		return -1, err
	}
	u.imply(dir)
	return u.tree.dir(dir)
}

func (u *unpacker) imply(dir string) {
	a := attributes{uid: -1, gid: -1, mode: 0o755, time: time.Unix(0, 0)}
	if u.form.shifted() {
		a.uid, a.gid = u.form.Base, u.form.Base
	}
	u.dirs[dir] = a
	u.implied[dir] = true
	u.count(0)
}

// place calls create where p goes. What was there before is removed: of several
// entries of a name the last wins.
func (u *unpacker) place(p string, create func(dir int, base string) error) (dir int, err error) {
	base := path.Base(p)
	if dir, err = u.parent(p); err != nil {
		return -1, err
	}
	delete(u.links, p)
	err = create(dir, base)
	if !errors.Is(err, unix.EEXIST) {
		return dir, err
	}
	if err := u.clear(p); err != nil {
		return -1, err
	}
	if dir, err = u.parent(p); err != nil {
		return -1, err
	}
	return dir, create(dir, base)
}

// clear removes what is at p, and what was noted of it.
func (u *unpacker) clear(p string) error {
	if _, was := u.dirs[p]; was {
		forget(u.dirs, p)
		forget(u.implied, p)
		forget(u.links, p)
		forget(u.opaque, p)
		for w := range u.whiteouts {
			if w != p && within(w, p) {
				delete(u.whiteouts, w)
			}
		}
	}
	return u.tree.remove(p)
}

func forget[V any](m map[string]V, p string) {
	for k := range m {
		if within(k, p) {
			delete(m, k)
		}
	}
}

// make places what has no content.
func (u *unpacker) make(p string, h *tar.Header, link bool, create func(dir int, base string) error) error {
	dir, err := u.place(p, create)
	if err != nil {
		return err
	}
	u.count(0)
	refused, err := u.attributes(h).apply(dir, path.Base(p), link)
	u.note.Attributes += refused
	return err
}

func (u *unpacker) folder(p string, h *tar.Header) error {
	if !u.tree.isDir(p) {
		// A file that was here before hid what lower layers have in a folder.
		_, hid := u.links[p]
		if !hid {
			var err error
			if hid, err = u.tree.exists(p); err != nil {
				return err
			}
		}
		if _, err := u.place(p, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) }); err != nil {
			return err
		}
		u.count(0)
		if hid {
			u.opaque[p] = true
		}
	}
	u.dirs[p] = u.attributes(h)
	delete(u.implied, p)
	return nil
}

func (u *unpacker) file(p string, h *tar.Header, content io.Reader) error {
	if h.Size > u.budget.limits.File {
		return refuse(TooLarge, "%q: it has %d bytes, at most %d are taken", h.Name, h.Size, u.budget.limits.File)
	}
	if err := u.budget.spendBytes(h.Size); err != nil {
		return err
	}
	fd := -1
	dir, err := u.place(p, func(dir int, base string) (err error) {
		fd, err = unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	written, err := u.copy(fd, content, isSparse(h), h.Size)
	if e := unix.Close(fd); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	u.note.Bytes += h.Size
	u.count(written)
	refused, err := u.attributes(h).apply(dir, path.Base(p), false)
	u.note.Attributes += refused
	return err
}

func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// copy writes content, which has size bytes, and gives how many were written: of sparse
// files, blocks of zeros are not.
func (u *unpacker) copy(fd int, content io.Reader, sparse bool, size int64) (written int64, err error) {
	at := int64(0)
	for {
		n, err := io.ReadFull(content, u.buffer)
		for b := u.buffer[:n]; len(b) > 0; {
			k := len(b)
			if sparse {
				if k = min(k, blockSize); zero(b[:k]) {
					at, b = at+int64(k), b[k:]
					continue
				}
			}
			m, err := unix.Pwrite(fd, b[:k], at)
			if err != nil && err != unix.EINTR {
				return written, err
			}
			m = max(m, 0)
			at, b, written = at+int64(m), b[m:], written+int64(m)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF && at == size {
			break
		}
		if err != nil {
			return written, malformed(err)
		}
	}
	if written < at {
		return written, unix.Ftruncate(fd, at)
	}
	return written, nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (u *unpacker) link(p string, h *tar.Header) error {
	target, err := cleanName(h.Linkname, u.budget.limits.Path)
	if err != nil {
		return refuse(reasonOf(err), "%q: a hard link to what cannot be: %w", h.Name, err)
	}
	mark, _, err := readWhiteout(target)
	if err != nil || mark != plain || target == "." {
		return refuse(Malformed, "%q: a hard link to %q, which is no file", h.Name, h.Linkname)
	}
	if target == p {
		return nil
	}
	st, err := u.tree.stat(target)
	if errors.Is(err, unix.ENOENT) {
		if t, also := u.links[target]; also {
			target = t
		}
		if _, err := u.parent(p); err != nil {
			return err
		}
		if there, err := u.tree.exists(p); err != nil {
			return err
		} else if there {
			if err := u.clear(p); err != nil {
				return err
			}
		}
		u.links[p] = target
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return refuse(Malformed, "%q: a hard link to %q, which is a folder", h.Name, h.Linkname)
	}
	if within(target, p) {
		return refuse(Malformed, "%q: a hard link to %q, which it would replace", h.Name, h.Linkname)
	}
	from, err := u.tree.open(path.Dir(target), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	_, err = u.place(p, func(dir int, base string) error { return unix.Linkat(from, path.Base(target), dir, base, 0) })
	return err
}

// finish writes whiteouts and opaque marks, and then the attributes of folders, the
// deepest first.
func (u *unpacker) finish() error {
	for p := range u.opaque {
		if u.implied[p] && !u.whiteouts[p] {
			u.note.Emptied = append(u.note.Emptied, rawPath(p))
		}
	}
	for p := range u.whiteouts {
		// Where this layer has something of its own, that hides already what lower ones have,
		// but for a folder, which would be merged.
		if _, is := u.dirs[p]; is {
			u.opaque[p] = true
		}
	}
	for p := range u.links {
		u.whiteouts[p] = true // a file will be there, and hides a folder of lower layers
	}
	for p := range u.whiteouts {
		if err := u.whiteout(p); err != nil {
			return named(p, err)
		}
	}
	for p := range u.opaque {
		if err := u.markOpaque(p); err != nil {
			return named(p, err)
		}
	}
	paths := make([]string, 0, len(u.dirs))
	for p := range u.dirs {
		paths = append(paths, p)
	}
	// "a/b" sorts after "a", and so the reverse has it first.
	slices.Sort(paths)
	slices.Reverse(paths)
	for _, p := range paths {
		if p == "." {
			continue
		}
		if err := u.dress(p); err != nil {
			return named(p, err)
		}
	}
	if err := u.dress("."); err != nil {
		return named(".", err)
	}
	for p := range u.implied {
		u.note.Implied = append(u.note.Implied, rawPath(p))
	}
	for p, target := range u.links {
		u.note.Links = append(u.note.Links, link{rawPath(p), rawPath(target)})
	}
	slices.Sort(u.note.Implied)
	slices.Sort(u.note.Emptied)
	slices.Sort(u.note.Whiteouts)
	slices.SortFunc(u.note.Links, func(a, b link) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return nil
}

// dress sets the attributes of a folder.
func (u *unpacker) dress(p string) error {
	dir, base := u.tree.fd, "."
	if p != "." {
		var err error
		if dir, err = u.tree.dir(path.Dir(p)); err != nil {
			return err
		}
		base = path.Base(p)
	}
	refused, err := u.dirs[p].apply(dir, base, false)
	u.note.Attributes += refused
	return err
}

// whiteout hides p of lower layers, unless it is hidden anyway.
func (u *unpacker) whiteout(p string) error {
	if u.covered(path.Dir(p)) {
		return nil
	}
	if there, err := u.tree.exists(p); err != nil || there {
		return err
	}
	if _, is := u.dirs[path.Dir(p)]; !is {
		return nil // what it was in has been replaced
	}
	dir, base := path.Dir(p), path.Base(p)
	fd, err := u.tree.dir(dir)
	if err != nil {
		return err
	}
	if u.marks.whiteouts {
		err = u.whiteoutFile(fd, base, dir)
	} else {
		err = unix.Mknodat(fd, base, unix.S_IFCHR, 0)
	}
	u.note.Whiteouts = append(u.note.Whiteouts, rawPath(p))
	return err
}

// whiteoutFile marks an empty file and its folder. The root is marked too, which costs
// nothing: Linux 6.18 does not ask for it.
func (u *unpacker) whiteoutFile(fd int, base, dir string) error {
	f, err := unix.Openat(fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(f)
	// Whoever mounts has to be able to read the mark.
	a := attributes{uid: -1, gid: -1, mode: 0o644, time: time.Unix(0, 0)}
	if u.form.shifted() {
		a.uid, a.gid = u.form.Base, u.form.Base
	}
	if _, err := a.apply(fd, base, false); err != nil {
		return err
	}
	if err := setAttribute(fd, base, userWhiteout, "y"); err != nil {
		return err
	}
	for _, d := range []string{dir, "."} {
		fd, err := u.tree.dir(d)
		if err == nil {
			err = setAttribute(fd, ".", userOpaque, "x")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// covered tells whether a folder is opaque or in one that is: nothing of lower layers
// is to be seen there anyway, and what it hides overlay would show.
func (u *unpacker) covered(dir string) bool {
	for ; ; dir = path.Dir(dir) {
		if u.opaque[dir] {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

func (u *unpacker) markOpaque(p string) error {
	if p == "." {
		u.note.Opaque = true // overlay ignores the mark on a layer's root
		return nil
	}
	if _, is := u.dirs[p]; !is {
		return nil
	}
	fd, err := u.tree.dir(p)
	if err != nil {
		return err
	}
	for _, name := range u.marks.opaque {
		if err := setAttribute(fd, ".", name, "y"); err != nil {
			return err
		}
	}
	return nil
}
