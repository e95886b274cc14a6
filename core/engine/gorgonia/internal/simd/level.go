// Package simd holds the float32 loops in which the engine spends its time, in
// assembly for AVX-512 and AVX2 and in plain Go elsewhere.
//
// Order is part of the contract: a tile's element is one chain of multiply-adds in
// ascending k, and a reduction keeps 16 partial sums, one per index modulo 16,
// folded as a tree. So a result never depends on how many rows or columns are
// computed together, and zeros appended to a reduction change nothing. AVX-512 and
// AVX2 give the same bits; plain Go rounds the product of a multiply-add where the
// compiler does not fuse it, so its last bits may differ.
package simd

//go:generate go run ./gen

// Level is the instruction set in use.
type Level int

// The levels, each a superset of the one before.
const (
	Portable Level = iota // plain Go
	AVX2                  // with FMA
	AVX512                // AVX512F
)

func (l Level) String() string { return [...]string{"portable", "avx2", "avx512"}[l] }

// level is the best that the processor has; only tests and benchmarks lower it.
var level = detected

var detected = detect()

// Use lowers the level to l, or to what the processor has, and returns the level
// before and the one now in use. Not to be called while anything computes.
func Use(l Level) (before, now Level) {
	before = level
	level = min(l, detected)
	return before, level
}

// Current is the level in use.
func Current() Level { return level }
