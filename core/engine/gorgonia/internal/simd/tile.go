package simd

// The shape of the largest tile.
const (
	TileRows = 12
	TileCols = 32
)

// Tile computes C[m×32] += A[m×k]·B[k×32], or = when fresh, for m ≤ TileRows.
// Element (i,p) of A is a[i·ars+p·aks], row p of B starts at b[p·bks], row i of C
// at c[i·ldc].
func Tile(m, k int, a []float32, ars, aks int, b []float32, bks int, c []float32, ldc int, fresh bool) {
	if m == 0 {
		return
	}
	last := c[:(m-1)*ldc+TileCols] // panics where the assembly would write outside
	if k == 0 {
		if fresh {
			for i := range m {
				clear(last[i*ldc : i*ldc+TileCols])
			}
		}
		return
	}
	_, _ = a[(m-1)*ars+(k-1)*aks], b[(k-1)*bks+TileCols-1]
	switch level {
	case AVX512:
		tileAVX512(m, k, &a[0], 4*ars, 4*aks, &b[0], 4*bks, &c[0], 4*ldc, fresh)
	case AVX2:
		for i := 0; i < m; i += 6 {
			h := min(6, m-i)
			tileAVX2(h, k, &a[i*ars], 4*ars, 4*aks, &b[0], 4*bks, &c[i*ldc], 4*ldc, fresh)
			tileAVX2(h, k, &a[i*ars], 4*ars, 4*aks, &b[16], 4*bks, &c[i*ldc+16], 4*ldc, fresh)
		}
	default:
		tilePortable(m, k, a, ars, aks, b, bks, c, ldc, fresh)
	}
}

// StreamRows is the most rows of a [Stream].
const StreamRows = 4

// Stream is [Tile] for m ≤ StreamRows with a B that comes from memory: meanwhile it
// asks for next, k rows laid out as b's, which is read soon after.
func Stream(m, k int, a []float32, ars, aks int, b []float32, bks int, c []float32, ldc int, fresh bool, next []float32) {
	if m == 0 || k == 0 || level == Portable {
		Tile(m, k, a, ars, aks, b, bks, c, ldc, fresh)
		return
	}
	_ = c[:(m-1)*ldc+TileCols] // panics where the assembly would write outside
	_, _, _ = a[(m-1)*ars+(k-1)*aks], b[(k-1)*bks+TileCols-1], next[(k-1)*bks+TileCols-1]
	if level == AVX512 {
		streamAVX512(m, k, &a[0], 4*ars, 4*aks, &b[0], 4*bks, &c[0], 4*ldc, fresh, &next[0])
		return
	}
	streamAVX2(m, k, &a[0], 4*ars, 4*aks, &b[0], 4*bks, &c[0], 4*ldc, fresh, &next[0])
	streamAVX2(m, k, &a[0], 4*ars, 4*aks, &b[16], 4*bks, &c[16], 4*ldc, fresh, &next[16])
}

func tilePortable(m, k int, a []float32, ars, aks int, b []float32, bks int, c []float32, ldc int, fresh bool) {
	for i := range m {
		row := c[i*ldc : i*ldc+TileCols]
		if fresh {
			clear(row)
		}
		for p := range k {
			f := a[i*ars+p*aks]
			for j, y := range b[p*bks : p*bks+TileCols] {
				row[j] += f * y
			}
		}
	}
}
