package binary

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Segment is data that a module puts into its memory before it starts.
type Segment struct {
	Offset uint32
	Bytes  []byte
}

// State is what [Module.Open] took out of a module or made reachable in it.
type State struct {
	// Data is to be written to memory in this order.
	Data []Segment
	// Start is the export that is to be called then; "" if the module has no start.
	Start string
	// Globals are the exports of all globals that can change.
	Globals []string
}

// Open leaves to the host what instantiation does to memory, and exports all
// mutable globals and the start function, under names that begin with prefix. The
// host can then also put an instance into a state that another one reached.
//
// An instance begins in the state that the module describes only after the host
// wrote Data and called Start.
func (m *Module) Open(prefix string) (*State, error) {
	for _, e := range m.exports {
		if strings.HasPrefix(e.name, prefix) {
			return nil, fmt.Errorf("export %q has a reserved name", e.name)
		}
	}
	s := new(State)
	for i, d := range m.data {
		if d.flags == dataActive {
			s.Data = append(s.Data, Segment{d.offset, d.bytes})
			m.data[i] = segment{}
		}
	}
	// Emptied segments stay where code refers to segments by number. They are not
	// free: Go's linker makes ten thousand.
	if !slices.ContainsFunc(m.bodies, func(b body) bool { return b.data }) {
		m.data, m.dataCount = nil, nil
	}
	if m.start != nil {
		s.Start = prefix + "start"
		m.exports = append(m.exports, export{s.Start, kindFunction, *m.start})
		m.start = nil
	}
	first := m.imported(kindGlobal)
	for i, g := range m.globals {
		if g.mutable {
			name := fmt.Sprint(prefix, i)
			s.Globals = append(s.Globals, name)
			m.exports = append(m.exports, export{name, kindGlobal, first + uint32(i)})
		}
	}
	return s, nil
}

// Freezable tells whether memory and mutable globals are all that can differ
// between two instances of the module. The error says what else could.
func (m *Module) Freezable() error {
	for _, i := range m.imports {
		if i.kind != kindFunction {
			return fmt.Errorf("it imports %s of %s, which others may change", i.name, i.module)
		}
	}
	if len(m.memories) != 1 {
		return fmt.Errorf("it has %d memories", len(m.memories))
	}
	if m.memories[0][0]&2 != 0 {
		return errors.New("it has a shared memory")
	}
	for i, g := range m.globals {
		if g.mutable && g.typ != I32 && g.typ != I64 && g.typ != F32 && g.typ != F64 {
			return fmt.Errorf("its global %d holds no number of 32 or 64 bits", i)
		}
	}
	for i, b := range m.bodies {
		if b.changes != "" {
			return fmt.Errorf("function %d uses %s", i, b.changes)
		}
	}
	return nil
}
