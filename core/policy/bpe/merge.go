package bpe

import "container/heap"

// short is the length up to which scanning for the lowest rank beats a heap. Both
// ways give the same ids.
const short = 48

// merge joins neighbours by the learnt merges: always the pair of lowest rank, the
// leftmost first. It may overwrite ids and returns a slice of it.
func (t *Tokenizer) merge(ids []int) []int {
	if len(ids) > short {
		return t.mergeLong(ids)
	}
	return t.mergeShort(ids)
}

// mergeShort takes time quadratic in len(ids).
func (t *Tokenizer) mergeShort(ids []int) []int {
	for {
		at, best := -1, join{}
		for i := 0; i+1 < len(ids); i++ {
			if j, ok := t.joins[[2]int{ids[i], ids[i+1]}]; ok && (at < 0 || j.rank < best.rank) {
				at, best = i, j
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = append(ids[:at+1], ids[at+2:]...)
	}
}

// mergeLong takes n·log n: tool output may be one piece of a megabyte.
func (t *Tokenizer) mergeLong(ids []int) []int {
	// A list linked by index; a node that was joined to its left neighbour has id -1.
	next := make([]int, len(ids))
	prev := make([]int, len(ids))
	for i := range ids {
		next[i], prev[i] = i+1, i-1
	}
	var q candidates
	offer := func(i int) {
		if i < 0 || next[i] >= len(ids) {
			return
		}
		pair := [2]int{ids[i], ids[next[i]]}
		if j, ok := t.joins[pair]; ok {
			heap.Push(&q, candidate{j, i, pair})
		}
	}
	for i := range ids {
		offer(i)
	}
	for len(q) > 0 {
		c := heap.Pop(&q).(candidate)
		i := c.at
		if next[i] >= len(ids) || ids[i] != c.pair[0] || ids[next[i]] != c.pair[1] {
			continue // a neighbour was joined meanwhile
		}
		j := next[i]
		ids[i], ids[j] = c.id, -1
		next[i] = next[j]
		if next[i] < len(ids) {
			prev[next[i]] = i
		}
		offer(prev[i])
		offer(i)
	}
	out := ids[:0]
	for _, id := range ids {
		if id >= 0 {
			out = append(out, id)
		}
	}
	return out
}

// candidate is a join that was possible when it was queued.
type candidate struct {
	join
	at   int
	pair [2]int
}

// candidates is a heap of them, by rank and then by position.
type candidates []candidate

func (q candidates) Len() int      { return len(q) }
func (q candidates) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q candidates) Less(i, j int) bool {
	if q[i].rank != q[j].rank {
		return q[i].rank < q[j].rank
	}
	return q[i].at < q[j].at
}
func (q *candidates) Push(x any) { *q = append(*q, x.(candidate)) }
func (q *candidates) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
