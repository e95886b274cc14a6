package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/toolbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// box is the host's end of one sandbox.
type box struct {
	toolbox.Box
	driver  *Driver
	space   *workspace
	picture *picture // whose image is the root; nil: the host's tool chain is
	place   string   // where the workspace is in it, links followed
	user    *toolserver.User
	home    *home  // without namespaces
	vendor  string // folder of what its vendored packages compile to; "": none
	scratch string // folder of what is written; "": memory
	*blank         // its processes; nil while there are none

	mu     sync.Mutex
	life   *time.Timer
	reason string        // why it was killed; "" while nobody did
	dead   chan struct{} // closed when the first process is gone, and all with it
}

// start makes the sandbox. On error nothing of it is left.
func (b *box) start(ctx context.Context, ref string, w *sdk.Workspace) (err error) {
	d := b.driver
	defer func() {
		if err != nil && b.blank == nil {
			b.release()
		}
	}()
	if ref != "" {
		err = b.dress(ctx, ref, w)
	} else {
		b.Env = sandbox.MergeEnv(d.tools.env, b.Env)
		b.vendor = d.tools.compiled(b.Dir, w)
		b.space, err = d.spaces.take(w)
	}
	if err != nil {
		return err
	}
	if d.onDisk && !d.bare {
		if b.scratch, err = d.scratch(); err != nil {
			return err
		}
	}
	if d.bare {
		if b.home, err = d.settle(b.space, b.Dir); err != nil {
			return err
		}
		b.Env, b.Place = sandbox.MergeEnv(b.Env, b.home.env()), b.home.path
	}
	s, trees, err := d.setupOf(b)
	if err != nil {
		return err
	}
	defer closeAll(trees)
	handed, err := d.engage(b, trees)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.boxes[b] = true
	d.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { b.kill("its creation was given up") })
	defer stop()
	late := time.AfterFunc(b.Limits.Create, func() { b.kill(fmt.Sprintf("it was not ready within %s", b.Limits.Create)) })
	defer late.Stop()
	// From here on listen cleans up when the process ends, whoever ends it.
	go b.listen()
	if err = handed; err == nil {
		err = b.Client.Call(context.Background(), toolserver.KindSetup, s.Encode, nil)
	}
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
	b.life = time.AfterFunc(b.Limits.Life, func() { b.kill(fmt.Sprintf("its life of %s is over", b.Limits.Life)) })
	b.mu.Unlock()
	d.log.Debug("sandbox made", "sandbox", b.Name, "pid", b.process.pid)
	d.blanks.fill()
	return nil
}

// death is the error of every call once the sandbox is gone.
func (b *box) death() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return diag.Errorf(diag.KindSandbox, "sandbox", b.Name, "it is gone: %s", b.reason)
}

// listen hands answers to those who wait, until the first process is gone. Then it
// frees everything that the sandbox held.
func (b *box) listen() {
	b.Client.Run(b.conn)
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
	b.driver.log.Debug("sandbox ended", "sandbox", b.Name, "reason", reason)
	b.release()
	b.Client.Close(b.death())
	close(b.dead)
}

// release frees what the sandbox held. Nothing of it runs any more.
func (b *box) release() {
	d := b.driver
	if b.blank != nil {
		b.conn.Close()
		b.process.close()
	}
	switch {
	case b.blank == nil || b.group == nil:
	case b.home == nil:
		d.groups.give(b.group)
	default:
		// Not all of them need to have been waited for.
		if err := d.groups.drop(b.group); err != nil {
			d.log.Warn("a control group is left", "sandbox", b.Name, "cause", err)
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
	if b.picture != nil {
		d.images.give(b.picture)
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

// slack is what a bare sandbox is given to kill its commands.
const slack = 20 * time.Second

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

// Close ends the sandbox at once. What it held is freed a moment later, which the
// driver's Close waits for.
func (b *box) Close() error {
	b.kill("it was closed")
	return nil
}

// Exec runs a command; see sandbox.Sandbox.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	r, err := b.Box.Exec(ctx, c)
	return r, b.spared("run command", err)
}

// Write makes or removes files; see sandbox.Sandbox.
func (b *box) Write(ctx context.Context, changes ...sdk.Change) error {
	return b.spared("write files", b.Box.Write(ctx, changes...))
}

// spared gives err, unless what was written lies on a disk of the host that is full:
// then nothing that the sandbox says can be trusted, and it ends.
func (b *box) spared(op string, err error) error {
	if b.scratch == "" && b.home == nil || diag.KindOf(err) == diag.KindSandbox {
		return err
	}
	full := b.driver.full()
	if full == nil {
		return err
	}
	b.kill(full.Error())
	return diag.Wrap(diag.KindSandbox, op, b.Name, full)
}

var _ sandbox.Sandbox = (*box)(nil)
