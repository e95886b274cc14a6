package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/valence-rl/valence/sdk/wire"
)

// request is an evaluation of about size bytes.
func request(size int) *wire.EvaluateRequest {
	r := &wire.EvaluateRequest{
		Task: wire.Task{
			Key: "k/r", Skill: "k", Record: "r", Prompt: "The total is wrong.\n", Collect: []string{"**/*.py"},
			Hidden: []byte("0123456789abcdef"), Meta: []wire.Pair{{Key: "family", Value: "shop"}},
		},
		Output:  wire.Output{Changes: []wire.Change{{Path: "shop.py", Data: bytes.Repeat([]byte("x = 1\n"), 30)}}, Message: "Done.", End: "submitted"},
		Timeout: 60_000,
	}
	for n := 0; n < size; n += 1000 {
		r.Task.Workspace.Files = append(r.Task.Workspace.Files, wire.File{Path: fmt.Sprintf("part%d.py", n), Data: bytes.Repeat([]byte("y = 2\n"), min(size, 1000)/6)})
	}
	return r
}

func BenchmarkTake(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			text := wire.Marshal(request(size))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := wire.Take(text, new(wire.EvaluateRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			r := request(size)
			b.SetBytes(int64(len(wire.Marshal(r))))
			for b.Loop() {
				wire.Marshal(r)
			}
		})
	}
}
