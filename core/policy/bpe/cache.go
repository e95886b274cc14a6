package bpe

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds of a cache. Past them pieces are encoded anew each time.
const (
	maxCached = 1 << 15 // pieces
	maxPiece  = 64      // bytes of one
)

// cache keeps the ids of pieces already met. It is safe for concurrent use.
type cache struct {
	ids  sync.Map // string → []int, never changed
	size atomic.Int64
}

func (c *cache) get(piece string) ([]int, bool) {
	v, ok := c.ids.Load(piece)
	if !ok {
		return nil, false
	}
	return v.([]int), true
}

func (c *cache) put(piece string, ids []int) {
	if len(piece) > maxPiece || c.size.Load() >= maxCached {
		return
	}
	// The clone lets go of the text that the piece was cut from.
	if _, loaded := c.ids.LoadOrStore(strings.Clone(piece), ids); !loaded {
		c.size.Add(1)
	}
}
