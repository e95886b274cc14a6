package model

import (
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/matrix"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// KV is one key head's keys and values of one sequence, in pages of [Page]
// positions. Within a page the keys are stored transposed, so that both products of
// attention read panels in place: page i holds keys at Offset and values behind.
type KV struct {
	Pages  [][]float32
	Offset int
}

func (kv KV) keys(s Shape, page int) []float32 {
	return kv.Pages[page][kv.Offset : kv.Offset+Page*s.HeadDim]
}

func (kv KV) values(s Shape, page int) []float32 {
	from := kv.Offset + Page*s.HeadDim
	return kv.Pages[page][from : from+Page*s.valueStride()]
}

// PageLen is the number of float32 in a page with all layers and key heads.
func (s Shape) PageLen() int { return s.Layers * s.KVHeads * s.pageLen() }

// Slot is where a layer's key head begins in such a page.
func (s Shape) Slot(layer, head int) int { return (layer*s.KVHeads + head) * s.pageLen() }

// Put stores the key and the value of a position, whose page exists.
func (kv KV) Put(s Shape, pos int, key, value []float32) {
	k := kv.keys(s, pos/Page)
	at := pos % Page
	for i, v := range key[:s.HeadDim] {
		k[i*Page+at] = v
	}
	copy(kv.values(s, pos/Page)[at*s.valueStride():], value[:s.HeadDim])
}

// Queries are query heads that attend to one key head. Query i lies at i·Stride in
// Data, is at position Pos+i·Step and sees the positions up to its own.
type Queries struct {
	N         int
	Data      []float32
	Stride    int
	Pos, Step int
}

// Attend computes softmax(q·kᵀ)·v for each query into out, at the given stride. The
// probabilities are left in p, one row of stride ldp a query: whole pages, 0 beyond
// the query's position. Each query's result is independent of the others.
func (s Shape) Attend(out []float32, stride int, q Queries, kv KV, p []float32, ldp int) {
	for i := 0; i < q.N; i += simd.TileRows {
		n := min(simd.TileRows, q.N-i)
		t := Queries{n, q.Data[i*q.Stride:], q.Stride, q.Pos + i*q.Step, q.Step}
		pages := (t.Pos+(n-1)*t.Step)/Page + 1
		rows := p[i*ldp:]
		if n <= simd.StreamRows && s.HeadDim == Page {
			stream(out[i*stride:], stride, t, kv, rows, ldp, pages)
			continue
		}
		for j := range pages {
			simd.Tile(n, s.HeadDim, t.Data, t.Stride, 1, kv.keys(s, j), Page, rows[j*Page:], ldp, true)
		}
		t.softmax(rows, ldp, pages)
		for j := range pages {
			s.tiles(n, Page, rows[j*Page:], ldp, 1, kv.values(s, j), out[i*stride:], stride, j == 0)
		}
	}
}

// stream is Attend for a few queries with heads of 32: the time goes into fetching
// keys and values from memory, so that each page is asked for one page ahead.
func stream(out []float32, stride int, q Queries, kv KV, p []float32, ldp, pages int) {
	const size = Page * Page
	at := kv.Offset
	for j := range pages {
		page, next := kv.Pages[j], kv.Pages[0][at+size:]
		if j+1 < pages {
			next = kv.Pages[j+1][at:]
		}
		simd.Stream(q.N, Page, q.Data, q.Stride, 1, page[at:], Page, p[j*Page:], ldp, true, next)
	}
	q.softmax(p, ldp, pages)
	at += size
	for j := range pages {
		page, next := kv.Pages[j], kv.Pages[0][at:]
		if j+1 < pages {
			next = kv.Pages[j+1][at:]
		} else if len(next) >= 2*size { // the next head's keys
			next = next[size:]
		}
		simd.Stream(q.N, Page, p[j*Page:], ldp, 1, page[at:], Page, out, stride, j == 0, next)
	}
}

// softmax turns the queries' scores into probabilities.
func (q Queries) softmax(rows []float32, ld, pages int) {
	for r := range q.N {
		softmax(rows[r*ld:r*ld+pages*Page], q.Pos+r*q.Step+1)
	}
}

// softmax normalises the first n scores and clears the rest.
func softmax(x []float32, n int) {
	v := x[:n]
	sum := simd.ExpSum(v, v, simd.Max(v))
	simd.Scale(v, v, 1/sum)
	clear(x[n:])
}

// Stride is the length of a row of probabilities for n positions: whole pages.
func Stride(n int) int { return (n + Page - 1) / Page * Page }

// Scratch is one worker's memory for AttendBack.
type Scratch struct{ d, keys, valuesT, queries, outs []float32 }

func sized(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}

// AttendBack computes the gradients of the queries, keys and values of one key head
// and its group of query heads over a whole sequence of n positions. x and dx are
// rows of queries, keys and values side by side (after Rotary), do and the
// attention's output rows of width Q; p holds each query head's probabilities,
// n·Stride(n) of them, as Attend left them.
func (s Shape) AttendBack(t *Scratch, dx, do, x []float32, p func(head int) []float32, n, kvHead int) {
	hd, vs, w, q := s.HeadDim, s.valueStride(), s.QKV(), s.Q()
	ld := Stride(n)
	kAt := q + kvHead*hd
	vAt := kAt + s.KV()
	d := sized(&t.d, n*ld)
	pack := func(buf *[]float32, at int, from []float32, stride int) []float32 {
		b := sized(buf, ld*vs)
		for i := range n {
			row := b[i*vs : i*vs+vs]
			clear(row[copy(row, from[i*stride+at:i*stride+at+hd]):])
		}
		clear(b[n*vs:])
		return b
	}
	keys := pack(&t.keys, kAt, x, w)
	valuesT := sized(&t.valuesT, ld*hd)
	for j := 0; j < n; j += Page {
		matrix.PackPanel(valuesT[j*hd:(j+Page)*hd], hd, min(Page, n-j), matrix.Of(x[j*w+vAt:], w).T())
	}
	group := s.Heads / s.KVHeads
	for g := range group {
		head := kvHead*group + g
		qAt := head * hd
		prob := p(head)
		queries := pack(&t.queries, qAt, x, w)
		outs := pack(&t.outs, qAt, do, q)
		for i := 0; i < n; i += simd.TileRows {
			m := min(simd.TileRows, n-i)
			pages := (i+m-1)/Page + 1
			for j := range pages {
				simd.Tile(m, hd, do[i*q+qAt:], q, 1, valuesT[j*Page*hd:], Page, d[i*ld+j*Page:], ld, true)
			}
			for r := i; r < i+m; r++ {
				dr, pr := d[r*ld:r*ld+pages*Page], prob[r*ld:r*ld+pages*Page]
				simd.SoftmaxBack(dr, pr, simd.Dot(pr, dr))
			}
			s.tiles(m, pages*Page, d[i*ld:], ld, 1, keys, dx[i*w+qAt:], w, true)
		}
		for j := 0; j < n; j += simd.TileRows {
			m := min(simd.TileRows, n-j)
			s.tiles(m, n-j, d[j*ld+j:], 1, ld, queries[j*vs:], dx[j*w+kAt:], w, g == 0)
			s.tiles(m, n-j, prob[j*ld+j:], 1, ld, outs[j*vs:], dx[j*w+vAt:], w, g == 0)
		}
	}
}

// tiles multiplies an m×k matrix with k rows of HeadDim columns.
func (s Shape) tiles(m, k int, a []float32, ars, aks int, b, c []float32, ldc int, fresh bool) {
	hd, vs := s.HeadDim, s.valueStride()
	for at := 0; at < hd; at += Page {
		if hd-at >= Page {
			simd.Tile(m, k, a, ars, aks, b[at:], vs, c[at:], ldc, fresh)
			continue
		}
		var narrow [simd.TileRows * Page]float32
		for r := 0; r < m && !fresh; r++ {
			copy(narrow[r*Page:], c[r*ldc+at:r*ldc+hd])
		}
		simd.Tile(m, k, a, ars, aks, b[at:], vs, narrow[:], Page, fresh)
		for r := range m {
			copy(c[r*ldc+at:r*ldc+hd], narrow[r*Page:])
		}
	}
}
