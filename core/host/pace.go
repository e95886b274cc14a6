package host

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/registry"
)

const (
	// paceCalls is how many calls tell whether a plugin computes too much for WASM.
	paceCalls = 20
	// heavy is the median of a call's own time, without that of the services, from
	// which on a process is worth what it gives up in safety.
	heavy = 250 * time.Millisecond
)

// pace measures how long a plugin computes in its first calls. The time passes on
// the clock, so that a busy machine makes a plugin look heavier than it is.
type pace struct {
	mu   sync.Mutex
	took []time.Duration
}

// add takes the own time of one call. With the last of paceCalls it gives the
// median, and says whether that is heavy.
func (p *pace) add(own time.Duration) (median time.Duration, tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.took) == paceCalls {
		return 0, false
	}
	p.took = append(p.took, own)
	if len(p.took) < paceCalls {
		return 0, false
	}
	s := slices.Sorted(slices.Values(p.took))
	median = (s[paceCalls/2-1] + s[paceCalls/2]) / 2
	return median, median > heavy
}

// computed notes the own time of one call, and recommends once to run a heavy
// module as a process, if it can be one.
func (p *Plugin) computed(own time.Duration) {
	m := p.source.Manifest
	if p.source.Transport == registry.Process || m.Language != registry.Go || strings.HasSuffix(p.source.Ref, ".wasm") {
		return
	}
	if median, tell := p.pace.add(own); tell {
		p.log.Warn(fmt.Sprintf(`plugin %s computes for %v in a call, the median of the first %d: as a process (transport = "process") it runs as native code, without WASM's isolation`,
			m.Name, median.Round(time.Millisecond), paceCalls))
	}
}
