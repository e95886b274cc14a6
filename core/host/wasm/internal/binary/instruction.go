package binary

// Instructions that are told apart here. Those behind a prefix byte carry it above
// their number.
const (
	opUnreachable        = 0x00
	opNop                = 0x01
	opBlock              = 0x02
	opLoop               = 0x03
	opIf                 = 0x04
	opElse               = 0x05
	opEnd                = 0x0b
	opBr                 = 0x0c
	opBrIf               = 0x0d
	opBrTable            = 0x0e
	opReturn             = 0x0f
	opCall               = 0x10
	opCallIndirect       = 0x11
	opReturnCall         = 0x12
	opReturnCallIndirect = 0x13
	opSelectOf           = 0x1c
	opLocalGet           = 0x20
	opLocalTee           = 0x22
	opGlobalGet          = 0x23
	opGlobalSet          = 0x24
	opTableGet           = 0x25
	opTableSet           = 0x26
	opLoad               = 0x28 // the first that reads memory
	opStore              = 0x3e // the last that writes it
	opMemorySize         = 0x3f
	opMemoryGrow         = 0x40
	opI32Const           = 0x41
	opI64Const           = 0x42
	opF32Const           = 0x43
	opF64Const           = 0x44
	opI32Eqz             = 0x45 // the first without immediates
	opI64LtS             = 0x53
	opI64Sub             = 0x7d
	opI64ShrU            = 0x88
	opI64ExtendI32U      = 0xad
	opI64Extend32S       = 0xc4 // the last without immediates
	opRefNull            = 0xd0
	opRefIsNull          = 0xd1
	opRefFunc            = 0xd2

	prefixMore   = 0xfc
	prefixVector = 0xfd

	opTruncSatLast = prefixMore<<16 | 7
	opMemoryInit   = prefixMore<<16 | 8
	opDataDrop     = prefixMore<<16 | 9
	opMemoryCopy   = prefixMore<<16 | 10
	opMemoryFill   = prefixMore<<16 | 11
	opTableInit    = prefixMore<<16 | 12
	opElemDrop     = prefixMore<<16 | 13
	opTableCopy    = prefixMore<<16 | 14
	opTableGrow    = prefixMore<<16 | 15
	opTableSize    = prefixMore<<16 | 16
	opTableFill    = prefixMore<<16 | 17
	opV128Const    = prefixVector<<16 | 12
)

// instruction is one instruction; of its immediates only a function's index is kept.
type instruction struct {
	op       uint32
	function uint32 // of opCall, opReturnCall and opRefFunc
}

// instruction reads the next one.
func (r *reader) instruction() (i instruction) {
	i.op = uint32(r.byte())
	switch op := i.op; {
	case op == opBlock, op == opLoop, op == opIf:
		r.signed(33)
	case op == opBr, op == opBrIf, op >= opLocalGet && op <= opTableSet:
		r.u32()
	case op == opBrTable:
		for n := r.count(); n >= 0 && r.err == nil; n-- {
			r.u32()
		}
	case op == opCall, op == opReturnCall, op == opRefFunc:
		i.function = r.u32()
	case op == opCallIndirect, op == opReturnCallIndirect:
		r.u32()
		r.u32()
	case op == opSelectOf:
		for n := r.count(); n > 0 && r.err == nil; n-- {
			r.valueType()
		}
	case op >= opLoad && op <= opStore:
		r.place()
	case op == opMemorySize, op == opMemoryGrow:
		r.onlyMemory()
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op == opF32Const:
		r.take(4)
	case op == opF64Const:
		r.take(8)
	case op == opRefNull:
		r.valueType()
	case op == prefixMore:
		i.op = prefixMore<<16 | r.number()
		r.more(i.op)
	case op == prefixVector:
		n := r.number()
		i.op = prefixVector<<16 | n
		r.vector(n)
	case op <= opNop, op == opElse, op == opEnd, op == opReturn, op == 0x1a, op == 0x1b,
		op >= opI32Eqz && op <= opI64Extend32S, op == opRefIsNull:
	default:
		r.failf("unknown instruction %#x", op)
	}
	return i
}

// number reads an instruction's number behind a prefix.
func (r *reader) number() uint32 {
	n := r.u32()
	if n > 0xff {
		r.failf("unknown instruction %#x behind a prefix", n)
	}
	return n
}

func (r *reader) more(op uint32) {
	switch op {
	case opMemoryInit:
		r.u32()
		r.onlyMemory()
	case opMemoryCopy:
		r.onlyMemory()
		r.onlyMemory()
	case opMemoryFill:
		r.onlyMemory()
	case opTableInit, opTableCopy:
		r.u32()
		r.u32()
	case opDataDrop, opElemDrop, opTableGrow, opTableSize, opTableFill:
		r.u32()
	default:
		if op > opTruncSatLast {
			r.failf("unknown instruction %#x", op)
		}
	}
}

// vector reads what follows the n-th instruction on 128 bits.
func (r *reader) vector(n uint32) {
	switch {
	case n <= 11, n == 92, n == 93: // loads and a store
		r.place()
	case n == 12, n == 13: // a constant, a shuffle
		r.take(16)
	case n >= 21 && n <= 34: // one lane
		r.byte()
	case n >= 84 && n <= 91: // one lane of memory
		r.place()
		r.byte()
	}
}

// place reads alignment and offset of an access to memory.
func (r *reader) place() {
	if align := r.u32(); align > 4 {
		r.failf("access to memory of alignment %d", align)
	}
	r.u32()
}

func (r *reader) onlyMemory() {
	if b := r.byte(); b != 0 {
		r.failf("access to memory %d", b)
	}
}
