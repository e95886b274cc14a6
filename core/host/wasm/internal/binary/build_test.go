package binary

import "slices"

// Modules for tests are written as the sections' bytes, put together by these.

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func vec(items ...[]byte) []byte { return cat(appendU32(nil, uint32(len(items))), cat(items...)) }

func sized(b ...[]byte) []byte { return appendSized(nil, cat(b...)) }

func text(s string) []byte { return appendSized(nil, s) }

func sect(id byte, b []byte) []byte { return appendSized([]byte{id}, b) }

func i32(n int32) []byte { return appendSigned([]byte{opI32Const}, int64(n)) }

func i64(n int64) []byte { return appendSigned([]byte{opI64Const}, n) }

func op(b ...byte) []byte { return b }

// code is a function with locals of 32 bits.
func code(locals byte, body ...[]byte) []byte {
	l := op(0)
	if locals > 0 {
		l = op(1, locals, byte(I32))
	}
	return sized(l, cat(body...), op(opEnd))
}

// rich is a module that has something of everything: run(n) → i32 is its export.
//
// Functions: 0 imported, () → (); 1 run; 2 twice(x) → 2x; 3 the start; 4 (x, y) → (y, x).
func rich() []byte {
	run := cat(
		// A loop with a parameter on the stack, n times: acc = acc*31 + twice(n), through the table.
		op(opLocalGet, 0, 0x21, 1), // left = n
		i32(7),
		op(opLoop, 4), // (i32) → i32
		i32(31), op(0x6c), op(opLocalGet, 1), i32(0), op(opCallIndirect, 3, 0), op(0x6a),
		op(opLocalGet, 1), i32(1), op(0x6b, opLocalTee, 1),
		op(opBrIf, 0),
		op(opEnd),
		op(0x21, 2), // acc
		// Blocks and a jump table.
		op(opBlock, 0x40, opBlock, 0x40), op(opLocalGet, 0), op(opBrTable, 1, 1, 0), op(opEnd), op(opCall, 0), op(opEnd),
		op(opLocalGet, 0, opIf, byte(I32)), i32(5), op(opElse), i32(6), op(opEnd), op(opLocalGet, 2, 0x6a, 0x21, 2),
		// Memory in bulk: the passive segment, a copy of it, and zeros.
		i32(100), i32(0), i32(4), op(0xfc, 8, 1, 0),
		i32(104), i32(100), i32(4), op(0xfc, 10, 0, 0),
		i32(200), i32(0x55), i32(9), op(0xfc, 11, 0),
		i32(0), op(0x28, 2, 104), op(opLocalGet, 2, 0x6a, 0x21, 2),
		// Vectors.
		op(0xfd, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), op(0xfd, 12, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1),
		op(0xfd, 13, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), op(0xfd, 0x1b, 2), op(opLocalGet, 2, 0x6a, 0x21, 2),
		i32(0), op(0xfd, 0, 4, 0), op(0xfd, 0x1b, 1), op(0x1a), // v128.load, i32x4.extract_lane
		i32(0), i32(0), op(0xfd, 0, 0, 0), op(0xfd, 84, 0, 0, 3), op(0x1a), // v128.load8_lane
		// References, conversions, numbers of all kinds.
		op(opRefNull, byte(funcRef), opRefIsNull), op(opLocalGet, 2, 0x6a, 0x21, 2),
		op(opRefFunc, 2, opRefIsNull), op(opLocalGet, 2, 0x6a, 0x21, 2),
		i32(1), i32(2), op(opLocalGet, 0), op(opSelectOf, 1, byte(I32)), op(opLocalGet, 2, 0x6a, 0x21, 2),
		op(opF32Const, 0, 0, 0x80, 0x3f), op(0xfc, 0), op(opLocalGet, 2, 0x6a, 0x21, 2),
		op(opF64Const, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f), op(0xfc, 2), op(opLocalGet, 2, 0x6a, 0x21, 2),
		i64(-5), op(0xc4, 0xa7), op(opLocalGet, 2, 0x6a, 0x21, 2), // i64.extend32_s, i32.wrap
		op(opMemorySize, 0), op(opLocalGet, 2, 0x6a, 0x21, 2),
		i32(1), op(opMemoryGrow, 0, 0x1a),
		op(0xfc, 16, 0), op(opLocalGet, 2, 0x6a, 0x21, 2), // table.size
		i32(0), op(opTableGet, 0, opRefIsNull), op(opLocalGet, 2, 0x6a, 0x21, 2),
		op(opGlobalGet, 0), op(opLocalGet, 2, 0x6a), op(opGlobalSet, 0),
		op(opLocalGet, 2), i32(3), op(opCall, 4), op(0x73), // swapped, then xor
		op(opGlobalGet, 0, 0x6a),
	)
	return cat([]byte(header),
		sect(sectionType, vec(
			op(0x60, 0, 0),
			op(0x60, 1, byte(I32), 1, byte(I32)),
			op(0x60, 2, byte(I32), byte(I32), 2, byte(I32), byte(I32)),
			op(0x60, 1, byte(I32), 1, byte(I32)),
			op(0x60, 1, byte(I32), 1, byte(I32)),
		)),
		sect(sectionImport, vec(cat(text("env"), text("tell"), op(kindFunction, 0)))),
		sect(sectionFunction, vec(op(1), op(3), op(0), op(2))),
		sect(sectionTable, vec(op(byte(funcRef), 1, 2, 9))),
		sect(sectionMemory, vec(op(1, 1, 5))),
		sect(sectionGlobal, vec(
			cat(op(byte(I32), 1), i32(40), op(opEnd)),
			cat(op(byte(F64), 1, opF64Const, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, opEnd)),
			cat(op(byte(funcRef), 0, opRefFunc, 2, opEnd)),
			cat(op(byte(I64), 0), i64(-1), op(opEnd)),
		)),
		sect(sectionExport, vec(
			cat(text("run"), op(kindFunction, 1)),
			cat(text("memory"), op(kindMemory, 0)),
			cat(text("count"), op(kindGlobal, 0)),
		)),
		sect(sectionStart, op(3)),
		sect(sectionElement, vec(
			cat(op(0), i32(0), op(opEnd), vec(op(2))),
			cat(op(3, 0), vec(op(1))), // declarative
			cat(op(5, byte(funcRef)), vec(op(opRefNull, byte(funcRef), opEnd), op(opRefFunc, 2, opEnd))), // passive
		)),
		sect(sectionDataCount, op(2)),
		sect(sectionCode, vec(
			code(2, run),
			code(0, op(opLocalGet, 0), op(opLocalGet, 0), op(0x6a)),
			code(0, op(opGlobalGet, 0), i32(2), op(0x6a, opGlobalSet, 0), i32(8), i32(77), op(0x36, 2, 0)),
			code(0, op(opLocalGet, 1), op(opLocalGet, 0)),
		)),
		sect(sectionData, vec(
			cat(op(dataActive), i32(4), op(opEnd), text("active")),
			cat(op(dataPassive), text("passive!")),
		)),
		sect(sectionCustom, cat(text("notes"), op(1, 2, 3))),
	)
}
