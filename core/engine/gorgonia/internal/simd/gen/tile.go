package main

import (
	"bytes"
	"fmt"
)

// writeTile emits C[m×n] (+)= A[m×k]·B[k×n] for m up to 12 and n=32 (AVX-512) or
// m up to 6 and n=16 (AVX2). Each element is one chain of fused multiply-adds in
// ascending k that starts from C, or from 0 when fresh: its bits depend neither on
// m nor on how k is cut into calls.
//
// Strides are in bytes. A is read in place through a row and a k stride, so that
// A and its transpose need no packing.
//
// A streaming tile has up to 4 rows and prefetches the rows of the next B, laid out
// as this one, while it reads its own: few rows wait for memory, not for arithmetic.
func writeTile(w *bytes.Buffer, wide, streaming bool) signature {
	s := signature{name: "tile" + suffix(wide), args: []arg{
		{"m", "int"}, {"k", "int"}, {"a", "*float32"}, {"ars", "int"}, {"aks", "int"},
		{"b", "*float32"}, {"bks", "int"}, {"c", "*float32"}, {"ldc", "int"}, {"fresh", "bool"}}}
	rows, reg, width := 6, "Y", 32
	if wide {
		rows, reg, width = 12, "Z", 64
	}
	if streaming {
		rows = 4
		s.name = "stream" + suffix(wide)
		s.args = append(s.args, arg{"next", "*float32"})
	}
	first := 4 // of the accumulators
	acc := func(r, v int) string { return fmt.Sprintf("%s%d", reg, first+2*r+v) }
	p := func(f string, a ...any) { fmt.Fprintf(w, "\t"+f+"\n", a...) }
	label := func(l string) { fmt.Fprintf(w, "%s:\n", l) }

	fmt.Fprintf(w, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", s.declaration(), s.name, s.frame())
	p("MOVQ %s, CX", s.ref("k"))
	p("MOVQ %s, SI", s.ref("a"))
	p("MOVQ %s, R8", s.ref("ars"))
	p("MOVQ %s, AX", s.ref("aks"))
	p("MOVQ %s, DI", s.ref("b"))
	p("MOVQ %s, BX", s.ref("bks"))
	p("MOVQ %s, DX", s.ref("c"))
	p("LEAQ (R8)(R8*2), R9") // 3, 5, 7, 9 and 11 row strides
	if streaming {
		p("MOVQ %s, R10", s.ref("next"))
	} else {
		p("LEAQ (R8)(R8*4), R10")
		p("LEAQ (R9)(R8*4), R11")
		p("LEAQ (R8)(R8*8), R12")
		p("LEAQ (R9)(R8*8), R13")
	}
	address := []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)", "(SI)(R8*4)", "(SI)(R10*1)",
		"(SI)(R9*2)", "(SI)(R11*1)", "(SI)(R8*8)", "(SI)(R12*1)", "(SI)(R10*2)", "(SI)(R13*1)"}
	for m := rows; m > 1; m-- {
		p("CMPQ %s, $%d", s.ref("m"), m)
		p("JEQ rows%d", m)
	}
	for m := 1; m <= rows; m++ {
		label(fmt.Sprintf("rows%d", m))
		p("MOVBLZX %s, R8", s.ref("fresh")) // the row stride itself is needed again below
		p("TESTL R8, R8")
		p("MOVQ %s, R8", s.ref("ldc"))
		p("JNZ zero%d", m)
		for r := range m {
			for v := range 2 {
				p("VMOVUPS %d(DX), %s", width*v, acc(r, v))
			}
			if r < m-1 {
				p("ADDQ R8, DX")
			}
		}
		p("MOVQ %s, DX", s.ref("c"))
		p("JMP start%d", m)
		label(fmt.Sprintf("zero%d", m))
		for r := range m {
			for v := range 2 {
				if wide {
					p("VPXORD %s, %s, %s", acc(r, v), acc(r, v), acc(r, v))
				} else {
					p("VXORPS %s, %s, %s", acc(r, v), acc(r, v), acc(r, v))
				}
			}
		}
		label(fmt.Sprintf("start%d", m))
		p("MOVQ %s, R8", s.ref("ars"))
		p("TESTQ CX, CX")
		p("JZ store%d", m)
		label(fmt.Sprintf("loop%d", m))
		p("VMOVUPS (DI), %s0", reg)
		p("VMOVUPS %d(DI), %s1", width, reg)
		for r := range m {
			t := fmt.Sprintf("%s%d", reg, 2+r&1)
			p("VBROADCASTSS %s, %s", address[r], t)
			p("VFMADD231PS %s0, %s, %s", reg, t, acc(r, 0))
			p("VFMADD231PS %s1, %s, %s", reg, t, acc(r, 1))
		}
		if streaming {
			p("PREFETCHT0 (R10)")
			if wide {
				p("PREFETCHT0 64(R10)")
			}
			p("ADDQ BX, R10")
		}
		p("ADDQ AX, SI")
		p("ADDQ BX, DI")
		p("DECQ CX")
		p("JNZ loop%d", m)
		label(fmt.Sprintf("store%d", m))
		p("MOVQ %s, R8", s.ref("ldc"))
		for r := range m {
			for v := range 2 {
				p("VMOVUPS %s, %d(DX)", acc(r, v), width*v)
			}
			if r < m-1 {
				p("ADDQ R8, DX")
			}
		}
		p("VZEROUPPER")
		p("RET")
	}
	return s
}
