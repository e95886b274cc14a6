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
	idle  chan *instance
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
		// Calls at once on all cores find the instance of the call before.
		idle:  make(chan *instance, max(ahead, runtime.GOMAXPROCS(0))),
		ahead: ahead,
		low:   make(chan struct{}, 1),
	}
	p.life, p.stop = context.WithCancel(context.Background())
	return p
}

// take gives an instance that has served nothing, or forgot it.
func (m *Module) take(ctx context.Context) (*instance, error) {
	select {
	case i := <-m.pool.idle:
		m.refill()
		return i, nil
	default:
	}
	i, err := m.fresh(ctx)
	if err == nil {
		m.refill()
	}
	return i, err
}

// give takes an instance back after a call that ended with err.
func (m *Module) give(i *instance, err error) {
	if m.backoff.note(err); err == nil && i.reset() {
		select {
		case m.pool.idle <- i:
			return
		default:
		}
	}
	i.close()
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
		for len(p.idle) < p.ahead && m.image.Load() == nil {
			i, err := m.fresh(p.life)
			if err != nil {
				break // whoever calls next meets the error
			}
			select {
			case p.idle <- i:
			default:
				i.close()
			}
		}
	}
}

// close ends the making of instances and frees those that are left.
func (p *pool) close() {
	p.stop()
	p.work.Wait()
	for {
		select {
		case i := <-p.idle:
			i.close()
		default:
			return
		}
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
