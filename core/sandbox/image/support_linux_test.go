package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests' own program, started again, does what needs a process of its own.
const helperName = "image-test-helper"

func TestMain(m *testing.M) {
	if os.Args[0] != helperName {
		os.Exit(m.Run())
	}
	if err := help(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func help(verb string, args []string) error {
	switch verb {
	case "show":
		return show(args[0], args[1], args[2:])
	case "pull":
		return pullHelper(args)
	}
	return fmt.Errorf("no verb %q", verb)
}

func helper(t testing.TB, verb string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Args = append([]string{helperName, verb}, args...)
	c.Stderr = os.Stderr
	return c
}

// show mounts layers, the topmost first, below an empty upper folder in dir, and writes
// what a process sees then.
func show(dir, option string, layers []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("scratch", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	set := func(key, value string) {
		if err == nil {
			if err = unix.FsconfigSetString(fd, key, value); err != nil {
				err = fmt.Errorf("%s=%s: %w", key, value, err)
			}
		}
	}
	for _, l := range layers {
		set("lowerdir+", l)
	}
	set("upperdir", filepath.Join(dir, "upper"))
	set("workdir", filepath.Join(dir, "work"))
	if option != "" && err == nil {
		err = unix.FsconfigSetFlag(fd, option)
	}
	if err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return fmt.Errorf("create overlay: %w", err)
	}
	mnt, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	merged := filepath.Join(dir, "merged")
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, merged, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move mount: %w", err)
	}
	seen, err := list(merged)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// thing is a file, a folder or whatever, as a process sees it.
type thing struct {
	Path  rawPath
	Mode  uint32
	UID   uint32
	GID   uint32
	Text  string // digest of the content, or what a link has
	Size  int64
	Time  int64
	Extra string // attributes
	Twins string // the first path of the same file

	ino    uint64
	blocks int64
}

// list gives all that is in dir, which is itself left out, by path.
func list(dir string) ([]thing, error) {
	var all []thing
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		one, err := look(p, rel)
		if err != nil {
			return err
		}
		if one.Mode&unix.S_IFMT != unix.S_IFDIR {
			if _, again := first[one.ino]; !again {
				first[one.ino] = rel
			}
			one.Twins = first[one.ino]
		}
		all = append(all, one)
		return nil
	})
	slices.SortFunc(all, func(a, b thing) int { return cmp.Compare(a.Path, b.Path) })
	return all, err
}

// look describes what is at p, which is called rel.
func look(p, rel string) (thing, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return thing{}, &os.PathError{Op: "look at", Path: rel, Err: err}
	}
	one := thing{Path: rawPath(rel), Mode: st.Mode, UID: st.Uid, GID: st.Gid, Time: st.Mtim.Nano(), ino: st.Ino, blocks: st.Blocks}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		b, err := os.ReadFile(p)
		if err != nil {
			return one, err
		}
		d := sha256.Sum256(b)
		one.Text, one.Size = hex.EncodeToString(d[:4]), st.Size
	case unix.S_IFLNK:
		to, err := os.Readlink(p)
		if err != nil {
			return one, err
		}
		one.Text = to
	}
	x, err := extended(unix.AT_FDCWD, p)
	if len(x) > 0 {
		b, _ := json.Marshal(x)
		one.Extra = string(b)
	}
	return one, err
}

// mountable tells how overlays can be mounted here, nil if so, for a form.
func mountable(t testing.TB, form Form) error {
	low := t.TempDir()
	if form.shifted() && os.Geteuid() != 0 {
		return errors.New("owners cannot be shifted without root")
	}
	if form.shifted() {
		if err := os.Lchown(low, form.Base, form.Base); err != nil {
			return err
		}
	}
	for dir := low; dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	_, err := mounted(t, []string{low}, form)
	return err
}

// mounted gives what a process in the sandbox's user namespace sees of layers. For a
// form with a range that is the namespace of the range; otherwise of one user.
func mounted(t testing.TB, layers []string, form Form) ([]thing, error) {
	t.Helper()
	dir := t.TempDir()
	c := helper(t, "show", append([]string{dir, "userxattr"}, layers...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	mapping := func(host int) []syscall.SysProcIDMap {
		if form.shifted() {
			return []syscall.SysProcIDMap{{ContainerID: 0, HostID: form.Base, Size: form.Range}}
		}
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
	}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: mapping(os.Geteuid()), GidMappings: mapping(os.Getegid()),
	}
	if form.shifted() {
		c.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
		if err := os.Lchown(dir, form.Base, form.Base); err != nil {
			return nil, err
		}
		for d := dir; d != "/"; d = filepath.Dir(d) {
			os.Chmod(d, 0o755)
		}
	}
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	var seen []thing
	return seen, json.Unmarshal(out, &seen)
}

// mountedByRoot is the same for a mount in the first user namespace, without userxattr.
func mountedByRoot(t testing.TB, layers []string) ([]thing, error) {
	t.Helper()
	c := helper(t, "show", append([]string{t.TempDir(), ""}, layers...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	var seen []thing
	return seen, json.Unmarshal(out, &seen)
}

// entry is one of an archive, in short.
type entry struct {
	tar.Header
	Text string
}

func file(name, text string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, text}
}
func folder(name string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}
func symlink(name, target string) entry {
	return entry{tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink, Mode: 0o777}, ""}
}
func hardlink(name, target string) entry {
	return entry{tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink, Mode: 0o644}, ""}
}

