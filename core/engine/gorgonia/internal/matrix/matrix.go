// Package matrix multiplies float32 matrices on the tiles of package simd. Element
// (i,j) of a product is one chain of multiply-adds over ascending k: it depends on
// row i of A and column j of B alone, never on the sizes m and n, the blocking or
// the number of workers.
package matrix

import (
	"sync"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

const (
	cols   = simd.TileCols
	depth  = 192 // k in one pass: a panel's share stays in the first-level cache
	height = 192 // rows in one pass: A's share stays in the second-level cache
)

// View is a strided matrix: element (i,j) is Data[i·Row+j·Col].
type View struct {
	Data     []float32
	Row, Col int
}

// T is the transpose; it copies nothing.
func (v View) T() View { return View{v.Data, v.Col, v.Row} }

// Of views row-major data with the given row length.
func Of(data []float32, stride int) View { return View{data, stride, 1} }

func (v View) from(i, j int) View { return View{v.Data[i*v.Row+j*v.Col:], v.Row, v.Col} }

// Packed is a right-hand matrix cut into panels of 32 columns, each stored row by
// row and filled with zeros on the right.
type Packed struct {
	K, N int
	data []float32
}

// PackedLen is the number of float32 that panels for a k×n matrix take.
func PackedLen(k, n int) int { return k * ((n + cols - 1) / cols) * cols }

// Pack copies the k×n matrix b into buf, which it grows if need be.
func Pack(buf []float32, k, n int, b View) Packed {
	if k == 0 {
		return Packed{0, n, buf[:0]}
	}
	size := PackedLen(k, n)
	if cap(buf) < size {
		buf = make([]float32, size)
	}
	p := Packed{k, n, buf[:size]}
	for j := 0; j < n; j += cols {
		PackPanel(p.data[j*k:(j+cols)*k], k, min(cols, n-j), b.from(0, j))
	}
	return p
}

// Buffer is the memory behind p, to be handed to the next Pack.
func (p Packed) Buffer() []float32 { return p.data }

// PackPanel copies a k×n matrix, n ≤ 32, into one panel.
func PackPanel(dst []float32, k, n int, b View) {
	if k == 0 {
		return
	}
	dst = dst[:k*cols]
	if b.Col == 1 {
		for i := range k {
			row := dst[i*cols : i*cols+cols]
			clear(row[copy(row, b.Data[i*b.Row:i*b.Row+n]):])
		}
		return
	}
	if n < cols {
		clear(dst)
	}
	if b.Row == 1 {
		for j := range n {
			at := j
			for _, v := range b.Data[j*b.Col : j*b.Col+k] {
				dst[at] = v
				at += cols
			}
		}
		return
	}
	for i := range k {
		for j := range n {
			dst[i*cols+j] = b.Data[i*b.Row+j*b.Col]
		}
	}
}

// Multiply computes C (m×b.N, row stride ldc) = A·b, or += when add.
func Multiply(p workers.Pool, m int, a View, b Packed, c []float32, ldc int, add bool) {
	if m == 0 || b.N == 0 {
		return
	}
	if b.K == 0 {
		empty(m, b.N, c, ldc, add)
		return
	}
	panels := (b.N + cols - 1) / cols
	rows, across := split(p, m, panels, b.K)
	if rows*across == 1 {
		multiply(m, 0, panels, a, b, c, ldc, add)
		return
	}
	p.Run(rows*across, func(_, task int) {
		i, j := task/across, task%across
		i0, i1 := part(m, rows, i, simd.TileRows)
		if i0 < i1 {
			multiply(i1-i0, j*panels/across, (j+1)*panels/across, a.from(i0, 0), b, c[i0*ldc:], ldc, add)
		}
	})
}

// split says into how many parts to cut rows and panels; 1×1 for a small product.
func split(p workers.Pool, m, panels, k int) (rows, across int) {
	n := p.Size()
	switch {
	case n == 1 || m*panels*cols*k < 1<<18:
		return 1, 1
	case m >= 2*n*simd.TileRows:
		return n, 1
	}
	return 1, min(n, panels)
}

// part is the i-th of n parts of m rows, cut at multiples of unit.
func part(m, n, i, unit int) (from, to int) {
	u := (m + unit - 1) / unit
	return min(m, i*u/n*unit), min(m, (i+1)*u/n*unit)
}

// empty is a product over no k.
func empty(m, n int, c []float32, ldc int, add bool) {
	for i := 0; i < m && !add; i++ {
		clear(c[i*ldc : i*ldc+n])
	}
}

func multiply(m, j0, j1 int, a View, b Packed, c []float32, ldc int, add bool) {
	for k0 := 0; k0 < b.K; k0 += depth {
		kb := min(depth, b.K-k0)
		block(m, kb, j0, j1, a.from(0, k0), b.data[k0*cols:], b.K*cols, b.N, c, ldc, !add && k0 == 0)
	}
}

// block runs one pass over k: panels j0 to j1, each starting panelStride after the
// one before, n columns in all.
func block(m, k, j0, j1 int, a View, panels []float32, panelStride, n int, c []float32, ldc int, fresh bool) {
	for i0 := 0; i0 < m; i0 += height {
		mb := min(height, m-i0)
		tiles := (mb + simd.TileRows - 1) / simd.TileRows
		for j := j0; j < j1; j++ {
			panel := panels[j*panelStride:]
			w := min(cols, n-j*cols)
			for t := range tiles {
				r0, r1 := i0+t*mb/tiles, i0+(t+1)*mb/tiles
				at := c[r0*ldc+j*cols:]
				if w == cols {
					simd.Tile(r1-r0, k, a.Data[r0*a.Row:], a.Row, a.Col, panel, cols, at, ldc, fresh)
				} else {
					narrow(r1-r0, k, w, a.from(r0, 0), panel, at, ldc, fresh)
				}
			}
		}
	}
}

// narrow is a tile of fewer than 32 columns.
func narrow(m, k, w int, a View, panel, c []float32, ldc int, fresh bool) {
	var t [simd.TileRows * cols]float32
	if !fresh {
		for i := range m {
			copy(t[i*cols:], c[i*ldc:i*ldc+w])
		}
	}
	simd.Tile(m, k, a.Data, a.Row, a.Col, panel, cols, t[:], cols, fresh)
	for i := range m {
		copy(c[i*ldc:i*ldc+w], t[i*cols:i*cols+w])
	}
}

var buffers = sync.Pool{New: func() any { return new([]float32) }}

// Product computes C (m×n, row stride ldc) = A·B with A m×k and B k×n, or += when
// add. It packs B pass by pass; use [Pack] and [Multiply] for a B that stays.
func Product(p workers.Pool, m, n, k int, a, b View, c []float32, ldc int, add bool) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		empty(m, n, c, ldc, add)
		return
	}
	panels := (n + cols - 1) / cols
	rows, across := split(p, m, panels, k)
	if rows == 1 && across > 1 && panels%across != 0 && m >= 2*simd.TileRows {
		rows, across = across, 1 // even shares matter more than packing twice
	}
	p.Run(rows*across, func(_, task int) {
		i0, i1 := part(m, rows, task/across, simd.TileRows)
		j := task % across
		j0, j1 := j*panels/across, (j+1)*panels/across
		if i0 == i1 || j0 == j1 {
			return
		}
		buf := buffers.Get().(*[]float32)
		w := min(n, j1*cols) - j0*cols
		for k0 := 0; k0 < k; k0 += depth {
			kb := min(depth, k-k0)
			packed := Pack(*buf, kb, w, b.from(k0, j0*cols))
			*buf = packed.data
			block(i1-i0, kb, 0, j1-j0, a.from(i0, k0), packed.data, kb*cols, w, c[i0*ldc+j0*cols:], ldc, !add && k0 == 0)
		}
		buffers.Put(buf)
	})
}
