package wasm

import "github.com/tetratelabs/wazero/experimental"

// linear is the memory of one instance and remembers whether it was asked for
// more than its limit, which tells a guest that starved from one that crashed.
// It is also the allocator that the runtime asks for the module's one memory.
type linear struct {
	limit   uint64    // bytes
	image   *snapshot // what it begins with; nil: zeros
	refused bool
	freed   bool
	mapped  []byte // address space for the limit, or nil where the system gives none
	heap    []byte // in its place
}

// Allocate reserves address space for the limit, so that growing neither copies
// nor moves. A page costs memory only once it is touched.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory {
	l.mapped = reserve(l.limit)
	if l.image == nil {
		return l
	}
	if l.mapped == nil || l.image.over(l.mapped) != nil {
		l.image = nil // the caller looks, and starts the guest anew
		if l.mapped != nil {
			release(l.mapped)
			l.mapped = reserve(l.limit)
		}
	}
	return l
}

// Reallocate gives size bytes, of which those that were given before are kept and
// the others are zero; nil beyond the limit.
func (l *linear) Reallocate(size uint64) []byte {
	switch {
	case size > l.limit:
		l.refused = true
		return nil
	case l.freed:
		return nil
	case l.mapped != nil:
		return l.mapped[:size]
	case size > uint64(cap(l.heap)):
		grown := make([]byte, size, min(l.limit, max(size, 2*uint64(cap(l.heap)))))
		copy(grown, l.heap)
		l.heap = grown
	}
	l.heap = l.heap[:size]
	return l.heap
}

// Free gives the memory back; a second call does nothing. The guest must not run
// any more.
func (l *linear) Free() {
	if l.freed {
		return
	}
	l.freed = true
	if l.mapped != nil {
		release(l.mapped)
	}
	l.mapped, l.heap = nil, nil
}
