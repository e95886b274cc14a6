package wire_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/valence-rl/valence/sdk/wire"
)

// The episodes of a group share their task, so that several goroutines encode one
// message. The race detector sees whether Marshal writes to it.
func TestMarshalOnlyReads(t *testing.T) {
	m := &wire.EvaluateRequest{
		Task: wire.Task{
			Key:       "k",
			Workspace: wire.Workspace{Files: []wire.File{{Path: "a", Exec: true}}},
			Reference: &wire.Reference{Changes: []wire.Change{{Path: "a", Deleted: true}}},
		},
		Seed: 1 << 63,
	}
	want := wire.Marshal(m)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := wire.Marshal(m); !bytes.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
	group.Wait()
}
