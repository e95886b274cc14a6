package matrix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/workers"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func TestProductMatchesFloat64(t *testing.T) {
	for _, l := range []simd.Level{simd.Portable, simd.AVX2, simd.AVX512} {
		before, now := simd.Use(l)
		if now != l {
			simd.Use(before)
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			m, n, k := rapid.IntRange(1, 70).Draw(t, "m"), rapid.IntRange(1, 130).Draw(t, "n"), rapid.IntRange(0, 400).Draw(t, "k")
			tA, tB, add := rapid.Bool().Draw(t, "tA"), rapid.Bool().Draw(t, "tB"), rapid.Bool().Draw(t, "add")
			size := rapid.IntRange(1, 4).Draw(t, "workers")
			r := rand.New(rand.NewPCG(1, uint64(m*n+k)))
			a, b, c := random(r, m*k), random(r, k*n), random(r, m*n)
			va, vb := Of(a, k), Of(b, n)
			if tA {
				va = Of(a, m).T()
			}
			if tB {
				vb = Of(b, k).T()
			}
			packed := append([]float32{}, c...)
			start := append([]float32{}, c...)
			Product(workers.New(size), m, n, k, va, vb, c, n, add)
			Multiply(workers.New(size), m, va, Pack(nil, k, n, vb), packed, n, add)
			for i := range m {
				for j := range n {
					var want float64
					if add {
						want = float64(start[i*n+j])
					}
					for p := range k {
						want += float64(va.Data[i*va.Row+p*va.Col]) * float64(vb.Data[p*vb.Row+j*vb.Col])
					}
					if math.Abs(float64(c[i*n+j])-want) > 1e-4 {
						t.Fatalf("(%d,%d) = %g, want %g", i, j, c[i*n+j], want)
					}
					if packed[i*n+j] != c[i*n+j] {
						t.Fatalf("(%d,%d): packed in advance %g, on the way %g", i, j, packed[i*n+j], c[i*n+j])
					}
				}
			}
		})
		simd.Use(before)
	}
}

// Bits depend neither on the number of rows nor on the number of workers.
func TestRowsAreIndependent(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	const m, n, k = 301, 96, 260
	a, b := random(r, m*k), random(r, k*n)
	whole := make([]float32, m*n)
	Product(workers.New(1), m, n, k, Of(a, k), Of(b, n), whole, n, false)
	for _, w := range []int{2, 3, 7} {
		c := make([]float32, m*n)
		Product(workers.New(w), m, n, k, Of(a, k), Of(b, n), c, n, false)
		for i := range c {
			if c[i] != whole[i] {
				t.Fatalf("%d workers: element %d differs", w, i)
			}
		}
	}
	p := Pack(nil, k, n, Of(b, n))
	for i := range m {
		row := make([]float32, n)
		Multiply(workers.New(2), 1, Of(a[i*k:], k), p, row, n, false)
		for j := range row {
			if row[j] != whole[i*n+j] {
				t.Fatalf("row %d alone differs in column %d", i, j)
			}
		}
	}
}

func TestSgemmMatchesGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	const m, n, k = 37, 41, 53
	for _, tA := range []blas.Transpose{blas.NoTrans, blas.Trans} {
		for _, tB := range []blas.Transpose{blas.NoTrans, blas.Trans} {
			for _, f := range [][2]float32{{1, 0}, {1, 1}, {0.5, 2}} {
				lda, ldb := k+1, n+2
				if tA == blas.Trans {
					lda = m + 1
				}
				if tB == blas.Trans {
					ldb = k + 2
				}
				a, b, c := random(r, 60*60), random(r, 60*60), random(r, m*n)
				want := append([]float32{}, c...)
				gonum.Implementation{}.Sgemm(tA, tB, m, n, k, f[0], a, lda, b, ldb, f[1], want, n)
				BLAS{Workers: workers.New(2)}.Sgemm(tA, tB, m, n, k, f[0], a, lda, b, ldb, f[1], c, n)
				for i := range c {
					if math.Abs(float64(c[i]-want[i])) > 1e-4 {
						t.Fatalf("%c%c %v: element %d = %g, want %g", tA, tB, f, i, c[i], want[i])
					}
				}
			}
		}
	}
}

func BenchmarkProduct(b *testing.B) {
	for _, s := range [][3]int{{1024, 384, 128}, {1024, 128, 384}, {1024, 768, 128}, {1024, 512, 128}} {
		m, n, k := s[0], s[1], s[2]
		r := rand.New(rand.NewPCG(1, 1))
		a, w, c := random(r, m*k), random(r, k*n), make([]float32, m*n)
		flops := func(b *testing.B) {
			b.ReportMetric(float64(2*m*k*n)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		}
		b.Run(fmt.Sprintf("forward/%dx%dx%d", m, n, k), func(b *testing.B) {
			for b.Loop() {
				Product(workers.New(1), m, n, k, Of(a, k), Of(w, k).T(), c, n, false)
			}
			flops(b)
		})
		b.Run(fmt.Sprintf("weights/%dx%dx%d", n, k, m), func(b *testing.B) {
			dw := make([]float32, n*k)
			for b.Loop() {
				Product(workers.New(1), n, k, m, Of(c, n).T(), Of(a, k), dw, k, true)
			}
			flops(b)
		})
		b.Run(fmt.Sprintf("inputs/%dx%dx%d", m, k, n), func(b *testing.B) {
			for b.Loop() {
				Product(workers.New(1), m, k, n, Of(c, n), Of(w, k), a, k, false)
			}
			flops(b)
		})
	}
}
