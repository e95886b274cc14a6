package workers

import (
	"slices"
	"sync/atomic"
	"testing"
)

func TestEveryTaskRunsOnce(t *testing.T) {
	for _, size := range []int{0, 1, 2, 5} {
		for _, tasks := range []int{0, 1, 3, 100} {
			p := New(size)
			count := make([]atomic.Int32, tasks)
			p.Run(tasks, func(worker, task int) {
				if worker < 0 || worker >= p.Size() {
					t.Errorf("worker %d of %d", worker, p.Size())
				}
				count[task].Add(1)
			})
			for i := range count {
				if n := count[i].Load(); n != 1 {
					t.Errorf("%d workers: task %d ran %d times", size, i, n)
				}
			}
		}
	}
	if n := (Pool{}).Size(); n != 1 {
		t.Errorf("the zero pool has size %d", n)
	}
}

func TestRowsCutByBlock(t *testing.T) {
	var got [3][2]int
	New(4).Rows(10, 4, func(_, block, from, to int) { got[block] = [2]int{from, to} })
	if want := [][2]int{{0, 4}, {4, 8}, {8, 10}}; !slices.Equal(got[:], want) {
		t.Errorf("blocks %v, want %v", got, want)
	}
}
