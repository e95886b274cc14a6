package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// A cover is the folder that lies on top of an image's layers, the same for all sandboxes
// of an image and a workspace: the workspace's files and what patches make of the image's,
// whiteouts over version control, and what a root has to have to be mounted on.
type cover struct {
	spaces *workspaces
	view   *image.View
	dir    string // on the host
	user   toolserver.User
	made   map[string]bool
	times  map[string]image.Entry // folders whose attributes are set when all is made
	bytes  int64
}

// files that a root has whatever the image has in their place.
var written = []struct{ name, text string }{
	{"hostname", "sandbox\n"}, {"hosts", hostsFile}, {"resolv.conf", "nameserver 127.0.0.1\n"},
}

// mountPoints are the folders that something is mounted on.
var mountPoints = []string{"/proc", "/sys", "/dev"}

// cover gives the cover of a workspace in a folder of an image.
func (c *workspaces) cover(p *picture, in folder, user toolserver.User, w *sdk.Workspace) (*workspace, error) {
	h := sha256.New()
	field(h, p.image.Digest)
	field(h, in.place)
	field(h, fmt.Sprint(user))
	field(h, keyOf(w))
	return c.share(hex.EncodeToString(h.Sum(nil)), func(at string) (int64, error) {
		v, err := p.image.View()
		if err != nil {
			return 0, diag.Wrap(diag.KindSandbox, "read image", p.ref, err)
		}
		defer v.Close()
		m := &cover{spaces: c, view: v, dir: at, user: user, made: map[string]bool{}, times: map[string]image.Entry{}}
		if err := m.make(in, w); err != nil {
			removeAll(at)
			return 0, diag.Wrap(diag.KindSandbox, "lay workspace over image", p.ref, err)
		}
		return m.bytes, nil
	})
}

func (m *cover) make(in folder, w *sdk.Workspace) error {
	if err := m.folder("/", false, 0, 0); err != nil {
		return err
	}
	for _, d := range mountPoints {
		// What is mounted there must not go where a link of the image leads.
		if e, err := m.view.Lstat(d); err != nil || !e.IsFolder() {
			if err := m.folder(d, true, 0, 0); err != nil {
				return err
			}
		}
	}
	for _, d := range []string{"/tmp", "/var/tmp"} {
		if err := m.temporary(d); err != nil {
			return err
		}
	}
	if err := m.etc(); err != nil {
		return err
	}
	if err := m.folder(in.place, false, int(m.user.UID), int(m.user.GID)); err != nil {
		return err
	}
	for _, h := range in.hidden {
		if err := m.whiteout(h); err != nil {
			return err
		}
	}
	changes, err := m.changes(in.place, w)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := m.change(in.place, c); err != nil {
			return err
		}
	}
	return m.finish()
}

// changes is what the workspace changes in the image's folder place.
func (m *cover) changes(place string, w *sdk.Workspace) ([]sdk.Change, error) {
	files := slices.DeleteFunc(slices.Clone(w.Files), func(f sdk.File) bool { return slices.Contains(strings.Split(f.Path, "/"), ".git") })
	const most = 64 << 20 // bytes of a file that a patch changes
	return patch.Over(func(name string) (sdk.Change, error) {
		full := path.Join(place, name)
		if err := m.straight(place, path.Dir(full)); err != nil {
			return sdk.Change{}, err
		}
		e, err := m.view.Lstat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return sdk.Change{}, fs.ErrNotExist
		case err != nil:
			return sdk.Change{}, diag.Wrap(diag.KindSandbox, "", "", err)
		case e.IsLink():
			return sdk.Change{Path: name, Symlink: e.Target}, nil
		case !e.IsFile():
			return sdk.Change{}, diag.Errorf(diag.KindData, "", "", "in the image this is neither a file nor a link")
		}
		data, err := m.view.Read(full, most)
		if err != nil {
			return sdk.Change{}, diag.Wrap(diag.KindData, "", "", err)
		}
		return sdk.Change{Path: name, Data: data, Exec: e.Mode&0o100 != 0}, nil
	}, files, w.Patches...)
}

// straight refuses folders on the way to dir, below place, that are none in the image: a
// link would lead who knows where.
func (m *cover) straight(place, dir string) error {
	for ; dir != place; dir = path.Dir(dir) {
		e, err := m.view.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return diag.Wrap(diag.KindSandbox, "", "", err)
		case e.IsLink():
			return diag.Errorf(diag.KindData, "", "", "%s is a symbolic link in the image (to %s): name the file where it lies", dir, e.Target)
		case !e.IsFolder():
			return diag.Errorf(diag.KindData, "", "", "%s is no folder in the image", dir)
		}
	}
	return nil
}

