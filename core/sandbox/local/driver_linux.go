package local

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
	"github.com/valence-rl/valence/core/sandbox/seccomp"
	"github.com/valence-rl/valence/core/sandbox/toolbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// Where the ids of a sandbox's users begin on a host that has the right to choose,
// and how many there are. No account of a usual system lies there.
const (
	firstID = 100_000
	idCount = 65_536
)

// Driver makes sandboxes by starting this program again in fresh namespaces. It
// implements sandbox.Driver.
type Driver struct {
	log        *slog.Logger
	defaults   sandbox.Limits
	state      *state
	spaces     *workspaces
	images     *images
	base       string  // the image of workspaces that have none; "": the host's tool chain
	groups     *groups // nil: none can be made
	tools      toolchain
	filter     []byte
	program    *os.File // the copy of this program that is started again, if one was needed
	diary      *os.File // stderr of the first processes
	spawners   *spawners
	blanks     *blanks
	privileged bool // a range of ids and trees of any owner are to be had
	procfs     bool // a fresh /proc is
	bare       bool // no namespaces are
	onDisk     bool // what commands write goes to a folder
	lends      bool // bare sandboxes run as a user of their own
	refused    refused
	isolation  sandbox.Isolation

	mu     sync.Mutex
	boxes  map[*box]bool
	closed bool
	alive  sync.WaitGroup
}

var _ sandbox.Driver = (*Driver)(nil)

// New finds out what this machine allows, by making one sandbox, and gives a
// driver that holds to it. Where namespaces are refused the error is a
// diag.Diagnostic of KindSandbox that says by what and how to allow them. New
// blocks for some tens of milliseconds; it also removes what drivers with the
// same Dir left behind when their process was killed.
func New(o Options) (*Driver, error) {
	const op = "start local sandboxes"
	if o.Dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		o.Dir = filepath.Join(cache, "valence", "sandboxes")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, diag.Wrap(diag.KindSandbox, op, o.Dir, err)
	}
	d := &Driver{
		log: o.Log, defaults: o.Defaults.Or(sandbox.DefaultLimits()), boxes: map[*box]bool{},
		privileged: privileged(), procfs: true, images: newImages(o), base: o.Image, refused: o.refused, onDisk: o.Upper == UpperDisk,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := d.open(dir, o.Cache); err != nil {
		d.close()
		return nil, diag.Wrap(diag.KindSandbox, op, dir, err)
	}
	err = d.probe()
	if err != nil && o.Bare {
		err = d.strip(err)
	}
	if err == nil && d.base != "" {
		err = d.onImage()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	d.blanks.open()
	return d, nil
}

// privileged tells whether this process can choose the ids of sandboxes.
func privileged() bool { return os.Geteuid() == 0 && hasSysAdmin() }

func hasSysAdmin() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective>>unix.CAP_SYS_ADMIN&1 != 0
}

