package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/valence-rl/valence/core/host/process"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/core/host/wasm"
	"github.com/valence-rl/valence/sdk/python/venv"
	"github.com/valence-rl/valence/sdk/wire"
)

// limit is the deadline of every call where a plugin can be stopped at all.
const limit = time.Minute

// ours is a transport of the host.
type ours struct{ to transport.Transport }

func (o ours) call(q question) error { return o.serve(q, judge) }

func (o ours) serve(q question, host transport.HostFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return verdict(o.to.Call(ctx, wire.MethodEvaluate, wire.Marshal(q.ours), host))
}

func (o ours) wait(q question) (func() error, error) {
	here, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- o.serve(q, func(ctx context.Context, method uint32, in []byte) ([]byte, error) {
			close(here)
			<-release
			return judge(ctx, method, in)
		})
	}()
	select {
	case <-here:
		return func() error { close(release); return <-done }, nil
	case err := <-done:
		return nil, errors.Join(errors.New("the plugin asked nothing"), err)
	}
}

func (o ours) close() { o.to.Close() }

// module runs WASM: an instance is in use as long as a call waits in the host.
type module struct{ ours }

func openWasm(g guests) (plugin, error) {
	code, err := os.ReadFile(g.wasm)
	if err != nil {
		return nil, err
	}
	m, err := wasm.Open(context.Background(), code, wasm.Config{Cache: g.cache})
	if err != nil {
		return nil, err
	}
	p := module{ours{m}}
	q, err := newQuestion("bench/1", 0, 1)
	if err == nil {
		err = p.call(q) // which takes the image
	}
	if err == nil {
		_, err = m.Frozen()
	}
	return p, err
}

func (m module) another() (plugin, error) { return atOnce{m.ours}, nil }

// fresh calls while all instances that are kept for calls wait in the host, so that
// one is made, and lets them go while this call is in the host, so that there is no
// place to keep the new one.
func (m module) fresh(hold question) (time.Duration, error) {
	var kept []func() error
	for range runtime.GOMAXPROCS(0) {
		release, err := m.wait(hold)
		if err != nil {
			return 0, err
		}
		kept = append(kept, release)
	}
	var failed error
	var pause time.Duration
	begin := time.Now()
	err := m.serve(hold, func(ctx context.Context, method uint32, in []byte) ([]byte, error) {
		begin := time.Now()
		for _, release := range kept {
			if err := release(); err != nil {
				failed = err
			}
		}
		pause = time.Since(begin)
		return judge(ctx, method, in)
	})
	took := time.Since(begin) - pause
	if err == nil {
		err = failed
	}
	return took, err
}

// program runs a process, which has no smaller part that is one call's alone.
type program struct {
	ours
	command []string
}

func openProcess(command ...string) (plugin, error) {
	p, err := process.Open(context.Background(), process.Config{Command: command})
	return program{ours{p}, command}, err
}

func openPython(g guests) (plugin, error) {
	if g.python == "" {
		return nil, venv.ErrNoPython
	}
	return openProcess(g.python, "-B", g.script)
}

func (p program) another() (plugin, error) { return openProcess(p.command...) }

// atOnce is a module that takes calls beside those of others. Its owner closes it.
type atOnce struct{ ours }

func (a atOnce) another() (plugin, error) { return a, nil }

func (atOnce) close() {}
