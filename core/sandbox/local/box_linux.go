package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// box is the host's end of one sandbox.
type box struct {
	driver  *Driver
	name    string
	limits  sandbox.Limits
	dir     string
	env     []string
	space   *workspace
	home    *home  // without namespaces
	scratch string // folder of what is written; "": memory
	group   *group

	conn    *os.File
	process *child
	diary   int64 // length of the driver's diary when the sandbox began

	tools *toolserver.Client

	mu     sync.Mutex
	life   *time.Timer
	reason string        // why it was killed; "" while nobody did
	dead   chan struct{} // closed when the first process is gone, and all with it
}

// slack is how much longer than its own deadline an answer may take before the
// sandbox counts as dead.
const slack = 20 * time.Second

// patience is the deadline of requests that have none of their own.
const patience = 2 * time.Minute

// start makes the sandbox. On error nothing of it is left.
func (b *box) start(ctx context.Context, w *sdk.Workspace) (err error) {
	d := b.driver
	defer func() {
		if err != nil && b.process == nil {
			b.release()
		}
	}()
	if b.space, err = d.spaces.take(w); err != nil {
		return err
	}
	if d.groups != nil {
		if b.group, err = d.groups.take(b.limits); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	if d.onDisk && !d.bare {
		if b.scratch, err = d.scratch(); err != nil {
			return err
		}
	}
	if d.bare {
		if b.home, err = d.settle(b.space, b.dir); err != nil {
			return err
		}
		b.env = sandbox.MergeEnv(b.env, b.home.env())
	}
	s, trees, err := d.setupOf(b)
	if err != nil {
		return err
	}
	defer closeAll(trees)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return err
	}
	b.conn = os.NewFile(uintptr(pair[0]), "control")
	if info, err := d.diary.Stat(); err == nil {
		b.diary = info.Size()
	}
	spawn := first.Spawn{Range: d.privileged, User: uint64(os.Geteuid()), Team: uint64(os.Getegid()),
		// The heap is a few hundred kilobytes; thousands of these processes live at once.
		Values: []string{"GOMAXPROCS=1", "GOGC=50", "GOTRACEBACK=single"}}
	if spawn.Bare = d.bare; d.bare {
		spawn.Range = d.lends
	}
	if spawn.Range {
		spawn.User, spawn.Team, spawn.Count = firstID, firstID, idCount
	}
	files := append([]*os.File{d.diary, theirs}, trees...)
	if b.group != nil {
		joins, err := b.group.joins()
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		defer closeAll(joins)
		s.Joins = uint64(len(joins))
		files = append(files, joins...)
		if b.group.fd != nil {
			spawn.Group = true
			files = append(files, b.group.fd)
		}
	}
	process, err := d.spawners.start(spawn, files)
	theirs.Close() // or the end of the process would not show
	if err != nil {
		return fmt.Errorf("start the first process: %w", err)
	}
	b.process = process
	d.mu.Lock()
	d.boxes[b] = true
	d.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { b.kill("its creation was given up") })
	defer stop()
	late := time.AfterFunc(b.limits.Create, func() { b.kill(fmt.Sprintf("it was not ready within %s", b.limits.Create)) })
	defer late.Stop()
	// From here on listen cleans up when the process ends, whoever ends it.
	go b.listen()

	if b.group != nil && b.group.fd != nil {
		// Commands and the first process share one group. That many small processes over
		// the memory limit cost the first one its life would turn a command's fault
		// into the sandbox's.
		score := "/proc/" + strconv.Itoa(process.pid) + "/oom_score_adj"
		if err := os.WriteFile(score, []byte("-1000"), 0); err != nil {
			d.log.Debug("a sandbox's first process stays in reach of the memory killer", "cause", err)
		}
	}
	err = b.tools.Call(context.Background(), toolserver.KindSetup, s.Encode, nil)
	if err != nil {
		b.kill(err.Error())
		<-b.dead
		return err
	}
	if !late.Stop() || !stop() {
		// It was ready just as it was given up.
		<-b.dead
		return b.death()
	}
	b.mu.Lock()
	b.life = time.AfterFunc(b.limits.Life, func() { b.kill(fmt.Sprintf("its life of %s is over", b.limits.Life)) })
	b.mu.Unlock()
	d.log.Debug("sandbox made", "sandbox", b.name, "pid", process.pid)
	return nil
}

// death is the error of every call once the sandbox is gone.
func (b *box) death() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return diag.Errorf(diag.KindSandbox, "sandbox", b.name, "it is gone: %s", b.reason)
}

// listen hands answers to those who wait, until the first process is gone. Then it
// frees everything that the sandbox held.
func (b *box) listen() {
	b.tools.Run(b.conn)
	b.end()
	end := b.process.wait()
	b.mu.Lock()
	if b.reason == "" {
		b.reason = "its first process ended unasked: " + end
		if words := b.driver.lastWords(b.diary); words != "" {
			b.reason += "\n" + words
		}
	}
	reason := b.reason
	if b.life != nil {
		b.life.Stop()
	}
	b.mu.Unlock()
	b.driver.log.Debug("sandbox ended", "sandbox", b.name, "reason", reason)
	b.release()
	b.tools.Close(b.death())
	close(b.dead)
}

