package wasm

import (
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/wire"
)

// BenchmarkCall is a call that is answered with what it brought: in an instance that
// was set back, in one from the image, and in one that starts.
func BenchmarkCall(b *testing.B) {
	m := wild(b, Config{})
	if _, err := m.Call(b.Context(), wire.MethodEvaluate, prompt("echo", ""), refuse); err != nil {
		b.Fatal(err)
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}} {
		in := prompt("echo", strings.Repeat("x", size.bytes))
		call := func(b *testing.B, i *instance) {
			if _, err := i.call(b.Context(), wire.MethodEvaluate, in, refuse); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(size.name+"/set back", func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Call(b.Context(), wire.MethodEvaluate, in, refuse); err != nil {
					b.Fatal(err)
				}
			}
		})
		fresh := func(b *testing.B) {
			for b.Loop() {
				i, err := m.instantiate(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				call(b, i)
				i.close()
			}
		}
		b.Run(size.name+"/from the image", fresh)
		b.Run(size.name+"/started", func(b *testing.B) {
			img := m.image.Swap(nil)
			defer m.image.Store(img)
			fresh(b)
		})
		b.Run(size.name+"/never set back", func(b *testing.B) {
			i, err := m.instantiate(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer i.close()
			for b.Loop() {
				call(b, i)
			}
		})
	}
}
