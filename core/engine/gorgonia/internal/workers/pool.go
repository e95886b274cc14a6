// Package workers runs independent pieces of one computation on several cores.
package workers

import (
	"sync"
	"sync/atomic"
)

// Pool is a number of goroutines to use at once; they live for one Run only. The
// zero Pool runs everything on the caller's goroutine.
type Pool struct{ size int }

// New gives a pool of size goroutines, at least one.
func New(size int) Pool { return Pool{max(1, size)} }

// Size is the number of goroutines, at least one.
func (p Pool) Size() int { return max(1, p.size) }

// Run calls f once for every task in [0,tasks) and returns when all are done. The
// worker, below Size, owns no task in advance: which worker runs a task, and when,
// must not matter to the result. Worker numbers are for scratch memory.
func (p Pool) Run(tasks int, f func(worker, task int)) {
	n := min(p.Size(), tasks)
	if n <= 1 {
		for i := range tasks {
			f(0, i)
		}
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for {
			i := int(next.Add(1)) - 1
			if i >= tasks {
				return
			}
			f(worker, i)
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < n; w++ {
		wg.Go(func() { work(w) })
	}
	work(0)
	wg.Wait()
}

// Rows cuts n rows into blocks of at most size rows and calls f for each block's
// bounds. The blocks depend on n and size alone, so that f may reduce over a block.
func (p Pool) Rows(n, size int, f func(worker, block, from, to int)) {
	p.Run((n+size-1)/size, func(worker, block int) {
		f(worker, block, block*size, min(n, (block+1)*size))
	})
}
