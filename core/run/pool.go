package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/registry"
)

// pool holds the loaded plugins of a run. What several bindings share is loaded
// once, and closed when the last of them lets go. It is safe for concurrent use.
type pool struct {
	mu      sync.Mutex
	loaded  map[string]*loaded
	closing sync.WaitGroup
	errs    []error
}

// loaded is a plugin and how many bindings use it.
type loaded struct {
	*host.Plugin
	pool  *pool
	id    string
	users int
}

func newPool() *pool { return &pool{loaded: map[string]*loaded{}} }

// load gives m's plugin to one more user, who must drop it.
func (p *pool) load(ctx context.Context, m *registry.Module, o host.Options) (*loaded, error) {
	id := fmt.Sprintf("%q %s %s %q", m.Ref, m.Digest, m.Transport, o.Grants)
	if l := p.join(id); l != nil {
		return l, nil
	}
	fresh, err := host.Load(ctx, m, o)
	if err != nil {
		return nil, err
	}
	l := &loaded{Plugin: fresh, pool: p, id: id, users: 1}
	p.mu.Lock()
	defer p.mu.Unlock()
	if there := p.loaded[id]; there != nil { // somebody else was quicker
		there.users++
		p.closing.Go(func() { p.end(l) })
		return there, nil
	}
	p.loaded[id] = l
	return l, nil
}

// join is one more user of a plugin that is there; nil if it is not.
func (p *pool) join(id string) *loaded {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.loaded[id]
	if l != nil {
		l.users++
	}
	return l
}

// drop ends one use. It does not wait for the plugin to be closed.
func (l *loaded) drop() {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	delete(p.loaded, l.id)
	p.closing.Go(func() { p.end(l) })
}

func (p *pool) end(l *loaded) {
	if err := l.Close(); err != nil {
		p.mu.Lock()
		p.errs = append(p.errs, err)
		p.mu.Unlock()
	}
}

// close ends every plugin, used or not, and waits for it.
func (p *pool) close() error {
	p.mu.Lock()
	for id, l := range p.loaded {
		delete(p.loaded, id)
		p.closing.Go(func() { p.end(l) })
	}
	p.mu.Unlock()
	p.closing.Wait()
	return errors.Join(p.errs...)
}
