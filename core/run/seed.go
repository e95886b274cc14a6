package run

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// seedOf derives a seed from a run's seed and the names of what it is for, so that
// no choice depends on the order in which things happen.
func seedOf(root uint64, names ...any) uint64 {
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, root)
	for _, n := range names {
		fmt.Fprintf(h, "/%v", n)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// episodeSeed is the seed of an episode in training, evaluationSeed that of the
// verdict on any episode.
func episodeSeed(run uint64, dispatch int64, index int) uint64 {
	return seedOf(run, "episode", dispatch, index)
}

func evaluationSeed(episode uint64) uint64 { return seedOf(episode, "evaluate") }
