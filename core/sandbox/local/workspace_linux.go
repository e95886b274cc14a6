package local

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// workspaces lays down each distinct workspace once, as a directory that the
// overlays of any number of sandboxes share.
type workspaces struct {
	dir   string
	owner int   // who owns the files, -1 for whoever runs this
	most  int64 // bytes of unused ones to keep
	marks bool  // devices are refused, whiteouts are marks

	mu     sync.Mutex
	known  map[string]*workspace
	unused *list.List // of *workspace, the one used last in front
	size   int64      // of unused ones

	evicted int // so far, for names
}

type workspace struct {
	key   string
	dir   string
	bytes int64
	uses  int
	place *list.Element // in unused
	ready chan struct{} // closed when dir and err are set
	err   error
}

// laid is the time of every file of a workspace, so that builds repeat.
var laid = unix.NsecToTimespec(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// take gives the workspace of w's files and patches, which the caller returns by
// give. Errors are of KindData where w is malformed, else of KindSandbox.
func (c *workspaces) take(w *sdk.Workspace) (*workspace, error) {
	return c.share(keyOf(w), func(dir string) (int64, error) { return c.lay(dir, w) })
}

// share gives what lay makes at a path, once for each key, and how many bytes it takes.
// Where lay fails it leaves nothing.
func (c *workspaces) share(key string, lay func(dir string) (int64, error)) (*workspace, error) {
	c.mu.Lock()
	e := c.known[key]
	if e == nil {
		e = &workspace{key: key, ready: make(chan struct{}), uses: 1}
		c.known[key] = e
		c.mu.Unlock()
		e.dir = filepath.Join(c.dir, key)
		e.bytes, e.err = lay(e.dir)
		close(e.ready)
	} else {
		if e.uses++; e.place != nil {
			c.unused.Remove(e.place)
			c.size -= e.bytes
			e.place = nil
		}
		c.mu.Unlock()
		<-e.ready
	}
	if e.err != nil {
		c.give(e)
		return nil, e.err
	}
	return e, nil
}

// give returns what take gave. The ones unused for longest go when they exceed the bound.
func (c *workspaces) give(e *workspace) {
	c.mu.Lock()
	var old []string
	if e.uses--; e.uses == 0 {
		if e.err != nil {
			delete(c.known, e.key)
		} else {
			e.place = c.unused.PushFront(e)
			c.size += e.bytes
		}
	}
	for c.size > c.most {
		last := c.unused.Remove(c.unused.Back()).(*workspace)
		c.size -= last.bytes
		delete(c.known, last.key)
		// Out of the way under the lock, as the same content may come again at once.
		c.evicted++
		gone := filepath.Join(c.dir, fmt.Sprintf("old-%d", c.evicted))
		if os.Rename(last.dir, gone) == nil {
			old = append(old, gone)
		}
	}
	c.mu.Unlock()
	for _, d := range old {
		os.RemoveAll(d)
	}
}

// lay writes w's files to dir. Of version control nothing is written.
func (c *workspaces) lay(dir string, w *sdk.Workspace) (int64, error) {
	files := slices.Clone(w.Files)
	files = slices.DeleteFunc(files, func(f sdk.File) bool { return slices.Contains(strings.Split(f.Path, "/"), ".git") })
	files, err := patch.Tree(files, w.Patches...)
	if err != nil {
		return 0, diag.Wrap(diag.KindData, "lay down workspace", "", err)
	}
	size, err := c.write(dir, files)
	if err != nil {
		os.RemoveAll(dir)
		return 0, diag.Wrap(diag.KindSandbox, "lay down workspace", "", err)
	}
	return size, nil
}

// blockSize is what a file or a directory costs at least.
const blockSize = 4096

func (c *workspaces) write(dir string, files []sdk.File) (int64, error) {
	var size int64
	made := map[string]bool{}
	var makeDir func(d string) error
	makeDir = func(d string) error {
		if made[d] {
			return nil
		}
		if d != dir {
			if err := makeDir(filepath.Dir(d)); err != nil {
				return err
			}
		}
		made[d] = true
		size += blockSize
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
		return c.finish(d, 0o755)
	}
	if err := makeDir(dir); err != nil {
		return 0, err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Path)
		if err := makeDir(filepath.Dir(name)); err != nil {
			return 0, err
		}
		mode := os.FileMode(0o644)
		if f.Exec {
			mode = 0o755
		}
		if err := os.WriteFile(name, f.Data, mode); err != nil {
			return 0, err
		}
		if err := c.finish(name, mode); err != nil {
			return 0, err
		}
		size += (int64(len(f.Data)) + blockSize - 1) / blockSize * blockSize
	}
	for d := range made {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, d, []unix.Timespec{laid, laid}, 0); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// copy makes a second one of what lies at from.
func (c *workspaces) copy(from, to string) error {
	return filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(name, from)
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			err = os.Mkdir(target, 0o755)
		} else {
			var data []byte
			if data, err = os.ReadFile(name); err == nil {
				err = os.WriteFile(target, data, 0o644)
			}
		}
		if err != nil {
			return err
		}
		return c.finish(target, info.Mode().Perm())
	})
}

// finish sets mode whatever the umask, owner and time.
func (c *workspaces) finish(name string, mode os.FileMode) error {
	if err := os.Chmod(name, mode); err != nil {
		return err
	}
	if c.owner >= 0 {
		if err := os.Lchown(name, c.owner, c.owner); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{laid, laid}, 0)
}

// keyOf names w's content: every field is hashed with its length in front.
func keyOf(w *sdk.Workspace) string {
	h := sha256.New()
	number(h, len(w.Files))
	for _, f := range w.Files {
		field(h, f.Path)
		number(h, len(f.Data))
		h.Write(f.Data)
		if f.Exec {
			number(h, 1)
		} else {
			number(h, 0)
		}
	}
	for _, p := range w.Patches {
		field(h, p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func number(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func field(h hash.Hash, s string) {
	number(h, len(s))
	fmt.Fprint(h, s)
}
