package binary

import (
	"errors"
	"fmt"
	"slices"
)

// ValueType is the type of a value, as a module writes it.
type ValueType byte

// The types of values.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	funcRef   ValueType = 0x70
	externRef ValueType = 0x6f
)

// Kinds of imports and exports.
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
)

// Sections, by number.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// order is the order of the sections in a module; custom sections may be anywhere.
var order = []byte{sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory, sectionGlobal,
	sectionExport, sectionStart, sectionElement, sectionDataCount, sectionCode, sectionData}

const header = "\x00asm\x01\x00\x00\x00"

// Module is a module taken apart. What the host never changes is kept as it was;
// custom sections, such as names and debug information, are left out.
type Module struct {
	types     []signature
	imports   []imported
	functions []uint32 // types of the module's own functions
	bodies    []body
	tables    [][]byte
	memories  [][]byte
	globals   []global
	exports   []export
	start     *uint32
	elements  []element
	dataCount []byte // the section
	data      []segment
}

type signature struct {
	params  int
	encoded []byte
}

type imported struct {
	module, name string
	kind         byte
	encoded      []byte // what follows kind
}

type global struct {
	typ     ValueType
	mutable bool
	init    []byte // an expression
}

type export struct {
	name  string
	kind  byte
	index uint32
}

// element is a segment of function references. Either functions or expressions is
// used, as flags says.
type element struct {
	flags       uint32
	table       uint32
	offset      []byte // an expression
	kind        []byte // element kind or type
	functions   []uint32
	expressions [][]byte
}

// Bits of element.flags and the values of segment.flags.
const (
	elementNotActive   = 1
	elementExplicit    = 2 // of an active one: its table; of others: declarative
	elementExpressions = 4

	dataActive  = 0
	dataPassive = 1
)

type segment struct {
	flags  uint32
	offset uint32
	bytes  []byte
}

