package matrix

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

// BLAS is gonum's implementation with this package's matrix product. Gorgonia's
// own operators use it once it is installed with gorgonia.Use.
type BLAS struct {
	gonum.Implementation
	Workers workers.Pool
}

// Sgemm computes C = α·op(A)·op(B) + β·C for row-major matrices.
func (g BLAS) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	valid := func(t blas.Transpose) bool { return t == blas.NoTrans || t == blas.Trans || t == blas.ConjTrans }
	if alpha != 1 || beta != 0 && beta != 1 || m <= 0 || n <= 0 || k <= 0 || !valid(tA) || !valid(tB) {
		g.Implementation.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	x, y := Of(a, lda), Of(b, ldb)
	if tA != blas.NoTrans {
		x = x.T()
	}
	if tB != blas.NoTrans {
		y = y.T()
	}
	Product(g.Workers, m, n, k, x, y, c, ldc, beta == 1)
}
