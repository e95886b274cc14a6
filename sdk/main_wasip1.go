package sdk

import (
	"context"
	"errors"
	"runtime"
	"unsafe"
)

// heap is how large the guest's heap is made before its first call, in bytes. The
// host sets an instance back to the end of its start after each call, which it can do
// as long as the call did not make the memory larger. Untouched memory costs nothing.
const heap = 8 << 20

// stack is how much of the stack is made ready for calls, in bytes: a stack that is
// too small is moved while the call waits, which takes longer than a small call.
const stack = 24 << 10

// sink lets allocations be made that nobody needs.
var sink struct {
	bytes    []byte
	pointers []*byte
}

func init() {
	sink.bytes = make([]byte, heap)
	sink.bytes = nil
	runtime.GC()
	// An allocator that has a page for each size serves each call faster than one
	// that has to get them first: one allocation of each makes it so.
	for n := 8; n <= 1024; n += max(8, n/8) {
		sink.bytes, sink.pointers = make([]byte, n), make([]*byte, n/8)
	}
	sink.bytes, sink.pointers = nil, nil
	// Calls are served on the stack of init. A collection would make it small again.
	descend(0)
}

//go:noinline
func descend(n int) byte {
	var frame [stack]byte
	frame[n] = 1
	return frame[stack-1-n]
}

// Main ends an author's main function. In a WASM module it is never run: the
// host calls the exported skill_v1_call.
func Main() {}

// The host's side of the ABI. Pointers and lengths are the guest's; the host
// copies at once and keeps nothing.

//go:wasmimport skill_v1 input
func hostInput(p unsafe.Pointer, n uint32)

//go:wasmimport skill_v1 output
func hostOutput(p unsafe.Pointer, n uint32)

//go:wasmimport skill_v1 host_call
func hostCall(method uint32, p unsafe.Pointer, n uint32) int64

//go:wasmimport skill_v1 host_result
func hostResult(p unsafe.Pointer, n uint32)

// serve answers one call: 0 with the response as output, or 1 with an error's text.
//
//go:wasmexport skill_v1_call
func serve(method, n uint32) (status int32) {
	in := make([]byte, n)
	if n > 0 {
		hostInput(unsafe.Pointer(unsafe.SliceData(in)), n)
	}
	out, err := Call(context.Background(), registered, border(cross), method, in)
	if err != nil {
		out, status = []byte(err.Error()), 1
	}
	if len(out) > 0 {
		hostOutput(unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
	}
	return status
}

// cross makes one call to the host. The result's bit 63 marks an error, whose text
// is the reply; the low 32 bits are the reply's length.
func cross(_ context.Context, method uint32, in []byte) ([]byte, error) {
	r := hostCall(method, unsafe.Pointer(unsafe.SliceData(in)), uint32(len(in)))
	out := make([]byte, uint32(r))
	if len(out) > 0 {
		hostResult(unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
	}
	if r < 0 {
		return nil, errors.New(string(out))
	}
	return out, nil
}
