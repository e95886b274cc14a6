package pocket

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
)

// dice draws numbers. Its own arithmetic on PCG's output keeps records equal
// across Go versions.
type dice struct{ pcg *rand.PCG }

func newDice(parts ...any) *dice {
	n := hash(parts...)
	return &dice{rand.NewPCG(n, n^0x9e3779b97f4a7c15)}
}

// below gives a number in [0, n).
func (d *dice) below(n int) int {
	hi, _ := bits.Mul64(d.pcg.Uint64(), uint64(n))
	return int(hi)
}

// between gives a number in [lo, hi].
func (d *dice) between(lo, hi int) int { return lo + d.below(hi-lo+1) }

// percent is true p times in a hundred.
func (d *dice) percent(p int) bool { return d.below(100) < p }

func pick[T any](d *dice, from []T) T { return from[d.below(len(from))] }

func shuffle[T any](d *dice, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := d.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// sample gives n different ones of from, in random order.
func sample[T any](d *dice, from []T, n int) []T {
	s := append([]T(nil), from...)
	shuffle(d, s)
	return s[:min(n, len(s))]
}

// hash is stable across runs and versions: splits and seeds hang on it.
func hash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	// FNV's last byte reaches the high bits badly; mix as SplitMix64 does.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
