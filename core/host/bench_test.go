package host

import (
	"strings"
	"testing"

	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// BenchmarkEvaluate is the cost of one evaluation, its fresh instance included.
func BenchmarkEvaluate(b *testing.B) {
	p := load(b, "minimal", Options{})
	for _, s := range []struct {
		name string
		size int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}} {
		r := &sdk.EvaluateRequest{Output: sdk.Output{Message: strings.Repeat("x", s.size)}}
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Evaluate(b.Context(), nil, r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(s.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := p.Evaluate(b.Context(), nil, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkLoad is a start with warm caches: finding the module, and making it ready.
func BenchmarkLoad(b *testing.B) {
	m := module(b, "minimal")
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := registry.Resolve(b.Context(), "testdata/minimal", registry.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			p, err := Load(b.Context(), m, Options{})
			if err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
}
