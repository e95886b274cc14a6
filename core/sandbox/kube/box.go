package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/kube/inside"
	"github.com/valence-rl/valence/core/sandbox/toolbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// box is the host's end of one pod.
type box struct {
	toolbox.Box
	driver *Driver
	object *corev1.Pod

	life context.Context // ends with the sandbox
	end  context.CancelFunc
	once sync.Once
}

var _ sandbox.Sandbox = (*box)(nil)

// defaults are variables of every command that the image does not set.
var defaults = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}

// fixed are variables that images do not change, so that runs repeat.
var fixed = []string{"LANG=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"}

// start makes the sandbox. On error nothing of it is left.
func (b *box) start(ctx context.Context, image string, w *sdk.Workspace, env []string) error {
	d := b.driver
	var err error
	if b.object, err = d.take(ctx, kindOf(image, b.Limits)); err != nil {
		return err
	}
	b.life, b.end = context.WithCancel(d.life)
	d.mu.Lock()
	d.boxes[b] = true
	d.mu.Unlock()
	object, err := d.pods.running(ctx, b.object.UID)
	if err != nil {
		b.kill(err)
		return err
	}
	d.alive.Go(b.keep)
	go b.watch()
	setup := inside.Setup{Dir: b.Dir, Files: files(w), Patches: w.Patches}
	var hello inside.Hello
	if err = b.Client.Call(ctx, toolserver.KindSetup, setup.Encode, hello.Decode); err == nil && hello.Protocol != toolserver.Protocol {
		err = fmt.Errorf("the tools in image %s speak version %d of the protocol, this program version %d: use the image of the same release",
			d.options.Tools, hello.Protocol, toolserver.Protocol)
	}
	if err == nil && hello.Refused != "" {
		err = diag.Errorf(diag.KindData, "make the workspace", "image "+image, "%s", hello.Refused)
	}
	if err == nil {
		b.Dir = hello.Dir
		b.Env = sandbox.MergeEnv(defaults, hello.Env, fixed, env)
		err = d.check(ctx, b, object, hello.API)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: its tool server has not answered yet", context.Cause(ctx))
		}
		b.kill(err)
		return err
	}
	life := time.AfterFunc(b.Limits.Life, func() { b.kill(fmt.Errorf("its life of %s is over", b.Limits.Life)) })
	context.AfterFunc(b.life, func() { life.Stop() })
	d.log.Debug("sandbox made", "sandbox", b.Name, "pod", object.Name, "node", object.Spec.NodeName)
	return nil
}

// keep holds a stream to the tool server open for as long as the sandbox lives. A
// timeout kills all processes of the sandbox, the stream's end there among them.
func (b *box) keep() {
	var since time.Time // of the first failure in a row
	for pause := 20 * time.Millisecond; b.life.Err() == nil; {
		s, err := b.driver.clients.open(b.life, b.object.Name)
		if err == nil {
			heard := &ear{stream: s}
			if err = b.Client.Run(heard); heard.anything {
				since, pause = time.Time{}, 20*time.Millisecond
			}
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > b.driver.silence {
			b.kill(fmt.Errorf("no stream to it held for %s: %v", b.driver.silence, err))
			return
		}
		b.driver.log.Debug("a stream ended", "sandbox", b.Name, "pod", b.object.Name, "cause", err)
		select {
		case <-b.life.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// ear notes whether a stream has brought anything.
type ear struct {
	*stream
	anything bool
}

func (e *ear) Read(b []byte) (int, error) {
	n, err := e.stream.Read(b)
	e.anything = e.anything || n > 0
	return n, err
}

// watch kills the sandbox when the cluster says that its pod is over.
func (b *box) watch() {
	for {
		object, gone, changed := b.driver.pods.look(b.object.UID)
		if err := ended(object, gone); err != nil {
			b.kill(err)
			return
		}
		select {
		case <-changed:
		case <-b.life.Done():
			return
		}
	}
}

// kill ends the sandbox; the first reason given is kept.
func (b *box) kill(reason error) {
	b.once.Do(func() {
		d := b.driver
		b.Client.Close(diag.Errorf(diag.KindSandbox, "sandbox", b.Name, "it is gone: %w", reason))
		b.end()
		d.mu.Lock()
		delete(d.boxes, b)
		d.mu.Unlock()
		d.log.Debug("sandbox ended", "sandbox", b.Name, "reason", reason)
		d.remove(b.object)
	})
}

// Close ends the sandbox at once. Its pod is deleted a moment later, which the
// driver's Close waits for.
func (b *box) Close() error {
	b.kill(errors.New("it was closed"))
	return nil
}
