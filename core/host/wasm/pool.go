package wasm

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/valence-rl/valence/core/host/transport"
)

// pool keeps instances that have served nothing, or forgot it.
type pool struct {
	mu    sync.Mutex
	idle  []*instance   // the last one served last, and is in the processor's cache
	most  int           // of idle
	ahead int           // how many are made ahead of the calls, without an image
	low   chan struct{} // there may be fewer than that
	start sync.Once
	work  sync.WaitGroup
	life  context.Context
	stop  context.CancelFunc
}

func newPool(warm int) *pool {
	ahead := max(warm, 1)
	p := &pool{
		most:  max(ahead, runtime.GOMAXPROCS(0)), // for calls at once on all cores
		ahead: ahead,
		low:   make(chan struct{}, 1),
	}
	p.life, p.stop = context.WithCancel(context.Background())
	return p
}

// get gives the instance that served last, or nil.
func (p *pool) get() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	i := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return i
}

// put keeps i unless there are enough.
func (p *pool) put(i *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == p.most {
		return false
	}
	p.idle = append(p.idle, i)
	return true
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// take gives an instance that has served nothing, or forgot it.
func (m *Module) take(ctx context.Context) (*instance, error) {
	if i := m.pool.get(); i != nil {
		m.refill()
		return i, nil
	}
	i, err := m.fresh(ctx)
	if err == nil {
		m.refill()
	}
	return i, err
}

// give takes an instance back after a call that ended with err.
func (m *Module) give(i *instance, err error) {
	m.backoff.note(err)
	if err != nil || m.pool.size() == m.pool.most || !i.reset() || !m.pool.put(i) {
		i.close()
	}
}

// fresh makes an instance, and the image from the first one.
func (m *Module) fresh(ctx context.Context) (*instance, error) {
	m.backoff.wait(ctx)
	i, err := m.instantiate(ctx)
	if err != nil {
		m.backoff.note(err)
		return nil, err
	}
	if m.image.Load() == nil {
		m.freeze(i)
	}
	return i, nil
}

// freeze makes i, which has just started, the image of all instances to come.
func (m *Module) freeze(i *instance) {
	m.freezing.Lock()
	defer m.freezing.Unlock()
	if m.obstacle != nil || m.image.Load() != nil {
		return
	}
	img, err := i.freeze()
	if err != nil {
		m.obstacle = err
		return
	}
	m.image.Store(img)
}

// refill has instances made ahead of the calls, unless they come from an image:
// that is quicker than waking somebody to do it.
func (m *Module) refill() {
	if m.image.Load() != nil {
		return
	}
	m.pool.start.Do(func() { m.pool.work.Go(m.stock) })
	select {
	case m.pool.low <- struct{}{}:
	default:
	}
}

// stock makes instances ahead of the calls until the pool's life ends.
func (m *Module) stock() {
	p := m.pool
	for {
		select {
		case <-p.low:
		case <-p.life.Done():
			return
		}
		for p.size() < p.ahead && m.image.Load() == nil {
			i, err := m.fresh(p.life)
			if err != nil {
				break // whoever calls next meets the error
			}
			if !p.put(i) {
				i.close()
			}
		}
	}
}

// close ends the making of instances and frees those that are left.
func (p *pool) close() {
	p.stop()
	p.work.Wait()
	for i := p.get(); i != nil; i = p.get() {
		i.close()
	}
}

// note counts a call, or the making of an instance, that ended with err. What a
// deadline stops and what the guest reports in good order is no failure here: both
// leave nothing to be afraid of.
func (b *backoff) note(err error) {
	var f *transport.Failure
	if !errors.As(err, &f) {
		b.succeeded()
		return
	}
	switch f.Reason {
	case transport.ReasonTrap, transport.ReasonExit, transport.ReasonMemory, transport.ReasonStack:
		b.failed()
	case transport.ReasonError, transport.ReasonPanic:
		b.succeeded()
	}
}
