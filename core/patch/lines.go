package patch

// edits marks which lines of a are gone and which of b are new, by the
// linear-space algorithm of Myers, "An O(ND) Difference Algorithm and Its
// Variations" (1986), section 4b. The result is minimal up to effort differences
// in one box; beyond that the box counts as replaced, which is still a correct
// difference and keeps unlike files from taking quadratic time.
func edits(a, b []int) (gone, added []bool) {
	m := &matcher{a: a, b: b, gone: make([]bool, len(a)), added: make([]bool, len(b))}
	m.compare(0, len(a), 0, len(b))
	return m.gone, m.added
}

const effort = 2000

type matcher struct {
	a, b              []int
	gone, added       []bool
	forward, backward []int
}

func (m *matcher) compare(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && m.a[a0] == m.b[b0] {
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && m.a[a1-1] == m.b[b1-1] {
		a1, b1 = a1-1, b1-1
	}
	if a0 < a1 && b0 < b1 {
		x, y, ok := m.middle(a0, a1, b0, b1)
		if ok && (x > a0 || y > b0) && (x < a1 || y < b1) {
			m.compare(a0, x, b0, y)
			m.compare(x, a1, y, b1)
			return
		}
	}
	for i := a0; i < a1; i++ {
		m.gone[i] = true
	}
	for j := b0; j < b1; j++ {
		m.added[j] = true
	}
}

// middle finds a point on a shortest path through the box. Furthest x by
// diagonal k = x-y, from both corners; off marks what lies outside the box.
func (m *matcher) middle(a0, a1, b0, b1 int) (x, y int, ok bool) {
	n, h := a1-a0, b1-b0
	delta := n - h
	limit := min((n+h+1)/2, effort)
	const off = -1 << 40
	size := 2*limit + 3
	if cap(m.forward) < size {
		m.forward, m.backward = make([]int, size), make([]int, size)
	}
	f, r := m.forward[:size], m.backward[:size]
	for i := range size {
		f[i], r[i] = off, off
	}
	mid := limit + 1
	f[mid+1], r[mid+1] = 0, 0
	// reach is the furthest x on diagonal k after d differences.
	reach := func(v []int, k int, same func(x, y int) bool) int {
		x := max(v[mid+k-1]+1, v[mid+k+1])
		y := x - k
		if x < 0 || y < 0 || x > n || y > h {
			return off
		}
		for x < n && x-k < h && same(x, x-k) {
			x++
		}
		return x
	}
	ahead := func(x, y int) bool { return m.a[a0+x] == m.b[b0+y] }
	behind := func(x, y int) bool { return m.a[a1-1-x] == m.b[b1-1-y] }
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := reach(f, k, ahead)
			f[mid+k] = x
			if o := delta - k; delta%2 != 0 && o > -d && o < d && x+r[mid+o] >= n {
				return a0 + x, b0 + x - k, true
			}
		}
		for k := -d; k <= d; k += 2 {
			x := reach(r, k, behind)
			r[mid+k] = x
			if o := delta - k; delta%2 == 0 && o >= -d && o <= d && x+f[mid+o] >= n {
				return a1 - x, b1 - (x - k), true
			}
		}
	}
	return 0, 0, false
}

// number gives equal lines of both texts equal numbers.
func number(a, b []string) (x, y []int) {
	ids := make(map[string]int, len(a))
	of := func(lines []string) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			id, ok := ids[l]
			if !ok {
				id = len(ids)
				ids[l] = id
			}
			out[i] = id
		}
		return out
	}
	return of(a), of(b)
}