func (d *Driver) open(dir string, cache int64) error {
	var err error
	if d.state, err = newState(dir); err != nil {
		return err
	}
	if d.diary, err = os.OpenFile(filepath.Join(d.state.dir, "first.log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if d.filter, err = seccomp.Filter(false); err != nil {
		return fmt.Errorf("seccomp filter: %w", err)
	}
	program, image, err := executable()
	if err != nil {
		return err
	}
	d.program = image
	d.spawners = &spawners{program: program, diary: d.diary}
	d.blanks = &blanks{driver: d, closed: true} // until it is known how they are made
	owner := -1
	if d.privileged {
		owner = firstID
	}
	if cache <= 0 {
		cache = 1 << 30
	}
	d.spaces = &workspaces{dir: d.state.dir, owner: owner, most: cache, marks: d.refused.devices, known: map[string]*workspace{}, unused: list.New()}
	interpreter, prefix, err := python()
	if err != nil {
		d.log.Warn("sandboxes will have no python3", "cause", err)
	}
	d.tools = findToolchain(interpreter, prefix)
	d.tools.addGo(dir)
	host, err := processName(os.Getpid())
	if err != nil {
		return err
	}
	d.isolation = sandbox.Isolation{Driver: "local", Level: "namespaces", Limits: []string{"memory", "cpu", "pids", "disk", "output"}}
	if !d.privileged {
		d.isolation.Level = "namespaces-unprivileged"
	}
	if d.onDisk {
		d.isolation.Limits = []string{"memory", "cpu", "pids", "output"}
		d.isolation.Missing = []string{"disk: the size of each file is limited, not their sum: what is written lies on this machine's disk",
			"mountinfo: the path of the folder on this machine is seen"}
	}
	// The folder's random name tells several drivers of one process apart.
	err = errGroupsRefused
	if !d.refused.groups {
		d.groups, err = findGroups(host+"."+strings.TrimPrefix(filepath.Base(d.state.dir), statePrefix), mountedGroups())
	}
	if err == nil {
		return nil
	}
	d.groups = nil
	d.isolation.Limits = slices.DeleteFunc(d.isolation.Limits, func(l string) bool { return l == "memory" || l == "cpu" })
	d.isolation.Missing = append(d.isolation.Missing,
		"memory: only each process's own data is limited: "+oneLine(err), "cpu: no control group can be made")
	return nil
}

// errGroupsRefused is what a test has the machine say.
var errGroupsRefused = errors.New("control groups are refused")

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// executable gives a path by which the sandbox's user can start this program
// again: a copy in memory where the file itself is not for everybody.
func executable() (string, *os.File, error) {
	const self = "/proc/self/exe"
	info, err := os.Stat(self)
	if err != nil {
		return "", nil, err
	}
	if info.Mode()&0o005 == 0o005 {
		return self, nil, nil
	}
	from, err := os.Open(self)
	if err != nil {
		return "", nil, err
	}
	defer from.Close()
	fd, err := unix.MemfdCreate("valence", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return "", nil, fmt.Errorf("copy this program to memory: %w", err)
	}
	to := os.NewFile(uintptr(fd), "valence")
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o755)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		to.Close()
		return "", nil, fmt.Errorf("copy this program to memory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), to, nil
}

// probe makes the first sandbox, and settles how all others are made.
func (d *Driver) probe() error {
	var err error
	switch {
	case d.refused.namespaces:
		err = syscall.EPERM
	case d.refused.procfs:
		err = fmt.Errorf("mount proc at proc: %w", syscall.EPERM)
	default:
		err = d.tryOne()
	}
	if err != nil && errors.Is(err, syscall.EPERM) && strings.Contains(err.Error(), "mount proc at proc:") {
		// Containers cover parts of their /proc, and then no fresh one may be mounted.
		d.procfs = false
		d.isolation.Missing = append(d.isolation.Missing,
			"processes: a fresh /proc is refused, the host's is shown", "kernel: its command line is seen for the same reason")
		err = d.tryOne()
	}
	if err == nil {
		return nil
	}
	out := &diag.Diagnostic{
		Kind: diag.KindSandbox, Code: "S001", Summary: "this machine refuses what local sandboxes are made of",
		Hint:   refusal(),
		Detail: []string{"it was refused with: " + oneLine(err)},
	}
	if d.privileged {
		out.Detail = append(out.Detail, "needed: CAP_SYS_ADMIN, user namespaces, and overlay mounts within them (Linux 5.12 or newer)")
	}
	return out
}

func (d *Driver) tryOne() error {
	b, err := d.create(context.Background(), sandbox.Spec{Name: "probe"}, "")
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := b.Exec(context.Background(), sandbox.Command{Shell: "echo ready"})
	if err != nil {
		return err
	}
	if r.ExitCode != 0 || string(r.Output) != "ready\n" {
		return fmt.Errorf("a first command ended with code %d: %q", r.ExitCode, r.Output)
	}
	return nil
}

// refusal guesses from the machine's settings who refuses, and says the remedy.
func refusal() string {
	is := func(file, value string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(b)) == value
	}
	switch {
	case is("/proc/sys/user/max_user_namespaces", "0"):
		return "allow user namespaces: sysctl -w user.max_user_namespaces=65536"
	case is("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		return "allow user namespaces to ordinary users: sysctl -w kernel.unprivileged_userns_clone=1, or run as root"
	case is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "allow user namespaces to ordinary users: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run as root"
	}
	return "in a container, start it with --privileged, or with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN; " +
		"or go on without isolation by [sandbox] bare = true (docs/sandbox.md says what is then not contained)"
}

// Isolation is what New found out.
func (d *Driver) Isolation() sandbox.Isolation {
	i := d.isolation
	i.Limits, i.Missing = slices.Clone(i.Limits), slices.Clone(i.Missing)
	return i
}

// Create makes a sandbox; see sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	ref := spec.Workspace.Image
	if ref == "" {
		ref = d.base
	}
	return d.create(ctx, spec, ref)
}

// create makes a sandbox on an image, or without one on the host's tool chain.
func (d *Driver) create(ctx context.Context, spec sandbox.Spec, ref string) (sandbox.Sandbox, error) {
	const op = "create sandbox"
	w := &spec.Workspace
	dir, err := d.workDir(w.Dir, ref != "")
	if err == nil {
		err = sandbox.CheckEnv(w.Env, spec.Env)
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, spec.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", op, spec.Name, err)
	}
	limits := spec.Limits.Or(d.defaults)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, diag.Errorf(diag.KindSandbox, op, spec.Name, "the driver is closed")
	}
	d.alive.Add(1)
	d.mu.Unlock()

	b := &box{driver: d, dead: make(chan struct{}), Box: toolbox.Box{Name: spec.Name, Dir: dir,
		Env: sandbox.MergeEnv(w.Env, spec.Env), Limits: limits, Client: toolserver.NewClient(false)}}
	b.Kill = b.kill
	if err := b.start(ctx, ref, w); err != nil {
		if e := ctx.Err(); e != nil {
			return nil, fmt.Errorf("%s: %s: %w", op, spec.Name, e)
		}
		return nil, diag.Wrap(diag.KindSandbox, op, spec.Name, err)
	}
	return b, nil
}

