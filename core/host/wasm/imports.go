package wasm

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk/wire"
)

// violation is a breach of skill_v1 by the guest; raised as a panic, it ends the call.
type violation string

func (v violation) Error() string { return string(v) }

// linkSkill defines the imports of skill_v1 in r.
func linkSkill(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wire.Module)
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	define := func(name string, f func(ctx context.Context, i *instance, m api.Memory, s []uint64), params, results []api.ValueType) {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, s []uint64) {
			i, _ := ctx.Value(instanceKey{}).(*instance)
			if i == nil || i.serve == nil {
				panic(violation(name + " outside of a call"))
			}
			f(ctx, i, m.Memory(), s)
		}), params, results).Export(name)
	}
	define("input", func(_ context.Context, i *instance, m api.Memory, s []uint64) {
		i.give("input", m, s[0], s[1], i.in)
	}, []api.ValueType{i32, i32}, nil)
	define("output", func(_ context.Context, i *instance, m api.Memory, s []uint64) {
		i.out = i.get("output", m, s[0], s[1])
	}, []api.ValueType{i32, i32}, nil)
	define("host_call", func(ctx context.Context, i *instance, m api.Memory, s []uint64) {
		s[0] = i.ask(ctx, uint32(s[0]), i.get("host_call", m, s[1], s[2]))
	}, []api.ValueType{i32, i32, i32}, []api.ValueType{i64})
	define("host_result", func(_ context.Context, i *instance, m api.Memory, s []uint64) {
		i.give("host_result", m, s[0], s[1], i.result)
		i.result = nil
	}, []api.ValueType{i32, i32}, nil)
	_, err := b.Instantiate(ctx)
	return err
}

// get copies n bytes at p out of the guest.
func (i *instance) get(name string, m api.Memory, p, n uint64) []byte {
	if uint32(n) > transport.MaxMessage {
		panic(violation(fmt.Sprintf("%s: message of %d bytes, %d is the most", name, uint32(n), transport.MaxMessage)))
	}
	b, ok := m.Read(uint32(p), uint32(n))
	if !ok {
		panic(violation(fmt.Sprintf("%s: %d bytes at %d are not in memory", name, uint32(n), uint32(p))))
	}
	return append([]byte(nil), b...)
}

// give copies b to p in the guest, whose n must be b's length.
func (i *instance) give(name string, m api.Memory, p, n uint64, b []byte) {
	if int(uint32(n)) != len(b) {
		panic(violation(fmt.Sprintf("%s: asks for %d bytes of %d", name, uint32(n), len(b))))
	}
	if !m.Write(uint32(p), b) {
		panic(violation(fmt.Sprintf("%s: %d bytes at %d are not in memory", name, uint32(n), uint32(p))))
	}
}

// ask serves one host_call and keeps the reply for host_result.
func (i *instance) ask(ctx context.Context, method uint32, in []byte) uint64 {
	i.inside = true
	out, err := i.serve.Guarded(ctx, method, in)
	i.inside = ctx.Err() != nil // the deadline struck while the host was busy
	if i.lastly = err != nil; i.lastly {
		i.failed = err
	}
	if i.inside {
		panic(interrupted{context.Cause(ctx)})
	}
	if err == nil {
		i.result = out
		return uint64(len(out))
	}
	text := err.Error()
	i.result = []byte(text[:min(len(text), 64<<10)])
	return 1<<63 | uint64(len(i.result))
}
