package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// at runs f at every level that the processor has.
func at(t *testing.T, f func(t *testing.T)) {
	for _, l := range []Level{Portable, AVX2, AVX512} {
		before, now := Use(l)
		if now == l {
			t.Run(l.String(), f)
		}
		Use(before)
	}
}

func near(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= tol*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s[%d] = %g, want %g", what, i, got[i], want[i])
		}
	}
}

func TestTileMatchesFloat64(t *testing.T) {
	at(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for m := 1; m <= TileRows; m++ {
			for _, k := range []int{0, 1, 2, 7, 33, 128} {
				for _, trans := range []bool{false, true} {
					ars, aks := k+3, 1
					if trans {
						ars, aks = 1, m+5
					}
					a, b := random(r, m*(k+3)+k*(m+5)+1), random(r, k*40+40)
					for _, fresh := range []bool{false, true} {
						c := random(r, m*35)
						want := make([]float32, len(c))
						copy(want, c)
						for i := range m {
							for j := range TileCols {
								var s float64
								if !fresh {
									s = float64(c[i*35+j])
								}
								for p := range k {
									s += float64(a[i*ars+p*aks]) * float64(b[p*40+j])
								}
								want[i*35+j] = float32(s)
							}
						}
						Tile(m, k, a, ars, aks, b, 40, c, 35, fresh)
						near(t, fmt.Sprintf("m=%d k=%d trans=%v fresh=%v", m, k, trans, fresh), c, want, 1e-5)
					}
				}
			}
		}
	})
}

// A tile's rows do not depend on the other rows, nor on how k is cut.
func TestTileOrder(t *testing.T) {
	at(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		const k = 77
		a, b := random(r, 12*k), random(r, k*32)
		whole := make([]float32, 12*32)
		Tile(12, k, a, k, 1, b, 32, whole, 32, true)
		for i := range 12 {
			if i+StreamRows <= 12 {
				s := make([]float32, StreamRows*32)
				Stream(StreamRows, k, a[i*k:], k, 1, b, 32, s, 32, true, b)
				for j := range s {
					if s[j] != whole[i*32+j] {
						t.Fatalf("rows from %d, element %d: streamed %g, tiled %g", i, j, s[j], whole[i*32+j])
					}
				}
			}
			c := make([]float32, 32)
			Tile(1, 30, a[i*k:], k, 1, b, 32, c, 32, true)
			Tile(1, k-30, a[i*k+30:], k, 1, b[30*32:], 32, c, 32, false)
			for j := range c {
				if c[j] != whole[i*32+j] {
					t.Fatalf("row %d column %d: alone %g, together %g", i, j, c[j], whole[i*32+j])
				}
			}
		}
	})
}

// vectors runs every vector kernel on n elements and returns all outputs.
func vectors(n int) map[string][]float32 {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	x, y, z, w := random(r, n), random(r, n), random(r, n), random(r, n)
	cp := func(a []float32) []float32 { return append([]float32{}, a...) }
	out := map[string][]float32{}
	out["dot"] = []float32{Dot(x, y)}
	out["dot3"] = []float32{Dot3(x, y, z)}
	out["max"] = []float32{Max(x)}
	e := make([]float32, n)
	out["expsum"] = []float32{ExpSum(e, x, 0.3)}
	out["exp"] = e
	s := make([]float32, n)
	Scale(s, x, 1.7)
	out["scale"] = s
	s = cp(y)
	AddScaled(s, x, 1.7)
	out["axpy"] = s
	s = make([]float32, n)
	NormApply(s, x, y, 0.9)
	out["norm"] = s
	dx, dg := cp(z), cp(w)
	NormBack(dx, dg, y, x, w, 0.9, 0.2)
	out["dx"], out["dg"] = dx, dg
	s = cp(x)
	SoftmaxBack(s, y, 0.4)
	out["softmaxback"] = s
	s = make([]float32, n)
	SwiGLU(s, x, y)
	out["swiglu"] = s
	a, b := make([]float32, n), make([]float32, n)
	SwiGLUBack(a, b, z, x, y)
	out["sg"], out["su"] = a, b
	a, b = make([]float32, n), make([]float32, n)
	Rotate(a, b, x, y, z, w)
	out["r1"], out["r2"] = a, b
	p, m, v := cp(x), cp(y), make([]float32, n)
	for i := range v {
		v[i] = z[i] * z[i]
	}
	Adam(p, w, m, v, AdamFactors{0.5, 0.9, 0.1, 0.95, 0.05, 1.3, 1e-8, 1e-2, 0.99})
	out["p"], out["m"], out["v"] = p, m, v
	return out
}

