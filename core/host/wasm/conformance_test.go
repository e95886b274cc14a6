package wasm_test

import (
	"context"
	"testing"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/core/host/transporttest"
	"github.com/valence-rl/valence/core/host/wasm"
	"github.com/valence-rl/valence/registry"
)

func TestConformance(t *testing.T) {
	m, err := registry.Resolve(t.Context(), "../testdata/wild", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transporttest.Run(t, transporttest.Subject{
		Nature: transporttest.Module,
		Open: func(ctx context.Context, memory int64) (transport.Transport, error) {
			return wasm.Open(ctx, m.Wasm, wasm.Config{Memory: memory, Cache: wasm.Compiled})
		},
		Foreign: func(ctx context.Context) error {
			_, err := wasm.Open(ctx, later, wasm.Config{})
			return err
		},
	})
}

// later is a module with skill_v1_call that imports input of skill_v2.
var later = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x0c\x02\x60\x02\x7f\x7f\x00\x60\x02\x7f\x7f\x01\x7f" + // (i32, i32), (i32, i32) → i32
	"\x02\x12\x01\x08skill_v2\x05input\x00\x00" +
	"\x03\x02\x01\x01" +
	"\x05\x03\x01\x00\x01" +
	"\x07\x1a\x02\x0dskill_v1_call\x00\x01\x06memory\x02\x00" +
	"\x0a\x06\x01\x04\x00\x41\x00\x0b") // return 0
