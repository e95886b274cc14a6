package binary

import "errors"

// Weights of the count. An instruction weighs one, or what it moves.
const (
	// light is what a function may weigh that is not counted, since what calls it
	// is: the true count is then at most light times as large.
	light = 32
	// bulkShift is how many bytes weigh one when they are moved, as a power of two.
	bulkShift = 3
)

// Meter makes the module count down what it computes in a global of its own, which
// begins with budget, and call the imported function () → i64 of that module and
// name when the count falls below zero. What this gives is the count from then on.
//
// The count is taken where computing without end must come by: at the head of each
// loop and on entry of each function that calls others or is long. There it takes
// off what can be executed before the next one, so that between two calls of the
// function there are no more than budget instructions, but for functions that are
// too light to be counted themselves.
func (m *Module) Meter(module, name string, budget int64) error {
	for _, i := range m.imports {
		if i.kind == kindGlobal {
			return errors.New("imports globals") // which would make the count's index uncertain
		}
	}
	t := &meter{own: m.imported(kindFunction), fuel: uint32(len(m.globals))}
	for i, b := range m.bodies {
		m.bodies[i].code = t.body(b, m.types[m.functions[i]].params)
	}
	m.types = append(m.types, signature{encoded: []byte{0x60, 0, 1, byte(I64)}})
	m.imports = append(m.imports, imported{module, name, kindFunction, appendU32(nil, uint32(len(m.types)-1))})
	for i := range m.globals {
		m.globals[i].init = t.expression(m.globals[i].init)
	}
	m.globals = append(m.globals, global{I64, true, append(appendSigned([]byte{opI64Const}, budget), opEnd)})
	for i, e := range m.exports {
		if e.kind == kindFunction {
			m.exports[i].index = t.moved(e.index)
		}
	}
	if m.start != nil {
		*m.start = t.moved(*m.start)
	}
	for _, e := range m.elements {
		for i, f := range e.functions {
			e.functions[i] = t.moved(f)
		}
		for i, x := range e.expressions {
			e.expressions[i] = t.expression(x)
		}
	}
	return nil
}

// meter rewrites code. The imported function takes the place of the module's first
// own one, which with all behind it moves up by one.
type meter struct {
	own  uint32 // index of the module's first own function
	fuel uint32 // index of the global
}

func (t *meter) moved(function uint32) uint32 {
	if function >= t.own {
		function++
	}
	return function
}

// expression rewrites one that was read before.
func (t *meter) expression(x []byte) []byte {
	var out []byte
	for r := (&reader{b: x}); !r.done(); {
		out, _ = t.copy(out, r)
	}
	return out
}

// copy appends the next instruction to out.
func (t *meter) copy(out []byte, r *reader) ([]byte, instruction) {
	begin := r.at
	i := r.instruction()
	switch i.op {
	case opCall, opReturnCall, opRefFunc:
		return appendU32(append(out, byte(i.op)), t.moved(i.function)), i
	}
	return append(out, r.b[begin:r.at]...), i
}

// body rewrites a function that has so many parameters.
func (t *meter) body(b body, params int) []byte {
	r := &reader{b: b.code}
	groups := r.u32()
	out := make([]byte, 0, len(b.code)+len(b.code)/4)
	if b.moves {
		groups++
	}
	out = append(appendU32(out, groups), b.code[r.at:b.begin]...)
	if b.moves {
		out = append(out, 1, byte(I32))
	}
	length := uint32(params) + b.locals // the local that holds the length of what is moved
	r.at = b.begin
	if b.entry > 0 {
		out = t.count(out, b.entry)
	}
	loops := b.loops
	for !r.done() {
		if i := t.peek(r); i == opMemoryCopy || i == opMemoryFill || i == opMemoryInit {
			out = t.moves(out, length)
		}
		var i instruction
		if out, i = t.copy(out, r); i.op == opLoop {
			out, loops = t.count(out, loops[0]), loops[1:]
		}
	}
	return out
}

func (t *meter) peek(r *reader) uint32 {
	ahead := *r
	return ahead.instruction().op
}

// count appends: fuel -= weight; if fuel < 0 { fuel = refill() }.
func (t *meter) count(out []byte, weight int64) []byte {
	out = appendU32(append(out, opGlobalGet), t.fuel)
	out = append(appendSigned(append(out, opI64Const), weight), opI64Sub)
	return t.check(out)
}

// moves appends: fuel -= length>>bulkShift, and the same, where length is on top
// of the stack and stays there.
func (t *meter) moves(out []byte, length uint32) []byte {
	out = appendU32(append(out, opLocalTee), length)
	out = appendU32(append(out, opGlobalGet), t.fuel)
	out = appendU32(append(out, opLocalGet), length)
	out = append(out, opI64ExtendI32U, opI64Const, bulkShift, opI64ShrU, opI64Sub)
	return t.check(out)
}

func (t *meter) check(out []byte) []byte {
	out = appendU32(append(out, opGlobalSet), t.fuel)
	out = appendU32(append(out, opGlobalGet), t.fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, 0x40)
	out = appendU32(append(out, opCall), t.own)
	out = appendU32(append(out, opGlobalSet), t.fuel)
	return append(out, opEnd)
}
