package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
)

// Store keeps unpacked images in a folder; see the package's comment. Its methods are
// safe for concurrent use, and processes may have the same folder. It holds nothing
// open, and need not be closed.
type Store struct {
	dir     string // of the form
	o       Options
	marks   marks
	mirrors map[string][]string // by the registry's host as references have it

	reporting sync.Mutex
}

// longest is the most bytes of a layer's path: fsconfig takes 256, with a zero at the end.
const longest = 255

// Open opens the store in dir, which is made if need be, for the form of o. It finds out
// what the file system can do, which takes milliseconds, and removes what killed
// processes left behind, which may take longer. Errors are of [diag.KindSandbox], or of
// [diag.KindConfig] where o or dir cannot be.
func Open(dir string, o Options) (*Store, error) {
	const op = "open image store"
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	o.Limits = o.Limits.orDefault()
	o.Size = positive(o.Size, 20<<30)
	o.Pause = positive(o.Pause, 500*time.Millisecond)
	o.Parallel = positive(o.Parallel, 4)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{dir: filepath.Join(root, o.Form.name()), o: o}
	if n := len(s.layer(strings.Repeat("0", 64))); n > longest {
		return nil, diag.Errorf(diag.KindConfig, op, dir, "the paths of its layers would have %d bytes, an overlay takes %d", n, longest)
	}
	if s.mirrors, err = readMirrors(o.Mirrors); err != nil {
		return nil, diag.Wrap(diag.KindConfig, op, "mirrors", err)
	}
	for _, d := range []string{"layers", "images", "refs", "leases", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o700); err != nil {
			return nil, diag.Wrap(diag.KindSandbox, op, dir, err)
		}
	}
	if err := s.probe(); err != nil {
		return nil, err
	}
	if err := s.reap(); err != nil {
		return nil, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	return s, nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// layer is the folder of a layer's files; id is its digest's digits.
func (s *Store) layer(id string) string { return s.path("layers", id, "tree") }

func digits(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// probe finds out whether the file system can hold the form.
func (s *Store) probe() error {
	sc, err := s.scratch(context.Background())
	if err != nil {
		return diag.Wrap(diag.KindSandbox, "open image store", s.dir, err)
	}
	defer sc.discard()
	t, err := openTree(sc.dir)
	if err != nil {
		return diag.Wrap(diag.KindSandbox, "open image store", s.dir, err)
	}
	defer t.close()
	cannot := func(what string, err error, hint string) error {
		return &diag.Diagnostic{
			Kind: diag.KindSandbox, Code: "S003", Summary: fmt.Sprintf("images cannot be unpacked in %s: %s: %v", s.dir, what, err), Hint: hint,
		}
	}
	s.marks = marks{opaque: []string{userOpaque}}
	if s.o.Form.shifted() {
		s.marks.opaque = append(s.marks.opaque, trustedOpaque)
		if err := unix.Fchown(t.fd, s.o.Form.Base, s.o.Form.Base); err != nil {
			return cannot("files cannot be given to user "+fmt.Sprint(s.o.Form.Base), err, "run as root, or unpack for a mount without further users")
		}
	}
	for _, name := range s.marks.opaque {
		if err := setAttribute(t.fd, ".", name, "y"); err != nil {
			return cannot("the attribute "+name, err, "put the store on a file system with extended attributes, such as ext4, xfs or btrfs")
		}
	}
	if err := unix.Mknodat(t.fd, "whiteout", unix.S_IFCHR, 0); err != nil {
		s.o.Log.Info("whiteouts are written as attributes, for which overlay needs Linux 6.7", "cause", err)
		s.marks.whiteouts = true
	}
	return nil
}

// locked runs f while no other process makes a lease or moves things away. f is short.
func (s *Store) locked(ctx context.Context, f func() error) error {
	l, err := lock(ctx, s.path("lock"))
	if err != nil {
		return err
	}
	defer l.Close()
	return f()
}

// scratch is a folder to make something in. It is locked as long as its maker lives.
type scratch struct {
	dir  string
	lock *os.File
}

func (s *Store) scratch(ctx context.Context) (*scratch, error) {
	var made *scratch
	err := s.locked(ctx, func() error {
		dir, err := os.MkdirTemp(s.path("tmp"), "")
		if err != nil {
			return err
		}
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		held, err := tryLock(f)
		if err == nil && !held {
			err = fmt.Errorf("%s is locked by somebody else", dir)
		}
		made = &scratch{dir, f}
		return err
	})
	return made, err
}

// discard removes the folder, unless it has been published.
func (c *scratch) discard() {
	os.RemoveAll(c.dir)
	c.lock.Close()
}

// publish flushes the folder and moves it to its place, where another process may have
// put its like before. The store is locked.
func (c *scratch) publish(to string) error {
	err := os.Rename(c.dir, to)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// flush brings to the disk all that was written.
func (c *scratch) flush() error {
	if err := unix.Syncfs(int(c.lock.Fd())); err != nil {
		return &os.PathError{Op: "flush", Path: c.dir, Err: err}
	}
	return nil
}

// reap removes what the dead left.
func (s *Store) reap() error {
	var gone []*os.File
	err := s.locked(context.Background(), func() error {
		if _, err := s.leased(); err != nil {
			return err
		}
		old, err := os.ReadDir(s.path("tmp"))
		if err != nil {
			return err
		}
		for _, e := range old {
			f, err := os.Open(s.path("tmp", e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			held, err := tryLock(f)
			if err != nil {
				return err
			}
			if !held {
				f.Close()
				continue
			}
			gone = append(gone, f)
		}
		return nil
	})
	for _, f := range gone {
		if e := os.RemoveAll(f.Name()); err == nil {
			err = e
		}
		f.Close()
	}
	return err
}

// lease keeps things from being removed as long as its holder lives.
type lease struct {
	file *os.File
	held holding
}

// holding is what a lease keeps.
type holding struct {
	Image  string   `json:",omitempty"` // digest
	Layers []string // ids
}

// take makes a lease. The store is locked.
func (s *Store) take(h holding) (*lease, error) {
	f, err := os.CreateTemp(s.path("leases"), "")
	if err != nil {
		return nil, err
	}
	l := &lease{file: f}
	held, err := tryLock(f)
	if err == nil && !held {
		err = fmt.Errorf("%s is locked by somebody else", f.Name())
	}
	if err == nil {
		err = l.set(h)
	}
	if err != nil {
		l.end()
		return nil, err
	}
	return l, nil
}

// set changes what the lease keeps. The store is locked.
func (l *lease) set(h holding) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	l.held = h
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(b, 0)
	return err
}

func (l *lease) end() error {
	err := os.Remove(l.file.Name())
	return errors.Join(err, l.file.Close())
}

// leased gives what living processes keep, and removes the leases of the dead. The store
// is locked.
func (s *Store) leased() ([]holding, error) {
	names, err := os.ReadDir(s.path("leases"))
	if err != nil {
		return nil, err
	}
	var all []holding
	for _, e := range names {
		f, err := os.Open(s.path("leases", e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		free, err := tryLock(f)
		if err != nil {
			return nil, err
		}
		if free {
			err = os.Remove(f.Name())
			f.Close()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		f.Close()
		var h holding
		b, err := os.ReadFile(f.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, &h)
		}
		if err != nil {
			return nil, fmt.Errorf("lease %s: %w", e.Name(), err)
		}
		all = append(all, h)
	}
	return all, nil
}

// record is an image as it is kept.
type record struct {
	Digest     string
	Layers     []string // ids, the topmost first
	Trim       bool
	Floor      bool
	TrimDisk   int64 // floor included
	Disk       int64 // trim included
	Env        []string
	WorkingDir string
	User       User
	Entrypoint []string
	Cmd        []string
}

// readRecord gives an image that is kept and whole; [fs.ErrNotExist] otherwise.
func (s *Store) readRecord(digest string) (*record, error) {
	b, err := os.ReadFile(s.path("images", digits(digest), "image.json"))
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("image %s: %w", digest, err)
	}
	for _, id := range r.Layers {
		if _, err := os.Lstat(s.path("layers", id, "note.json")); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (s *Store) readNote(id string) (*note, error) {
	b, err := os.ReadFile(s.path("layers", id, "note.json"))
	if err != nil {
		return nil, err
	}
	n := new(note)
	if err := json.Unmarshal(b, n); err != nil {
		return nil, fmt.Errorf("layer %s: %w", id, err)
	}
	return n, nil
}

// use opens an image that is kept; [fs.ErrNotExist] if it is not. A lease that is given
// becomes the image's.
func (s *Store) use(ctx context.Context, digest string, l *lease) (*Image, error) {
	var r *record
	err := s.locked(ctx, func() (err error) {
		if r, err = s.readRecord(digest); err != nil {
			return err
		}
		h := holding{digest, r.Layers}
		if l == nil {
			l, err = s.take(h)
		} else {
			err = l.set(h)
		}
		if err != nil {
			return err
		}
		now := time.Now()
		return os.Chtimes(s.path("images", digits(digest), "image.json"), now, now)
	})
	if err != nil {
		return nil, err
	}
	i := &Image{
		Digest: r.Digest, Env: r.Env, WorkingDir: r.WorkingDir, User: r.User, Entrypoint: r.Entrypoint, Cmd: r.Cmd, Size: r.Disk,
		close: sync.OnceValue(func() error { return failed("close image", digest, l.end()) }),
	}
	if r.Trim {
		i.Layers = append(i.Layers, s.path("images", digits(digest), "trim"))
	}
	for _, id := range r.Layers {
		i.Layers = append(i.Layers, s.layer(id))
	}
	if r.Floor {
		i.Layers = append(i.Layers, s.path("images", digits(digest), "floor"))
	}
	return i, nil
}

// writeFile makes a file in a folder that nobody else sees yet.
func writeFile(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o600)
}

// replaceFile writes a file so that a reader, or a kill, finds the old one or the new.
func (s *Store) replaceFile(ctx context.Context, name string, v any) error {
	sc, err := s.scratch(ctx)
	if err != nil {
		return err
	}
	defer sc.discard()
	fresh := filepath.Join(sc.dir, "new")
	if err := writeFile(fresh, v); err != nil {
		return err
	}
	return os.Rename(fresh, name)
}
