package main

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	loops       = 4   // of each plugin while the collector runs
	collections = 200 // at most; the runtime remembers 256
)

// longestPause keeps all cores busy with plugins while garbage is collected again and
// again, and gives the longest time that the world stood still in a collection.
func longestPause(p plugin, loop question) (time.Duration, error) {
	var all sync.WaitGroup
	var busy atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	for i := range errs {
		n, err := p.another()
		if err != nil {
			return 0, err
		}
		busy.Add(1)
		all.Go(func() {
			defer busy.Add(-1)
			defer n.close()
			for range loops {
				if errs[i] = n.call(loop); errs[i] != nil {
					return
				}
			}
		})
	}
	var before, after debug.GCStats
	debug.ReadGCStats(&before)
	for n := 0; n < collections && busy.Load() == int64(len(errs)); n++ {
		runtime.GC()
	}
	debug.ReadGCStats(&after)
	all.Wait()
	longest := time.Duration(0)
	for _, d := range after.Pause[:min(int(after.NumGC-before.NumGC), len(after.Pause))] {
		longest = max(longest, d)
	}
	return longest, errors.Join(errs...)
}