// Parse takes a module apart, which must not change afterwards. The error says
// what of it is broken or not known here.
func Parse(code []byte) (*Module, error) {
	if len(code) < len(header) || string(code[:len(header)]) != header {
		return nil, errors.New("invalid header")
	}
	m := new(Module)
	r := &reader{b: code, at: len(header)}
	last := -1
	for !r.done() && r.err == nil {
		id := r.byte()
		body := r.take(r.count())
		if id == sectionCustom || r.err != nil {
			continue
		}
		place := slices.Index(order, id)
		if place < 0 {
			return nil, fmt.Errorf("unknown section %d", id)
		}
		if place <= last {
			return nil, fmt.Errorf("section %d is out of order", id)
		}
		last = place
		s := &reader{b: body}
		m.section(id, s)
		if s.err == nil && !s.done() {
			s.err = errors.New("is longer than its content")
		}
		if s.err != nil {
			return nil, fmt.Errorf("section %d: %w", id, s.err)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if len(m.functions) != len(m.bodies) {
		return nil, fmt.Errorf("%d functions are declared and %d defined", len(m.functions), len(m.bodies))
	}
	for _, t := range m.functions {
		if int64(t) >= int64(len(m.types)) {
			return nil, fmt.Errorf("there is no type %d", t)
		}
	}
	return m, nil
}

func (m *Module) section(id byte, r *reader) {
	switch id {
	case sectionDataCount:
		m.dataCount = r.b
		r.u32()
		return
	case sectionStart:
		index := r.u32()
		m.start = &index
		return
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		switch id {
		case sectionType:
			m.types = append(m.types, r.signature())
		case sectionImport:
			m.imports = append(m.imports, r.imported())
		case sectionFunction:
			m.functions = append(m.functions, r.u32())
		case sectionTable:
			m.tables = append(m.tables, r.table())
		case sectionMemory:
			m.memories = append(m.memories, r.limits())
		case sectionGlobal:
			m.globals = append(m.globals, global{r.valueType(), r.flag(), r.expression()})
		case sectionExport:
			m.exports = append(m.exports, export{r.name(), r.byte(), r.u32()})
		case sectionElement:
			m.elements = append(m.elements, r.element())
		case sectionCode:
			code := r.take(r.count())
			survey, err := survey(code)
			if err != nil && r.err == nil {
				r.failf("function %d: %w", len(m.bodies), err)
			}
			m.bodies = append(m.bodies, body{code, survey})
		case sectionData:
			m.data = append(m.data, r.segment())
		}
	}
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.failf("%#x is no flag", b)
	}
	return b == 1
}

func (r *reader) signature() signature {
	begin := r.at
	if b := r.byte(); b != 0x60 && r.err == nil {
		r.failf("type of another form %#x", b)
	}
	var s signature
	for side := range 2 {
		n := r.count()
		if side == 0 {
			s.params = n
		}
		for ; n > 0 && r.err == nil; n-- {
			r.valueType()
		}
	}
	s.encoded = r.b[begin:r.at]
	return s
}

func (r *reader) imported() imported {
	i := imported{module: r.name(), name: r.name(), kind: r.byte()}
	begin := r.at
	switch i.kind {
	case kindFunction:
		r.u32()
	case kindTable:
		r.table()
	case kindMemory:
		r.limits()
	case kindGlobal:
		r.valueType()
		r.flag()
	default:
		r.failf("import of kind %d", i.kind)
	}
	i.encoded = r.b[begin:r.at]
	return i
}

// table reads a table's type; one that gives its elements a value is not known here.
func (r *reader) table() []byte {
	begin := r.at
	r.valueType()
	r.limits()
	return r.b[begin:r.at]
}

func (r *reader) limits() []byte {
	begin := r.at
	flags := r.byte()
	if flags > 3 {
		r.failf("limits of kind %d", flags)
	}
	r.u32()
	if flags&1 != 0 {
		r.u32()
	}
	return r.b[begin:r.at]
}

func (r *reader) element() element {
	e := element{flags: r.u32()}
	if e.flags > elementNotActive|elementExplicit|elementExpressions {
		r.failf("element segment of kind %d", e.flags)
		return e
	}
	if e.flags&elementNotActive == 0 {
		if e.flags&elementExplicit != 0 {
			e.table = r.u32()
		}
		e.offset = r.expression()
	}
	if e.flags&(elementNotActive|elementExplicit) != 0 {
		e.kind = r.take(1)
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if e.flags&elementExpressions != 0 {
			e.expressions = append(e.expressions, r.expression())
		} else {
			e.functions = append(e.functions, r.u32())
		}
	}
	return e
}

// segment reads a data segment, whose place must be a plain number in the only
// memory.
func (r *reader) segment() segment {
	s := segment{flags: r.u32()}
	switch s.flags {
	case dataActive:
		if b := r.byte(); b != opI32Const && r.err == nil {
			r.failf("data whose place is to be computed")
		}
		s.offset = uint32(r.signed(32))
		if b := r.byte(); b != opEnd && r.err == nil {
			r.failf("data whose place is to be computed")
		}
	case dataPassive:
	default:
		r.failf("data segment of kind %d", s.flags)
	}
	s.bytes = r.take(r.count())
	return s
}

// expression reads a constant expression, its end included.
func (r *reader) expression() []byte {
	begin := r.at
	for r.err == nil {
		i := r.instruction()
		switch i.op {
		case opEnd:
			return r.b[begin:r.at]
		case opI32Const, opI64Const, opF32Const, opF64Const, opV128Const, opGlobalGet, opRefNull, opRefFunc,
			0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e: // sums, differences and products
		default:
			r.failf("instruction %#x in a constant", i.op)
		}
	}
	return nil
}

// imported counts the imports of a kind, which come first among all of that kind.
func (m *Module) imported(kind byte) (n uint32) {
	for _, i := range m.imports {
		if i.kind == kind {
			n++
		}
	}
	return n
}

// Bytes puts the module together again.
func (m *Module) Bytes() []byte {
	out := []byte(header)
	for _, id := range order {
		if body := m.encode(id); body != nil {
			out = appendSized(append(out, id), body)
		}
	}
	return out
}

// encode gives a section's content; nil if it is empty.
func (m *Module) encode(id byte) []byte {
	switch id {
	case sectionType:
		return list(m.types, func(b []byte, s signature) []byte { return append(b, s.encoded...) })
	case sectionImport:
		return list(m.imports, func(b []byte, i imported) []byte {
			b = appendSized(appendSized(b, i.module), i.name)
			return append(append(b, i.kind), i.encoded...)
		})
	case sectionFunction:
		return list(m.functions, appendU32)
	case sectionTable:
		return list(m.tables, appendBytes)
	case sectionMemory:
		return list(m.memories, appendBytes)
	case sectionGlobal:
		return list(m.globals, func(b []byte, g global) []byte {
			mutable := byte(0)
			if g.mutable {
				mutable = 1
			}
			return append(append(b, byte(g.typ), mutable), g.init...)
		})
	case sectionExport:
		return list(m.exports, func(b []byte, e export) []byte {
			return appendU32(append(appendSized(b, e.name), e.kind), e.index)
		})
	case sectionStart:
		if m.start == nil {
			return nil
		}
		return appendU32(nil, *m.start)
	case sectionElement:
		return list(m.elements, appendElement)
	case sectionDataCount:
		return m.dataCount
	case sectionCode:
		return list(m.bodies, func(b []byte, x body) []byte { return appendSized(b, x.code) })
	default:
		return list(m.data, func(b []byte, s segment) []byte {
			b = appendU32(b, s.flags)
			if s.flags == dataActive {
				b = append(appendSigned(append(b, opI32Const), int64(int32(s.offset))), opEnd)
			}
			return appendSized(b, s.bytes)
		})
	}
}

func appendBytes(b, x []byte) []byte { return append(b, x...) }

func list[T any](items []T, add func([]byte, T) []byte) []byte {
	if len(items) == 0 {
		return nil
	}
	b := appendU32(nil, uint32(len(items)))
	for _, i := range items {
		b = add(b, i)
	}
	return b
}

func appendElement(b []byte, e element) []byte {
	b = appendU32(b, e.flags)
	if e.flags&elementNotActive == 0 {
		if e.flags&elementExplicit != 0 {
			b = appendU32(b, e.table)
		}
		b = append(b, e.offset...)
	}
	b = append(b, e.kind...)
	if e.flags&elementExpressions != 0 {
		b = appendU32(b, uint32(len(e.expressions)))
		for _, x := range e.expressions {
			b = append(b, x...)
		}
		return b
	}
	b = appendU32(b, uint32(len(e.functions)))
	for _, f := range e.functions {
		b = appendU32(b, f)
	}
	return b
}
