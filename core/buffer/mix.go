package buffer

import (
	"fmt"
	"math"
	"slices"
)

// mixTotal is the number of units that the weights are divided into. With
// integers the choice is exact on every machine; a count of draws below 2^31
// cannot overflow.
const mixTotal = 1 << 32

// mix chooses skills so that the counts follow the shares at every prefix. It is
// Tijdeman's rule for the chairman assignment problem (Discrete Mathematics 32,
// 1980): with k skills and shares p, after every draw n and for every skill
// |count − n·p| ≤ 1 − 1/(2k−2), which no rule betters.
type mix struct {
	units  []int64 // shares; they sum to mixTotal
	counts []int64 // draws, those taken back excluded
	drawn  int64   // sum of counts
	active int     // skills with a share
}

func newMix(weights []float64) (mix, error) {
	m := mix{units: make([]int64, len(weights)), counts: make([]int64, len(weights))}
	peak := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return m, fmt.Errorf("weight %d is %v, not a finite number ≥ 0", i+1, w)
		}
		peak = max(peak, w)
	}
	if peak == 0 {
		return m, fmt.Errorf("all are 0")
	}
	sum := 0.0
	for _, w := range weights {
		sum += w / peak
	}
	left := int64(mixTotal)
	largest := 0
	for i, w := range weights {
		if w > 0 {
			m.active++
			m.units[i] = max(1, int64(w/peak/sum*mixTotal))
		}
		left -= m.units[i]
		if m.units[i] > m.units[largest] {
			largest = i
		}
	}
	m.units[largest] += left // rounding; at most one unit a skill
	return m, nil
}

// next counts and returns one draw.
func (m *mix) next() int {
	n := m.drawn + 1
	best, deadline := -1, int64(0)
	if m.active == 1 {
		best = slices.Index(m.units, mixTotal)
	} else {
		slack := mixTotal / int64(2*m.active-2)
		for i, u := range m.units {
			if u == 0 || n*u-m.counts[i]*mixTotal < slack {
				continue // it is ahead of its share
			}
			// The draw by which this skill must be chosen, or it falls behind.
			due := (m.counts[i]*mixTotal + mixTotal - slack + u - 1) / u
			if best < 0 || due < deadline {
				best, deadline = i, due
			}
		}
	}
	if best < 0 { // possible only after draws were taken back
		for i, u := range m.units {
			if u > 0 && (best < 0 || n*u-m.counts[i]*mixTotal > n*m.units[best]-m.counts[best]*mixTotal) {
				best = i
			}
		}
	}
	m.counts[best]++
	m.drawn = n
	return best
}

// back takes one draw of a skill back.
func (m *mix) back(i int) {
	m.counts[i]--
	m.drawn--
}
