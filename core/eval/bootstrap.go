package eval

import (
	"math"
	"math/bits"
	"slices"
)

// macro is the mean of the means of several strata, with the interval that comes
// from resampling within each. Empty strata are left out.
func macro(strata [][]float64, seed uint64) Estimate {
	strata = slices.DeleteFunc(slices.Clone(strata), func(x []float64) bool { return len(x) == 0 })
	nan := math.NaN()
	e := Estimate{Avg: nan, CI: [2]float64{nan, nan}}
	if len(strata) == 0 {
		return e
	}
	e.Avg = 0
	for _, x := range strata {
		e.Avg += mean(x)
		e.Tasks += len(x)
	}
	e.Avg /= float64(len(strata))

	r := stream(seed)
	means := make([]float64, Draws)
	for d := range means {
		total := 0.0
		for _, x := range strata {
			s, n := 0.0, uint64(len(x))
			for range x {
				i, _ := bits.Mul64(r.next(), n)
				s += x[i]
			}
			total += s / float64(n)
		}
		means[d] = total / float64(len(strata))
	}
	slices.Sort(means)
	tail := (1 - Level) / 2
	e.CI = [2]float64{quantile(means, tail), quantile(means, 1-tail)}
	return e
}

// quantile interpolates linearly between the order statistics of sorted x.
func quantile(x []float64, q float64) float64 {
	at := q * float64(len(x)-1)
	i := int(at)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[i] + float64((x[i+1]-x[i])*(at-float64(i)))
}

// stream is splitmix64 (Steele, Lea and Flood 2014): one addition, two
// multiplications a number, and the same numbers in every version of every
// library.
type stream uint64

func (s *stream) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
