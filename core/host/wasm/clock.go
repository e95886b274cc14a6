package wasm

import (
	"math"
	"math/rand/v2"

	"github.com/tetratelabs/wazero/sys"
)

const (
	epoch = 1_577_836_800_000_000_000 // 2020-01-01T00:00:00Z, in nanoseconds since 1970
	step  = 10_000                    // nanoseconds that pass at each reading
	tick  = sys.ClockResolution(step)
	// horizon keeps the sum of all sleeps well inside what a guest can represent.
	horizon = math.MaxInt64 / 4
)

// clock is simulated time. It starts at the same moment in every instance and
// moves only when the guest reads it or sleeps, so that a busy wait ends, a sleep
// costs nothing and both are the same in every run.
type clock struct{ now int64 }

func (c *clock) sleep(ns int64) {
	if ns > 0 {
		c.now = min(c.now+min(ns, horizon), horizon)
	}
}

func (c *clock) mono() int64 {
	c.sleep(step)
	return c.now
}

func (c *clock) wall() (sec int64, nsec int32) {
	t := epoch + c.mono()
	return t / 1e9, int32(t % 1e9)
}

// random is the guest's only source of randomness: ChaCha8 under a key that
// depends on the module, and from the call on also on the request.
type random struct {
	source rand.ChaCha8
	key    func() [32]byte // of the first reading that comes; nil: the source has its key
}

// seed sets the key. It is asked for when it is needed, since most calls read
// nothing and hashing a request can take longer than the call.
func (r *random) seed(key func() [32]byte) { r.key = key }

func (r *random) Read(b []byte) (int, error) {
	if r.key != nil {
		r.source.Seed(r.key())
		r.key = nil
	}
	return r.source.Read(b)
}
