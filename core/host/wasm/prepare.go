package wasm

import (
	"fmt"

	"github.com/valence-rl/valence/core/host/wasm/internal/binary"
)

// prepared is a module as it is compiled.
type prepared struct {
	code  []byte
	state *binary.State // what the host must do to start it; nil if it starts by itself
	// metered tells that the module counts what it computes and calls refill; one
	// that does not needs the runtime's own, dearer way to be stopped.
	metered bool
	// obstacle is why no image can be made of it; nil if one can.
	obstacle error
}

// reserved begins the names of exports that the host adds.
const reserved = "valence:"

// prepare rewrites a module. One that it does not understand stays as it is.
func prepare(code []byte) prepared {
	m, err := binary.Parse(code)
	if err == nil {
		obstacle := m.Freezable()
		if err = m.Meter(meterModule, meterFunction, budget); err == nil {
			var s *binary.State
			if s, err = m.Open(reserved); err == nil {
				return prepared{m.Bytes(), s, true, obstacle}
			}
		}
	}
	return prepared{code: code, obstacle: fmt.Errorf("the module is not understood: %w", err)}
}
