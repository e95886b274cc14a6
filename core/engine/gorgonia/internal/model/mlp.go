package model

import "github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"

// SwiGLU sets each row of h (width n) from a row of x: gate and up side by side.
func SwiGLU(h, x []float32, rows, n int) {
	for i := range rows {
		r := x[i*2*n : (i+1)*2*n]
		simd.SwiGLU(h[i*n:i*n+n], r[:n], r[n:])
	}
}

// SwiGLUBack sets dx from dh.
func SwiGLUBack(dx, dh, x []float32, rows, n int) {
	for i := range rows {
		r, d := x[i*2*n:(i+1)*2*n], dx[i*2*n:(i+1)*2*n]
		simd.SwiGLUBack(d[:n], d[n:], dh[i*n:i*n+n], r[:n], r[n:])
	}
}
