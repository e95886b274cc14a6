// Package work is what the benchmark's plugins in Go do with an evaluation.
package work

// Tasks of other kinds than the common one.
const (
	// Hold is a task whose evaluation asks the host to judge first.
	Hold = "hold"
	// Compute is one that computes in a loop, as many rounds as its seed says.
	Compute = "compute"
)

// Do gives the number of files back, after computing if the task wants that.
func Do(key string, seed uint64, files int) int {
	if key != Compute {
		return files
	}
	x := uint64(files) | 1
	for range seed {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never, which a compiler does not know
		return 0
	}
	return files
}
