package simd

import "math"

// fold adds 16 partial sums as the assembly does.
func fold(l *[16]float32) float32 {
	for _, w := range []int{8, 4, 2, 1} {
		for i := range w {
			l[i] += l[i+w]
		}
	}
	return l[0]
}

func dotPortable(x, y []float32) float32 {
	var l [16]float32
	for i, v := range x {
		l[i&15] += v * y[i]
	}
	return fold(&l)
}

func dot3Portable(x, y, z []float32) float32 {
	var l [16]float32
	for i, v := range x {
		l[i&15] += v * y[i] * z[i]
	}
	return fold(&l)
}

func maxPortable(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func expSumPortable(y, x []float32, shift float32) float32 {
	var l [16]float32
	for i, v := range x {
		e := exp(v - shift)
		y[i] = e
		l[i&15] += e
	}
	return fold(&l)
}

// exp is the assembly's e^x: the polynomial of Cephes' expf.
func exp(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, -88), 89)
	n := float32(math.RoundToEven(float64(x * math.Log2E)))
	x -= n * 0.693359375
	x -= n * -2.12194440e-4
	p := float32(1.9875691500e-4)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		p = p*x + c
	}
	p = p*x*x + 1 + x
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

func adamPortable(p, g, m, v []float32, f AdamFactors) {
	for i, d := range g {
		d *= f.Gradient
		mi := f.Beta1*m[i] + f.OneBeta1*d
		vi := f.Beta2*v[i] + f.OneBeta2*(d*d)
		m[i], v[i] = mi, vi
		p[i] = f.Keep*p[i] - f.Rate*(mi/(float32(math.Sqrt(float64(vi*f.Correction)))+f.Eps))
	}
}
