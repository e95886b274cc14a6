package model

import (
	"math"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// rstd is 1/√(mean(x²)+eps), RMSNorm's factor.
func rstd(x []float32, eps float64) float32 {
	return float32(1 / math.Sqrt(float64(simd.Dot(x, x))/float64(len(x))+eps))
}

// Norm sets each row of y to RMSNorm(x)·gain; the row length is gain's. It keeps
// the rows' factors in r unless r is nil.
func Norm(y, r, x, gain []float32, rows int, eps float64) {
	d := len(gain)
	for i := range rows {
		f := rstd(x[i*d:i*d+d], eps)
		if r != nil {
			r[i] = f
		}
		simd.NormApply(y[i*d:i*d+d], x[i*d:i*d+d], gain, f)
	}
}

// NormBack adds Norm's gradients to dx and dgain.
func NormBack(dx, dgain, dy, x, gain, r []float32, rows int) {
	d := len(gain)
	for i := range rows {
		normBackRow(dx[i*d:i*d+d], dgain, dy[i*d:i*d+d], x[i*d:i*d+d], gain, r[i])
	}
}

func normBackRow(dx, dgain, dy, x, gain []float32, r float32) {
	f := simd.Dot3(dy, gain, x) * r * r * r / float32(len(x))
	simd.NormBack(dx, dgain, dy, x, gain, r, f)
}
