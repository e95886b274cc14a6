package simd

// Dot is Σ x·y.
func Dot(x, y []float32) float32 {
	n := len(x)
	if n == 0 {
		return 0
	}
	y = y[:n]
	switch level {
	case AVX512:
		return dotAVX512(&x[0], &y[0], n)
	case AVX2:
		return dotAVX2(&x[0], &y[0], n)
	}
	return dotPortable(x, y)
}

// Dot3 is Σ x·y·z.
func Dot3(x, y, z []float32) float32 {
	n := len(x)
	if n == 0 {
		return 0
	}
	y, z = y[:n], z[:n]
	switch level {
	case AVX512:
		return dot3AVX512(&x[0], &y[0], &z[0], n)
	case AVX2:
		return dot3AVX2(&x[0], &y[0], &z[0], n)
	}
	return dot3Portable(x, y, z)
}

// Max is the largest element of x, −Inf for none. NaN may be overlooked.
func Max(x []float32) float32 {
	n := len(x)
	switch {
	case n == 0:
	case level == AVX512:
		return maxOfAVX512(&x[0], n)
	case level == AVX2:
		return maxOfAVX2(&x[0], n)
	}
	return maxPortable(x)
}

// ExpSum sets y = e^(x−shift) and returns its sum. y may be x.
func ExpSum(y, x []float32, shift float32) float32 {
	n := len(x)
	if n == 0 {
		return 0
	}
	y = y[:n]
	switch level {
	case AVX512:
		return expSumAVX512(&y[0], &x[0], shift, n)
	case AVX2:
		return expSumAVX2(&y[0], &x[0], shift, n)
	}
	return expSumPortable(y, x, shift)
}

// Scale sets y = f·x. y may be x.
func Scale(y, x []float32, f float32) {
	n := len(x)
	if n == 0 {
		return
	}
	y = y[:n]
	switch level {
	case AVX512:
		scaleAVX512(&y[0], &x[0], f, n)
	case AVX2:
		scaleAVX2(&y[0], &x[0], f, n)
	default:
		for i, v := range x {
			y[i] = f * v
		}
	}
}

// AddScaled sets y += f·x.
func AddScaled(y, x []float32, f float32) {
	n := len(x)
	if n == 0 {
		return
	}
	y = y[:n]
	switch level {
	case AVX512:
		axpyAVX512(&y[0], &x[0], f, n)
	case AVX2:
		axpyAVX2(&y[0], &x[0], f, n)
	default:
		for i, v := range x {
			y[i] += f * v
		}
	}
}

// NormApply sets y = x·r·g, the second half of an RMSNorm.
func NormApply(y, x, g []float32, r float32) {
	n := len(x)
	if n == 0 {
		return
	}
	y, g = y[:n], g[:n]
	switch level {
	case AVX512:
		normApplyAVX512(&y[0], &x[0], &g[0], r, n)
	case AVX2:
		normApplyAVX2(&y[0], &x[0], &g[0], r, n)
	default:
		for i, v := range x {
			y[i] = v * r * g[i]
		}
	}
}

// NormBack adds an RMSNorm's gradients: dg += dy·r·x and dx += dy·r·g − f·x.
func NormBack(dx, dg, dy, x, g []float32, r, f float32) {
	n := len(x)
	if n == 0 {
		return
	}
	dx, dg, dy, g = dx[:n], dg[:n], dy[:n], g[:n]
	switch level {
	case AVX512:
		normBackAVX512(&dx[0], &dg[0], &dy[0], &x[0], &g[0], r, f, n)
	case AVX2:
		normBackAVX2(&dx[0], &dg[0], &dy[0], &x[0], &g[0], r, f, n)
	default:
		for i, v := range x {
			d := dy[i] * r
			dg[i] += d * v
			dx[i] += d*g[i] - v*f
		}
	}
}