// archive makes an uncompressed one.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, e.Text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackAll unpacks archives, the lowest first, and gives the folders for an overlay, the
// trim with them.
func unpackAll(ctx context.Context, dir string, form Form, m marks, limits Limits, archives ...[]byte) ([]string, []*note, error) {
	b := &budget{limits: limits.orDefault()}
	var dirs []string
	var notes []*note
	for i, a := range archives {
		d := filepath.Join(dir, fmt.Sprint("layer", i))
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, nil, err
		}
		n, err := unpack(ctx, bytes.NewReader(a), d, form, m, b)
		if err != nil {
			return nil, nil, err
		}
		if n.Opaque {
			dirs, notes = nil, nil
		}
		dirs, notes = append([]string{d}, dirs...), append([]*note{n}, notes...)
	}
	s, err := openStack(dirs, notes)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	top := filepath.Join(dir, "trim")
	disk, err := trim(s, notes, top, form, b)
	if err != nil {
		return nil, nil, err
	}
	if disk > 0 {
		dirs = append([]string{top}, dirs...)
	}
	if needsFloor(notes) {
		floor := filepath.Join(dir, "floor")
		if err := os.Mkdir(floor, 0o755); err != nil {
			return nil, nil, err
		}
		dirs = append(dirs, floor)
	}
	return dirs, notes, nil
}

var rangeForm = Form{Base: 100000, Range: 65536}

func marksFor(form Form) marks {
	m := marks{opaque: []string{userOpaque}}
	if form.shifted() {
		m.opaque = append(m.opaque, trustedOpaque)
	}
	return m
}

// flattened applies archives to dir by another unpacker, the system's tar, after
// removing what whiteouts hide.
func flattened(ctx context.Context, dir string, archives ...[]byte) error {
	for _, a := range archives {
		if err := hide(dir, a); err != nil {
			return err
		}
		if err := extract(ctx, dir, a); err != nil {
			return err
		}
	}
	return nil
}

func hide(dir string, archive []byte) error {
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		at, base := path.Join(dir, path.Dir(h.Name)), path.Base(h.Name)
		if base == opaqueName {
			old, _ := os.ReadDir(at)
			for _, e := range old {
				os.RemoveAll(path.Join(at, e.Name()))
			}
		} else if hidden, is := strings.CutPrefix(base, whiteoutPrefix); is {
			os.RemoveAll(path.Join(at, hidden))
		}
	}
}

// extract runs tar, several times where a folder and something else take each other's
// place, which it does not do.
func extract(ctx context.Context, dir string, archive []byte) error {
	var batch bytes.Buffer
	w := tar.NewWriter(&batch)
	pending := map[string]bool{}
	flush := func() error {
		if err := w.Close(); err != nil {
			return err
		}
		owner := "--same-owner"
		if os.Geteuid() != 0 {
			owner = "--no-same-owner"
		}
		c := exec.CommandContext(ctx, "tar", "-x", "-p", "-P", "--numeric-owner", owner, "--xattrs", "--xattrs-include=user.*",
			"--delay-directory-restore", "-C", dir, "-f", "-")
		c.Stdin = &batch
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("tar: %w\n%s", err, out)
		}
		batch.Reset()
		w = tar.NewWriter(&batch)
		clear(pending)
		return nil
	}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if strings.HasPrefix(path.Base(name), whiteoutPrefix) {
			continue
		}
		if pending[name] {
			if err := flush(); err != nil {
				return err
			}
		}
		pending[name] = true
		if old, err := os.Lstat(path.Join(dir, name)); err == nil && old.IsDir() != (h.Typeflag == tar.TypeDir) {
			if err := flush(); err != nil {
				return err
			}
			if err := os.RemoveAll(path.Join(dir, name)); err != nil {
				return err
			}
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
}

func render(all []thing) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%q mode %o owner %d:%d size %d text %q time %d extra %s twin of %q\n", e.Path, e.Mode, e.UID, e.GID, e.Size, e.Text, e.Time, e.Extra, e.Twins)
	}
	return b.String()
}

// run runs a program that has to succeed.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// fromFile opens a file as a layer's only source.
func fromFile(path string) func(context.Context, int) (io.ReadCloser, error) {
	return func(context.Context, int) (io.ReadCloser, error) { return os.Open(path) }
}
