package wasm

import (
	"strings"
	"testing"

	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk/wire"
)

// Requests of the benchmarks, in bytes.
var requests = []struct {
	name  string
	bytes int
}{{"1KB", 1 << 10}, {"100KB", 100 << 10}}

func instant(b *testing.B, m *Module) *instance {
	i, err := m.instantiate(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return i
}

// echoes has the instance answer with what it is given.
func echoes(b *testing.B, i *instance, in []byte) {
	if _, err := i.call(b.Context(), wire.MethodEvaluate, in, refuse); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkInstance makes instances and frees them.
func BenchmarkInstance(b *testing.B) {
	m := wild(b, Config{})
	if _, err := m.Call(b.Context(), wire.MethodDescribe, nil, refuse); err != nil {
		b.Fatal(err)
	}
	make := func(b *testing.B) {
		for b.Loop() {
			instant(b, m).close()
		}
	}
	b.Run("from the image", make)
	b.Run("started", func(b *testing.B) {
		defer m.image.Store(m.image.Swap(nil))
		make(b)
	})
}

// BenchmarkCall is a call in an instance that was set back, with the kernel's list of
// changed pages and without, in one made for it, and in one that forgets nothing.
func BenchmarkCall(b *testing.B) {
	m := wild(b, Config{})
	if _, err := m.Call(b.Context(), wire.MethodDescribe, nil, refuse); err != nil {
		b.Fatal(err)
	}
	for _, r := range requests {
		in := prompt("echo", strings.Repeat("x", r.bytes))
		setBack := func(b *testing.B) {
			i := instant(b, m)
			defer i.close()
			for b.Loop() {
				if echoes(b, i, in); !i.reset() {
					b.Fatal("not set back")
				}
			}
		}
		fresh := func(b *testing.B) {
			for b.Loop() {
				i := instant(b, m)
				echoes(b, i, in)
				i.close()
			}
		}
		b.Run(r.name+"/set back", setBack)
		b.Run(r.name+"/set back without list", func(b *testing.B) {
			s := m.image.Load().memory
			pages := s.pages
			s.pages = nil
			defer func() { s.pages = pages }()
			setBack(b)
		})
		b.Run(r.name+"/from the image", fresh)
		b.Run(r.name+"/started", func(b *testing.B) {
			defer m.image.Store(m.image.Swap(nil))
			fresh(b)
		})
		b.Run(r.name+"/never set back", func(b *testing.B) {
			i := instant(b, m)
			defer i.close()
			for b.Loop() {
				echoes(b, i, in)
			}
		})
	}
}

// BenchmarkInterruption is what it costs that a guest can be stopped: by its own
// count, by the runtime's option, and if it cannot be.
func BenchmarkInterruption(b *testing.B) {
	built, err := registry.Resolve(b.Context(), "../testdata/wild", registry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	again := code(local(1), i32(1), []byte{0x6b, 0x22, 1, 0x0d, 0}) // i32.sub local.tee br_if
	loop := skill(code(i32(10_000_000), []byte{0x21, 1, 0x03, 0x40}, again, []byte{0x0b}, i32(0))).bytes()
	for _, way := range []string{"counted", "by the runtime", "not at all"} {
		open := func(code []byte) *instance {
			p := prepare(code)
			if way != "counted" {
				p = prepared{code: code, metered: way == "not at all"}
			}
			m := &Module{memory: DefaultMemory, pool: newPool(1)}
			b.Cleanup(func() { m.Close() })
			if err := m.compile(b.Context(), p, ""); err != nil {
				b.Fatal(err)
			}
			i := instant(b, m)
			b.Cleanup(i.close)
			return i
		}
		i := open(built.Wasm)
		for _, r := range requests {
			in := prompt("echo", strings.Repeat("x", r.bytes))
			b.Run(way+"/"+r.name, func(b *testing.B) {
				for b.Loop() {
					echoes(b, i, in)
				}
			})
		}
		i = open(loop)
		b.Run(way+"/loop", func(b *testing.B) {
			for b.Loop() {
				echoes(b, i, nil)
			}
		})
	}
}