func TestVectorLevelsAgree(t *testing.T) {
	for n := 1; n < 70; n++ {
		before, _ := Use(Portable)
		want := vectors(n)
		_, now := Use(AVX2)
		if now == AVX2 {
			narrow := vectors(n)
			for k, w := range want {
				near(t, fmt.Sprintf("avx2 n=%d %s", n, k), narrow[k], w, 3e-6)
			}
			if _, now = Use(AVX512); now == AVX512 {
				for k, w := range vectors(n) {
					for i := range w {
						if w[i] != narrow[k][i] {
							t.Fatalf("n=%d %s[%d]: avx512 %g, avx2 %g", n, k, i, w[i], narrow[k][i])
						}
					}
				}
			}
		}
		Use(before)
	}
}

// Zeros after a reduction, and −Inf after an exponential, change no bit.
func TestPaddingIsNeutral(t *testing.T) {
	at(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for n := 1; n < 50; n++ {
			x, y := random(r, n), random(r, n)
			px, py := make([]float32, 96), random(r, 96)
			copy(px, x)
			copy(py, y)
			if Dot(x, y) != Dot(px, py) {
				t.Fatalf("n=%d: dot changes with padding", n)
			}
			for i := n; i < 96; i++ {
				px[i] = float32(math.Inf(-1))
			}
			e, pe := make([]float32, n), make([]float32, 96)
			if ExpSum(e, x, 0.1) != ExpSum(pe, px, 0.1) {
				t.Fatalf("n=%d: sum of exponentials changes with padding", n)
			}
			for i := range pe {
				if i < n && pe[i] != e[i] || i >= n && pe[i] != 0 {
					t.Fatalf("n=%d: e^x[%d] = %g", n, i, pe[i])
				}
			}
			if Max(x) != Max(px) {
				t.Fatalf("n=%d: max changes with padding", n)
			}
		}
	})
}

func TestExp(t *testing.T) {
	at(t, func(t *testing.T) {
		var worst float64
		for x := float32(-87); x < 88; x += 0.00371 {
			y := []float32{0}
			ExpSum(y, []float32{x}, 0)
			want := math.Exp(float64(x))
			worst = max(worst, math.Abs(float64(y[0])-want)/want)
		}
		if worst > 3e-7 {
			t.Errorf("relative error %g", worst)
		}
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		y := make([]float32, 4)
		ExpSum(y, []float32{-inf, inf, nan, -200}, 0)
		if y[0] != 0 || y[1] != inf || y[2] == y[2] || y[3] != 0 {
			t.Errorf("e^{-inf, inf, nan, -200} = %v", y)
		}
	})
}

// Kernels write nothing past the end.
func TestNoOverrun(t *testing.T) {
	at(t, func(t *testing.T) {
		for n := range 40 {
			buf := make([]float32, n+16)
			for i := n; i < len(buf); i++ {
				buf[i] = 42
			}
			x := random(rand.New(rand.NewPCG(1, 1)), n)
			ExpSum(buf[:n], x, 0)
			Scale(buf[:n], x, 2)
			SwiGLU(buf[:n], x, x)
			for i := n; i < len(buf); i++ {
				if buf[i] != 42 {
					t.Fatalf("n=%d: element %d overwritten", n, i)
				}
			}
		}
	})
}

func BenchmarkTile(b *testing.B) {
	for _, m := range []int{1, 4, 8, 12} {
		b.Run(fmt.Sprint(m), func(b *testing.B) {
			const k = 128
			r := rand.New(rand.NewPCG(1, 1))
			a, bb, c := random(r, m*k), random(r, k*32), make([]float32, m*32)
			for b.Loop() {
				Tile(m, k, a, k, 1, bb, 32, c, 32, false)
			}
			b.ReportMetric(float64(2*m*k*32)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

func BenchmarkSwiGLU(b *testing.B) {
	x := random(rand.New(rand.NewPCG(1, 1)), 1024)
	y := make([]float32, 1024)
	for b.Loop() {
		SwiGLU(y, x, x)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/element")
}