// release frees what the sandbox held. Nothing of it runs any more.
func (b *box) release() {
	d := b.driver
	if b.conn != nil {
		b.conn.Close()
	}
	if b.process != nil {
		b.process.close()
	}
	switch {
	case d.groups == nil || b.group == nil:
	case b.home == nil:
		d.groups.give(b.group)
	default:
		// Not all of them need to have been waited for.
		if err := d.groups.drop(b.group); err != nil {
			d.log.Warn("a control group is left", "sandbox", b.name, "cause", err)
		}
	}
	if b.home != nil {
		removeAll(b.home.dir)
	}
	if b.scratch != "" {
		removeAll(b.scratch)
	}
	if b.space != nil {
		d.spaces.give(b.space)
	}
	d.mu.Lock()
	delete(d.boxes, b)
	d.mu.Unlock()
	d.alive.Done()
}

// kill ends the sandbox; the first reason given is kept.
func (b *box) kill(reason string) {
	b.mu.Lock()
	if b.reason == "" {
		b.reason = reason
	}
	b.mu.Unlock()
	b.end()
}

// end has the first process go, and with it everything else. A bare one has to kill
// its commands itself, so it is asked to, and killed if it does not.
func (b *box) end() {
	if b.home == nil {
		b.process.kill()
		return
	}
	if raw, err := b.conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	time.AfterFunc(slack, b.process.kill)
}

// request sends a request and waits for its answer, for most at most: a sandbox
// that takes longer counts as dead.
func (b *box) request(ctx context.Context, k toolserver.Kind, most time.Duration, ask func(*toolserver.Encoder), answer func(*toolserver.Decoder)) error {
	timer := time.AfterFunc(most, func() { b.kill(fmt.Sprintf("it did not answer within %s", most)) })
	defer timer.Stop()
	return b.tools.Call(ctx, k, ask, answer)
}

// Exec runs a command; see sandbox.Sandbox.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	const op = "run command"
	if c.Shell == "" && len(c.Args) == 0 {
		return sandbox.Result{}, diag.Errorf(diag.KindUnknown, op, b.name, "there is none")
	}
	if err := sandbox.CheckEnv(c.Env); err != nil {
		return sandbox.Result{}, diag.Errorf(diag.KindUnknown, op, b.name, "%w", err)
	}
	r := toolserver.Exec{Shell: c.Shell, Args: c.Args, Dir: b.path(c.Dir), Env: sandbox.MergeEnv(b.env, c.Env), Stdin: c.Stdin,
		Timeout: c.Timeout, Output: uint64(b.limits.Output)}
	if r.Timeout <= 0 {
		r.Timeout = b.limits.Command
	}
	var result toolserver.Result
	err := b.request(ctx, toolserver.KindExec, r.Timeout+slack, r.Encode, result.Decode)
	return sandbox.Result(result), b.outcome(op, err)
}

// path makes a path of the contract absolute.
func (b *box) path(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(b.dir, p)
	}
	p = path.Clean(p)
	if b.home != nil {
		return b.home.path(p)
	}
	return p
}

// outcome classifies an error: what concerns a file or the caller's context stays
// as it is, everything else is the sandbox's failure.
func (b *box) outcome(op string, err error) error {
	var file *fs.PathError
	if errors.Is(err, toolserver.ErrTooLarge) {
		return fmt.Errorf("%s: %s: %w", op, b.name, sandbox.ErrTooLarge)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &file):
		return fmt.Errorf("%s: %s: %w", op, b.name, err)
	}
	return diag.Wrap(diag.KindSandbox, op, b.name, err)
}

// defaultLimit is that of Read and Diff.
const defaultLimit = 16 << 20

// Read gives a file's bytes; see sandbox.Sandbox.
func (b *box) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	var data []byte
	err := b.request(ctx, toolserver.KindRead, patience,
		func(e *toolserver.Encoder) { e.String(b.path(name)); e.Uint(uint64(limit)) },
		func(d *toolserver.Decoder) { data = d.Bytes() })
	return data, b.outcome("read file", err)
}

// Write makes or removes files; see sandbox.Sandbox.
func (b *box) Write(ctx context.Context, changes ...sdk.Change) error {
	out := make([]sdk.Change, len(changes))
	for i, c := range changes {
		c.Path = b.path(c.Path)
		out[i] = c
	}
	err := b.request(ctx, toolserver.KindWrite, patience, func(e *toolserver.Encoder) { e.Changes(out) }, nil)
	return b.outcome("write files", err)
}

// Diff gives what differs from the workspace as it was; see sandbox.Sandbox.
func (b *box) Diff(ctx context.Context, limit int64) ([]sdk.Change, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	var changes []sdk.Change
	err := b.request(ctx, toolserver.KindDiff, patience, func(e *toolserver.Encoder) { e.Uint(uint64(limit)) },
		func(d *toolserver.Decoder) { changes = d.Changes() })
	return changes, b.outcome("collect changes", err)
}

// Close ends the sandbox at once. What it held is freed a moment later, which the
// driver's Close waits for.
func (b *box) Close() error {
	b.kill("it was closed")
	return nil
}

var _ sandbox.Sandbox = (*box)(nil)
