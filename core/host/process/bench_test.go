package process

import (
	"context"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// BenchmarkStart is a process from its start to its end.
func BenchmarkStart(b *testing.B) {
	program := build(b, "../testdata/wild")
	for b.Loop() {
		p, err := Open(b.Context(), Config{Command: []string{program}})
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// BenchmarkCall is one call that comes back with as much as it brought, or that asks
// the host once.
func BenchmarkCall(b *testing.B) {
	p, err := Open(b.Context(), Config{Command: []string{build(b, "../testdata/wild")}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	answer := wire.Marshal(&sdk.RunResponse{Logs: []sdk.Log{{}}})
	for _, c := range []struct {
		name, prompt string
		size         int
	}{{"1KB", "echo", 1 << 10}, {"100KB", "echo", 100 << 10}, {"service", "run", 0}} {
		in := wire.Marshal(&sdk.EvaluateRequest{Task: sdk.Task{Prompt: c.prompt}, Output: sdk.Output{Message: strings.Repeat("x", c.size)}})
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Call(b.Context(), wire.MethodEvaluate, in, func(context.Context, uint32, []byte) ([]byte, error) { return answer, nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
