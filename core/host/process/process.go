// Package process runs skills as processes of their own, over hashicorp/go-plugin:
// gRPC on a private socket with mutual TLS, the host's services over its broker.
// The protocol is told in package sdk/process.
//
// One process serves many calls at the same time. It gets no environment but PATH,
// HOME, LANG and a temporary folder of its own, which is all that keeps it apart:
// it can read what the host's user can read, and what a call leaves in its memory
// stays there for the next. What must be held in a cage runs as WASM.
//
// A process is replaced, never repaired:
//
//	its program ended      the calls under way fail, the next starts another
//	a call passed its deadline or was cancelled
//	                       the call returns, new calls go to another process, and
//	                       the old one is killed when its other calls have ended
//
// The process dies with the host, however the host dies.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/host/transport"
)

// DefaultMemory is the memory limit of one process, in bytes.
const DefaultMemory = 4 << 30

// maxRetired is how many processes may wait for the end of their last calls. The
// oldest is killed when there are more.
const maxRetired = 4

// Config says how a plugin's process is run.
type Config struct {
	// Command is the program, absolute, and its arguments. It runs in an empty folder.
	Command []string
	// Memory limits the data of one process, in bytes, for all its calls together;
	// 0 means DefaultMemory. Only Linux enforces it.
	Memory int64
	// Log hears of processes that ended unasked; nil is silent.
	Log *slog.Logger
}

// Process is a plugin in a process. Its methods, but for Close, may be called from
// many goroutines.
type Process struct {
	config Config
	life   context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	current   *worker   // serves new calls; nil if there is none
	launching *launch   // becomes current; nil if there is none
	retired   []*worker // wait for their last calls, oldest first
	failures  int       // processes in a row that ended before they answered anything
}

// launch is the start of a process, which all calls without one wait for.
type launch struct {
	done    chan struct{}
	failure *transport.Failure // after done; nil if it succeeded
}

// Open starts the plugin's process. The error is a [*transport.Failure] where the
// plugin is at fault.
func Open(ctx context.Context, c Config) (*Process, error) {
	if len(c.Command) == 0 || !filepath.IsAbs(c.Command[0]) {
		return nil, fmt.Errorf("command %q does not begin with an absolute path", c.Command)
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Memory < 0 {
		return nil, fmt.Errorf("memory limit of %d bytes is negative", c.Memory)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := &Process{config: c}
	p.life, p.stop = context.WithCancel(context.Background())
	w, f := p.take(ctx)
	if f != nil {
		p.Close()
		return nil, f
	}
	p.release(w)
	return p, nil
}

// Call serves one method in the process, beside other calls. The bytes of the
// answer are the caller's. It returns when ctx ends, as soon as the services that
// it is waiting for have. Every error is a [*transport.Failure].
func (p *Process) Call(ctx context.Context, method uint32, in []byte, serve transport.HostFunc) ([]byte, error) {
	if len(in) > transport.MaxMessage {
		return nil, &transport.Failure{Reason: transport.ReasonAnswer, Err: fmt.Errorf("request of %d bytes, %d is the most", len(in), transport.MaxMessage)}
	}
	w, f := p.take(ctx)
	if f != nil {
		return nil, f
	}
	defer p.release(w)
	c := w.begin(ctx, serve)
	defer c.forget()
	out, err := c.invoke(method, in)
	c.end()
	if err == nil {
		p.answered()
		return out, nil
	}
	f, fate := c.failure(err)
	switch fate {
	case answers:
		p.answered()
	case dead:
		p.lost(w, f)
	case busy:
		p.retire(w)
	}
	return nil, f
}

// Close kills what is running and frees everything. Calls must have returned.
func (p *Process) Close() error {
	p.stop()
	p.mu.Lock()
	l := p.launching
	p.mu.Unlock()
	if l != nil {
		<-l.done
	}
	p.mu.Lock()
	if p.current != nil {
		p.drop(p.current)
	}
	p.mu.Unlock()
	p.work.Wait()
	return nil
}

// take gives the process that serves new calls, and starts one if there is none.
func (p *Process) take(ctx context.Context) (*worker, *transport.Failure) {
	for {
		if ctx.Err() != nil {
			return nil, starting(over(ctx))
		}
		p.mu.Lock()
		if w := p.current; w != nil && w.program.ended() {
			p.bury(w, "while nothing was asked of it")
		}
		if w := p.current; w != nil {
			w.users++
			p.mu.Unlock()
			return w, nil
		}
		l := p.launching
		if l == nil {
			l = &launch{done: make(chan struct{})}
			p.launching = l
			pause := backOff(p.failures)
			p.work.Go(func() { p.launch(l, pause) })
		}
		p.mu.Unlock()
		select {
		case <-l.done:
			if l.failure != nil {
				f := *l.failure
				return nil, &f
			}
		case <-ctx.Done():
		}
	}
}

// launch starts a process after a pause.
func (p *Process) launch(l *launch, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-p.life.Done():
	}
	w, f := start(p.life, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launching = nil
	p.current = w
	if f != nil {
		p.failures++
		l.failure = starting(f)
	}
	close(l.done)
}

// release ends a use of w.
func (p *Process) release(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.users--
	p.sweep(w)
}

// sweep frees w if nothing will use it any more. The caller holds mu.
func (p *Process) sweep(w *worker) {
	for i, r := range p.retired {
		if r == w && w.users == 0 {
			p.retired = append(p.retired[:i], p.retired[i+1:]...)
			p.work.Go(w.close)
			return
		}
	}
}

// answered notes that the plugin is able to answer.
func (p *Process) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = 0
}

// retire sends w no further calls, because one that was given up may go on in it.
func (p *Process) retire(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(w)
}

// lost notes that w's program has ended with a call under way.
func (p *Process) lost(w *worker, f *transport.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bury(w, f.Error())
}

// bury drops w, whose program has ended unasked. The caller holds mu.
func (p *Process) bury(w *worker, how string) {
	if w.program.killed() != errCrowded && !w.buried {
		w.buried = true
		p.failures++
		p.config.Log.Debug("a plugin's process ended", "program", p.config.Command[0], "how", how)
	}
	p.drop(w)
}

// drop makes w one that serves its last calls. The caller holds mu.
func (p *Process) drop(w *worker) {
	if p.current != w {
		return // another call has done it
	}
	p.current = nil
	p.retired = append(p.retired, w)
	p.sweep(w)
	if len(p.retired) > maxRetired {
		p.retired[0].program.kill(errCrowded)
	}
}

var errCrowded = errors.New("the process was stopped: calls beside this one had not ended after they were given up")