// change makes one change of the workspace.
func (m *cover) change(place string, c sdk.Change) error {
	full := path.Join(place, c.Path)
	if err := m.straight(place, path.Dir(full)); err != nil {
		return diag.Wrap(diag.KindData, "lay down", c.Path, err)
	}
	was, err := m.view.Lstat(full)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there && was.IsFolder() {
		return diag.Errorf(diag.KindData, "lay down", c.Path, "it is a folder in the image")
	}
	if c.Deleted {
		if !there {
			return nil
		}
		return m.whiteout(full)
	}
	if err := m.folder(path.Dir(full), false, int(m.user.UID), int(m.user.GID)); err != nil {
		return err
	}
	name := filepath.Join(m.dir, full)
	if c.Symlink != "" {
		if err := os.Symlink(c.Symlink, name); err != nil {
			return err
		}
		return m.own(name, m.id(m.user.UID), m.id(m.user.GID))
	}
	mode, uid, gid := os.FileMode(0o644), m.id(m.user.UID), m.id(m.user.GID)
	if there && was.IsFile() {
		mode, uid, gid = os.FileMode(was.Mode&0o777), was.UID, was.GID
	}
	switch {
	case !c.Exec:
		mode &^= 0o111
	case mode&0o111 == 0:
		mode |= 0o111
	}
	m.bytes += (int64(len(c.Data)) + blockSize - 1) / blockSize * blockSize
	return m.file(name, c.Data, mode, uid, gid)
}

// id is the host's id of one of the sandbox; -1 is this process's own.
func (m *cover) id(n uint32) int {
	if m.spaces.owner < 0 {
		return -1
	}
	return m.spaces.owner + int(n)
}

func (m *cover) own(name string, uid, gid int) error {
	if m.spaces.owner < 0 {
		return nil
	}
	return os.Lchown(name, uid, gid)
}

func (m *cover) file(name string, data []byte, mode os.FileMode, uid, gid int) error {
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	return errors.Join(m.own(name, uid, gid), os.Chmod(name, mode),
		unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{laid, laid}, 0))
}

// folder makes the folder p and those above it, each as it is in the image. The last one
// is uid's and gid's, ids of the sandbox, if the image has none; anew makes it whatever
// the image has there.
func (m *cover) folder(p string, anew bool, uid, gid int) error {
	if m.made[p] {
		return nil
	}
	m.made[p] = true
	e, err := m.view.Lstat(p)
	switch {
	case err == nil && e.IsFolder() && !anew:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && !anew:
		return diag.Errorf(diag.KindData, "", "", "%s is no folder in the image", p)
	default:
		e = image.Entry{Mode: 0o755, UID: m.id(uint32(uid)), GID: m.id(uint32(gid))}
	}
	if p != "/" {
		if err := m.folder(path.Dir(p), false, uid, gid); err != nil {
			return err
		}
	}
	m.times[p] = e
	m.bytes += blockSize
	return os.Mkdir(filepath.Join(m.dir, p), 0o700)
}

// finish sets the attributes of all folders, the deepest first.
func (m *cover) finish() error {
	names := make([]string, 0, len(m.times))
	for p := range m.times {
		names = append(names, p)
	}
	slices.Sort(names)
	for _, p := range slices.Backward(names) {
		e, name := m.times[p], filepath.Join(m.dir, p)
		// Bits beyond the permissions, the sticky one among them, are not os.FileMode's.
		err := errors.Join(m.own(name, e.UID, e.GID), unix.Fchmodat(unix.AT_FDCWD, name, e.Mode&0o1777, 0),
			unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{laid, laid}, 0))
		if err != nil {
			return err
		}
	}
	return nil
}

// whiteout hides what the image has at p.
func (m *cover) whiteout(p string) error {
	if err := m.folder(path.Dir(p), false, 0, 0); err != nil {
		return err
	}
	name := filepath.Join(m.dir, p)
	err := error(unix.EPERM)
	if !m.spaces.marks {
		err = unix.Mknod(name, unix.S_IFCHR, 0)
	}
	if errors.Is(err, unix.EPERM) {
		// An overlay, as a container's root is one, takes no such devices. Marks need Linux
		// 6.7, and a folder with one in it cannot be removed: the kernel takes it for a file then.
		err = errors.Join(os.WriteFile(name, nil, 0o600), m.own(name, m.id(0), m.id(0)),
			unix.Setxattr(name, "user.overlay.whiteout", []byte("y"), 0),
			unix.Setxattr(filepath.Dir(name), "user.overlay.opaque", []byte("x"), 0))
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", p, err)
	}
	return nil
}

// temporary makes a folder for everybody if the image has nothing there.
func (m *cover) temporary(p string) error {
	place, err := m.view.Resolve(p)
	if err != nil {
		return nil // a link in circles stays one
	}
	if _, err := m.view.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := m.folder(place, false, 0, 0); err != nil {
		return err
	}
	e := m.times[place]
	e.Mode = 0o1777
	m.times[place] = e
	return nil
}

// etc writes what tells a machine's name and network.
func (m *cover) etc() error {
	place, err := m.view.Resolve("/etc")
	if err != nil {
		return diag.Wrap(diag.KindData, "", "", err)
	}
	if err := m.folder(place, false, 0, 0); err != nil {
		return err
	}
	for _, f := range written {
		name := path.Join(place, f.name)
		if e, err := m.view.Lstat(name); err == nil && e.IsFolder() {
			continue
		}
		if err := m.file(filepath.Join(m.dir, name), []byte(f.text), 0o644, m.id(0), m.id(0)); err != nil {
			return err
		}
	}
	return nil
}
