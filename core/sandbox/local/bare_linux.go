package local

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
	"github.com/valence-rl/valence/core/sandbox/seccomp"
)

// strip goes on without namespaces, which were refused with cause, and finds out
// whether this machine has what then remains.
func (d *Driver) strip(cause error) error {
	d.bare, d.privileged = true, false
	dir, owner := d.state.dir, -1
	if d.lends = canLend(); d.lends {
		// Commands run as an ordinary user, who has to get at the workspace.
		owner = firstID
		place, err := reachable()
		if err != nil {
			return err
		}
		s, err := newState(place)
		if err != nil {
			return diag.Wrap(diag.KindSandbox, "start local sandboxes", place, err)
		}
		old := d.state
		d.state, dir = s, s.dir
		if err := errors.Join(old.close(), os.Chmod(dir, 0o711)); err != nil {
			return diag.Wrap(diag.KindSandbox, "start local sandboxes", dir, err)
		}
	}
	d.spaces = &workspaces{dir: dir, owner: owner, most: d.spaces.most, known: map[string]*workspace{}, unused: list.New()}
	var err error
	if d.filter, err = seccomp.Filter(true); err != nil {
		return diag.Wrap(diag.KindSandbox, "start local sandboxes", "seccomp filter", err)
	}
	i := &d.isolation
	i.Level, i.Limits = sandbox.LevelNone, []string{"output"}
	lost := []string{
		"isolation: commands are processes of this machine: namespaces were refused",
		"disk: the size of each file is limited, not their sum",
		"paths: workspace and temporary directory are directories of this machine, under other names",
		"root: commands run as an ordinary user",
		"loopback: there is no network at all, not even the sandbox's own",
		"processes: those of this machine are seen, with their command lines; they can neither be signalled nor traced",
		"names: files of this machine can be looked up and their owners and sizes seen; they can be neither read nor written",
		"machine: its name and network interfaces are seen",
		"kernel: its command line is seen",
		"closed: a file whose mode shuts its owner out is shut for Read, Write and Diff",
	}
	if owner < 0 {
		lost = append(lost, "metadata: modes and times of this user's own files can be changed")
	}
	if d.groups == nil {
		lost = append(lost, "memory: only each process's own data is limited", "cpu: no control group can be made", "pids: no control group can be made",
			"survivors: if the first process is killed by itself, and not with its host, background processes live on")
	} else {
		i.Limits = append(i.Limits, "memory", "cpu", "pids")
	}
	i.Missing = lost
	if err := d.tryOne(); err != nil {
		var out *diag.Diagnostic
		if errors.As(cause, &out) {
			out.Detail = append(out.Detail, "bare sandboxes were refused with: "+oneLine(err))
		}
		return cause
	}
	d.log.Warn("sandboxes are not isolated: namespaces are refused", "missing", i.Missing)
	return nil
}

// canLend tells whether sandboxes can get a user of their own. In a container only
// some ids exist.
func canLend() bool {
	if os.Geteuid() != 0 {
		return false
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var from, to, count int64
		if _, err := fmt.Sscan(line, &from, &to, &count); err == nil && from <= firstID && firstID < from+count {
			return true
		}
	}
	return false
}

// reachable gives a directory that every user can enter and only this one can write.
func reachable() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("valence-bare-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", diag.Wrap(diag.KindSandbox, "start local sandboxes", dir, err)
	}
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0) {
		err = fs.ErrPermission // somebody else's trap
	}
	return dir, diag.Wrap(diag.KindSandbox, "start local sandboxes", dir, err)
}

// home is what a sandbox without namespaces has of the file system.
type home struct {
	dir      string // holds the two below
	work     string // the copy of the workspace
	temp     string
	contract string // where the workspace is said to be
}

// settle copies a workspace to a new home.
func (d *Driver) settle(space *workspace, contract string) (h *home, err error) {
	dir, err := os.MkdirTemp(d.state.dir, "home-")
	if err != nil {
		return nil, err
	}
	h = &home{dir: dir, work: filepath.Join(dir, "work"), temp: filepath.Join(dir, "tmp"), contract: contract}
	if err := errors.Join(os.Chmod(dir, 0o711), d.spaces.copy(space.dir, h.work), os.Mkdir(h.temp, 0o700), d.spaces.finish(h.temp, 0o700)); err != nil {
		removeAll(h.dir)
		return nil, fmt.Errorf("copy the workspace: %w", err)
	}
	return h, nil
}

// env tells commands where they are.
func (h *home) env() []string { return []string{"HOME=" + h.temp, "TMPDIR=" + h.temp} }

// path is where a clean path of the contract lies.
func (h *home) path(p string) string {
	for _, m := range [][2]string{{h.contract, h.work}, {"/tmp", h.temp}} {
		if within(p, m[0]) && !within(p, h.dir) {
			return path.Join(m[1], strings.TrimPrefix(p, m[0]))
		}
	}
	return p
}

// strip turns a setup into that of a sandbox without namespaces.
func (b *box) strip(s *first.Setup) {
	s.Bare, s.MaxProcs = true, 0 // that limit would count the whole user's processes
	s.Lowers, s.Base, s.Dir = []string{b.space.dir}, b.home.temp, b.home.work
}