// workDir checks where the workspace is to appear; "" if its image is to say.
func (d *Driver) workDir(dir string, onImage bool) (string, error) {
	if dir == "" && !onImage {
		return defaultDir, nil
	}
	if dir == "" {
		return "", nil
	}
	if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || strings.ContainsRune(dir, 0) {
		return "", fmt.Errorf("the workspace's directory %q is not a clean absolute path below /", dir)
	}
	reserved := d.tools.reserved
	if onImage {
		reserved = mountPoints
	}
	for _, r := range reserved {
		if within(dir, r) || within(r, dir) {
			return "", fmt.Errorf("the workspace's directory %q collides with what sandboxes have at %s", dir, r)
		}
	}
	return dir, nil
}

// Close ends every sandbox, waits until nothing of them is left and removes the
// driver's files. It is idempotent.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.images.stop(errClosed) // whoever waits for one
	boxes := make([]*box, 0, len(d.boxes))
	for b := range d.boxes {
		boxes = append(boxes, b)
	}
	d.mu.Unlock()
	for _, b := range boxes {
		b.Close()
	}
	d.alive.Wait()
	return diag.Wrap(diag.KindSandbox, "close local sandboxes", "", d.close())
}

// close frees what open took, as far as it came.
func (d *Driver) close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.alive.Wait()
	var errs []error
	if d.blanks != nil {
		d.blanks.close()
	}
	if d.spawners != nil {
		d.spawners.close()
	}
	if d.groups != nil {
		errs = append(errs, d.groups.close())
		d.groups = nil
	}
	errs = append(errs, d.images.close())
	for _, f := range []**os.File{&d.diary, &d.program} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
	if d.state != nil {
		errs = append(errs, d.state.close())
		d.state = nil
	}
	return errors.Join(errs...)
}

// lastWords is the end of what first processes wrote on stderr, where a crash of
// one of them shows.
func (d *Driver) lastWords(since int64) string {
	const most = 2000
	info, err := d.diary.Stat()
	if err != nil || info.Size() <= since {
		return ""
	}
	from := max(since, info.Size()-most)
	b := make([]byte, info.Size()-from)
	n, _ := d.diary.ReadAt(b, from)
	return strings.TrimSpace(string(b[:n]))
}

// setupOf is what the first process is told, and the trees that it is handed.
func (d *Driver) setupOf(b *box) (first.Setup, []*os.File, error) {
	// A file costs at least a page of memory beside the limit on bytes.
	inodes := max(1024, uint64(b.Limits.Disk)/4096)
	s := first.Setup{
		// The place is any that exists and that everybody may enter; the trees
		// below it have been opened when it is covered.
		Base: "/usr", Disk: uint64(b.Limits.Disk), Inodes: inodes,
		Dir: b.Dir, Filter: d.filter, Proc: d.procfs, Lowers: []string{b.space.dir},
	}
	if b.picture != nil {
		s.Image, s.Dir, s.User = true, b.place, b.user
		s.Lowers = append(s.Lowers, b.picture.image.Layers...)
	} else {
		s.Binds, s.Links, s.Files = slices.Clone(d.tools.binds), d.tools.links, d.tools.files
		if kit := d.tools.kit; kit != "" && isFolder(kit) {
			s.Binds = append(s.Binds, first.Bind{Path: kit, Target: goKitAt})
		}
		if b.vendor != "" && !d.bare {
			s.Binds = append(s.Binds, first.Bind{Path: b.vendor, Target: goVendorAt})
		}
	}
	if d.groups == nil {
		s.MaxData, s.MaxProcs = uint64(b.Limits.Memory), uint64(b.Limits.Pids+serverTasks)
	}
	if d.bare {
		b.strip(&s)
		return s, nil, nil
	}
	if b.scratch != "" {
		s.Scratch, s.Given = b.scratch, d.privileged
	}
	if !d.privileged {
		return s, nil, nil
	}
	var trees []*os.File
	paths := s.Lowers
	s.Lowers = make([]string, len(paths))
	for i := range s.Binds {
		paths = append(paths, s.Binds[i].Path)
		s.Binds[i].Tree = true
	}
	for _, p := range paths {
		fd, err := first.OpenTree(p)
		if err != nil {
			closeAll(trees)
			return s, nil, err
		}
		trees = append(trees, os.NewFile(uintptr(fd), p))
	}
	if s.Given {
		fd, err := first.OpenScratch(s.Scratch)
		if err != nil {
			closeAll(trees)
			return s, nil, err
		}
		trees = append(trees, os.NewFile(uintptr(fd), s.Scratch))
	}
	return s, trees, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
