package gorgonia

import (
	"testing"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/enginetest"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{
		"one thread":   {Threads: 1},
		"two threads":  {Threads: 2},
		"small limits": {Threads: 3, MaxBatch: 2, CacheBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) engine.Engine { return open(t, small(), o) })
		})
	}
}