// SoftmaxBack sets d = p·(d−s), the gradient of softmax where s = Σ p·d.
func SoftmaxBack(d, p []float32, s float32) {
	n := len(p)
	if n == 0 {
		return
	}
	d = d[:n]
	switch level {
	case AVX512:
		softmaxBackAVX512(&d[0], &p[0], s, n)
	case AVX2:
		softmaxBackAVX2(&d[0], &p[0], s, n)
	default:
		for i, v := range p {
			d[i] = v * (d[i] - s)
		}
	}
}

// SwiGLU sets h = g·σ(g)·u.
func SwiGLU(h, g, u []float32) {
	n := len(h)
	if n == 0 {
		return
	}
	g, u = g[:n], u[:n]
	switch level {
	case AVX512:
		swigluAVX512(&h[0], &g[0], &u[0], n)
	case AVX2:
		swigluAVX2(&h[0], &g[0], &u[0], n)
	default:
		for i, v := range g {
			h[i] = v * sigmoid(v) * u[i]
		}
	}
}

// SwiGLUBack sets the gradients of [SwiGLU]'s g and u from dh.
func SwiGLUBack(dg, du, dh, g, u []float32) {
	n := len(dh)
	if n == 0 {
		return
	}
	dg, du, g, u = dg[:n], du[:n], g[:n], u[:n]
	switch level {
	case AVX512:
		swigluBackAVX512(&dg[0], &du[0], &dh[0], &g[0], &u[0], n)
	case AVX2:
		swigluBackAVX2(&dg[0], &du[0], &dh[0], &g[0], &u[0], n)
	default:
		for i, v := range g {
			s := sigmoid(v)
			d, w := dh[i], u[i]
			du[i] = d * v * s
			dg[i] = d * w * (s + v*s*(1-s))
		}
	}
}

// Rotate turns each pair (x1,x2) by the angle of cosine c and sine s. The halves y
// may be the halves x. With y1 and y2, and x1 and x2, exchanged it turns back.
func Rotate(y1, y2, x1, x2, c, s []float32) {
	n := len(c)
	if n == 0 {
		return
	}
	y1, y2, x1, x2, s = y1[:n], y2[:n], x1[:n], x2[:n], s[:n]
	switch level {
	case AVX512:
		rotateAVX512(&y1[0], &y2[0], &x1[0], &x2[0], &c[0], &s[0], n)
	case AVX2:
		rotateAVX2(&y1[0], &y2[0], &x1[0], &x2[0], &c[0], &s[0], n)
	default:
		for i := range c {
			a, b := x1[i], x2[i]
			y1[i], y2[i] = a*c[i]-b*s[i], b*c[i]+a*s[i]
		}
	}
}

// AdamFactors are the factors of one optimizer step.
type AdamFactors struct {
	Gradient   float32 // scales the gradient first
	Beta1      float32
	OneBeta1   float32 // 1−Beta1
	Beta2      float32
	OneBeta2   float32 // 1−Beta2
	Correction float32 // 1/(1−Beta2^t)
	Eps        float32
	Rate       float32 // learning rate/(1−Beta1^t)
	Keep       float32 // 1 − learning rate·decay
}

// Adam updates weights p and moments m and v from the gradient g:
// m = β₁m+(1−β₁)g, v = β₂v+(1−β₂)g², p = Keep·p − Rate·m/(√(v·Correction)+Eps).
func Adam(p, g, m, v []float32, f AdamFactors) {
	n := len(p)
	if n == 0 {
		return
	}
	g, m, v = g[:n], m[:n], v[:n]
	k := [9]float32{f.Gradient, f.Beta1, f.OneBeta1, f.Beta2, f.OneBeta2, f.Correction, f.Eps, f.Rate, f.Keep}
	switch level {
	case AVX512:
		adamAVX512(&p[0], &g[0], &m[0], &v[0], &k[0], n)
	case AVX2:
		adamAVX2(&p[0], &g[0], &m[0], &v[0], &k[0], n)
	default:
		adamPortable(p, g, m, v, f)
	}
}
