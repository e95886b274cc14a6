package process

import (
	"sync"

	"github.com/valence-rl/valence/core/host/transport"
)

// output is what a process prints. It comes to every call that is under way then,
// because nobody can tell which of them it belongs to.
type output struct {
	mu    sync.Mutex
	calls map[*transport.Printed]struct{}
	idle  transport.Printed // while no call is under way
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.calls) == 0 {
		o.idle.Write(b)
	}
	for p := range o.calls {
		p.Write(b)
	}
	return len(b), nil
}

// open begins to keep what is printed for a call.
func (o *output) open() *transport.Printed {
	p := new(transport.Printed)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[p] = struct{}{}
	return p
}

// text gives what was printed since open.
func (o *output) text(p *transport.Printed) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return p.String()
}

// close ends what open began.
func (o *output) close(p *transport.Printed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, p)
}

// early gives what was printed while no call was under way.
func (o *output) early() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle.String()
}
