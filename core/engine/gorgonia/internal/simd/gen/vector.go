package main

import (
	"bytes"
	"fmt"
	"math"
)

// kernel is one loop over n elements; the body handles 16 of them.
type kernel struct {
	name    string
	args    []arg // without n, which is last
	result  bool
	acc     []vec // set to initial before the loop; acc[0] is the result after the fold
	initial string
	fold    string // instruction that folds the lanes of acc[0]
	setup   func(b *body)
	body    func(b *body)
}

type vec int // logical vector 0..6

// body emits one pass of a kernel's loop, whole or masked.
type body struct {
	w      *bytes.Buffer
	sig    signature
	wide   bool
	masked bool
	regs   map[string]string // pointer argument to register
}

func (b *body) p(f string, a ...any) { fmt.Fprintf(b.w, "\t"+f+"\n", a...) }

func (b *body) halves() int {
	if b.wide {
		return 1
	}
	return 2
}

func (b *body) reg(v vec, h int) string {
	if b.wide {
		return fmt.Sprintf("Z%d", v)
	}
	return fmt.Sprintf("Y%d", 2*int(v)+h)
}

// op emits an instruction over logical vectors; an argument is a vec, or a string
// naming a constant, or "$n". The destination is last, as in Go's assembler.
func (b *body) op(name string, args ...any) {
	for h := range b.halves() {
		out := name
		for i, a := range args {
			sep := ", "
			if i == 0 {
				sep = " "
			}
			switch a := a.(type) {
			case vec:
				out += sep + b.reg(a, h)
			case string:
				if a[0] == '$' {
					out += sep + a
				} else {
					out += sep + "simd_" + a + "<>(SB)"
				}
			}
		}
		b.p("%s", out)
	}
}

// load reads 16 elements; those past the end read as 0.
func (b *body) load(ptr string, v vec) {
	for h := range b.halves() {
		mem := fmt.Sprintf("%d(%s)(AX*1)", 32*h, b.regs[ptr])
		switch {
		case !b.masked:
			b.p("VMOVUPS %s, %s", mem, b.reg(v, h))
		case b.wide:
			b.p("VMOVUPS.Z %s, K1, %s", mem, b.reg(v, h))
		default:
			b.p("VMASKMOVPS %s, Y%d, %s", mem, 14+h, b.reg(v, h))
		}
	}
}

func (b *body) store(v vec, ptr string) {
	for h := range b.halves() {
		mem := fmt.Sprintf("%d(%s)(AX*1)", 32*h, b.regs[ptr])
		switch {
		case !b.masked:
			b.p("VMOVUPS %s, %s", b.reg(v, h), mem)
		case b.wide:
			b.p("VMOVUPS %s, K1, %s", b.reg(v, h), mem)
		default:
			b.p("VMASKMOVPS %s, Y%d, %s", b.reg(v, h), 14+h, mem)
		}
	}
}

// clip sets the lanes past the end to 0, or to the constant fill.
func (b *body) clip(v vec, fill string) {
	if !b.masked {
		return
	}
	for h := range b.halves() {
		r := b.reg(v, h)
		switch {
		case b.wide && fill == "":
			b.p("VMOVAPS.Z %s, K1, %s", r, r)
		case b.wide:
			b.p("VMOVUPS simd_%s<>(SB), Z7", fill)
			b.p("VBLENDMPS %s, Z7, K1, %s", r, r)
		case fill == "":
			b.p("VANDPS Y%d, %s, %s", 14+h, r, r)
		default:
			// VBLENDVPS takes the second source where the mask is set.
			t := b.reg(6, h)
			b.p("VMOVUPS simd_%s<>(SB), %s", fill, t)
			b.p("VBLENDVPS Y%d, %s, %s, %s", 14+h, r, t, r)
		}
	}
}

// scalar broadcasts a float32 argument.
func (b *body) scalar(name string, v vec) {
	for h := range b.halves() {
		b.p("VBROADCASTSS %s, %s", b.sig.ref(name), b.reg(v, h))
	}
}

// element broadcasts the i-th float32 behind a pointer argument.
func (b *body) element(ptr string, i int, v vec) {
	for h := range b.halves() {
		b.p("VBROADCASTSS %d(%s), %s", 4*i, b.regs[ptr], b.reg(v, h))
	}
}

func (b *body) zero(v vec) {
	if b.wide {
		b.op("VPXORD", v, v, v)
		return
	}
	b.op("VXORPS", v, v, v)
}

// exp sets x to e^x with the polynomial of Cephes' expf (error below 2 ulp); t and
// u are lost. Below −87.7 it gives 0, above 88.7 +Inf; NaN stays NaN.
func (b *body) exp(x, t, u vec) {
	b.op("VMOVUPS", "expLow", t)
	b.op("VMAXPS", x, t, x) // the second source wins for NaN: it is x
	b.op("VMOVUPS", "expHigh", t)
	b.op("VMINPS", x, t, x)
	b.op("VMULPS", "log2e", x, t)
	if b.wide {
		b.op("VRNDSCALEPS", "$8", t, t)
	} else {
		b.op("VROUNDPS", "$8", t, t)
	}
	b.op("VFNMADD231PS", "ln2High", t, x)
	b.op("VFNMADD231PS", "ln2Low", t, x)
	b.op("VMOVUPS", "exp0", u)
	for i := 1; i < 6; i++ {
		b.op("VFMADD213PS", fmt.Sprintf("exp%d", i), x, u) // u = u·x + c
	}
	b.op("VMULPS", x, u, u)
	b.op("VFMADD213PS", "one", x, u) // u·x + 1 + x, in two steps
	b.op("VADDPS", u, x, x)
	b.op("VCVTPS2DQ", t, t)
	b.op("VPADDD", "bias", t, t)
	b.op("VPSLLD", "$23", t, t)
	b.op("VMULPS", t, x, x)
}

// sigmoid sets x to 1/(1+e^−x); t and u are lost.
func (b *body) sigmoid(x, t, u vec) {
	b.zero(t)
	b.op("VSUBPS", x, t, x)
	b.exp(x, t, u)
	b.op("VADDPS", "one", x, x)
	b.op("VMOVUPS", "one", t)
	b.op("VDIVPS", x, t, x)
}

func ptrs(names ...string) (as []arg) {
	for _, n := range names {
		as = append(as, arg{n, "*float32"})
	}
	return as
}

func with(as []arg, scalars ...string) []arg {
	for _, n := range scalars {
		as = append(as, arg{n, "float32"})
	}
	return as
}

var vectorKernels = []kernel{
	{name: "dot", args: ptrs("x", "y"), result: true, acc: []vec{5}, fold: "VADDPS", body: func(b *body) {
		b.load("x", 0)
		b.load("y", 1)
		b.op("VFMADD231PS", vec(0), vec(1), vec(5))
	}},
	{name: "dot3", args: ptrs("x", "y", "z"), result: true, acc: []vec{5}, fold: "VADDPS", body: func(b *body) {
		b.load("x", 0)
		b.load("y", 1)
		b.load("z", 2)
		b.op("VMULPS", vec(0), vec(1), vec(0))
		b.op("VFMADD231PS", vec(0), vec(2), vec(5))
	}},
	{name: "maxOf", args: ptrs("x"), result: true, acc: []vec{5}, initial: "negInf", fold: "VMAXPS", body: func(b *body) {
		b.load("x", 0)
		b.clip(0, "negInf")
		b.op("VMAXPS", vec(0), vec(5), vec(5))
	}},
	{name: "expSum", args: with(ptrs("y", "x"), "shift"), result: true, acc: []vec{5}, fold: "VADDPS",
		setup: func(b *body) { b.scalar("shift", 4) },
		body: func(b *body) {
			b.load("x", 0)
			b.op("VSUBPS", vec(4), vec(0), vec(0))
			b.exp(0, 1, 2)
			b.clip(0, "")
			b.op("VADDPS", vec(0), vec(5), vec(5))
			b.store(0, "y")
		}},
	{name: "scale", args: with(ptrs("y", "x"), "f"),
		setup: func(b *body) { b.scalar("f", 4) },
		body: func(b *body) {
			b.load("x", 0)
			b.op("VMULPS", vec(4), vec(0), vec(0))
			b.store(0, "y")
		}},
	{name: "axpy", args: with(ptrs("y", "x"), "f"),
		setup: func(b *body) { b.scalar("f", 4) },
		body: func(b *body) {
			b.load("x", 0)
			b.load("y", 1)
			b.op("VFMADD231PS", vec(4), vec(0), vec(1))
			b.store(1, "y")
		}},
	{name: "normApply", args: with(ptrs("y", "x", "w"), "r"),
		setup: func(b *body) { b.scalar("r", 4) },
		body: func(b *body) {
			b.load("x", 0)
			b.load("w", 1)
			b.op("VMULPS", vec(4), vec(0), vec(0))
			b.op("VMULPS", vec(1), vec(0), vec(0))
			b.store(0, "y")
		}},
	{name: "normBack", args: with(ptrs("dx", "dg", "dy", "x", "w"), "r", "f"),
		setup: func(b *body) { b.scalar("r", 5); b.scalar("f", 6) },
		body: func(b *body) {
			b.load("dy", 0)
			b.op("VMULPS", vec(5), vec(0), vec(0)) // dy·r
			b.load("x", 1)
			b.load("dg", 2)
			b.op("VFMADD231PS", vec(0), vec(1), vec(2))
			b.store(2, "dg")
			b.load("dx", 3)
			b.load("w", 4)
			b.op("VFMADD231PS", vec(0), vec(4), vec(3))
			b.op("VFNMADD231PS", vec(1), vec(6), vec(3))
			b.store(3, "dx")
		}},
	{name: "softmaxBack", args: with(ptrs("d", "p"), "s"),
		setup: func(b *body) { b.scalar("s", 4) },
		body: func(b *body) {
			b.load("d", 0)
			b.load("p", 1)
			b.op("VSUBPS", vec(4), vec(0), vec(0))
			b.op("VMULPS", vec(1), vec(0), vec(0))
			b.store(0, "d")
		}},
	{name: "swiglu", args: ptrs("h", "w", "u"), body: func(b *body) {
		b.load("w", 0)
		b.op("VMOVAPS", vec(0), vec(3))
		b.sigmoid(0, 1, 2)
		b.op("VMULPS", vec(3), vec(0), vec(0))
		b.load("u", 1)
		b.op("VMULPS", vec(1), vec(0), vec(0))
		b.store(0, "h")
	}},
	{name: "swigluBack", args: ptrs("dg", "du", "dh", "w", "u"), body: func(b *body) {
		b.load("w", 0)
		b.op("VMOVAPS", vec(0), vec(3))
		b.sigmoid(0, 1, 2) // 0: s, 3: g
		b.load("dh", 4)
		b.op("VMULPS", vec(3), vec(0), vec(1)) // g·s
		b.op("VMULPS", vec(4), vec(1), vec(2))
		b.store(2, "du")
		b.op("VMOVUPS", "one", vec(2)) // s·(1 + g·(1−s)) = s + g·s·(1−s)
		b.op("VSUBPS", vec(0), vec(2), vec(2))
		b.op("VFMADD231PS", vec(1), vec(2), vec(0))
		b.load("u", 1)
		b.op("VMULPS", vec(1), vec(4), vec(4))
		b.op("VMULPS", vec(4), vec(0), vec(0))
		b.store(0, "dg")
	}},
	{name: "rotate", args: ptrs("y1", "y2", "x1", "x2", "c", "s"), body: func(b *body) {
		b.load("x1", 0)
		b.load("x2", 1)
		b.load("c", 2)
		b.load("s", 3)
		b.op("VMULPS", vec(2), vec(0), vec(4))
		b.op("VFNMADD231PS", vec(3), vec(1), vec(4))
		b.op("VMULPS", vec(2), vec(1), vec(5))
		b.op("VFMADD231PS", vec(3), vec(0), vec(5))
		b.store(4, "y1")
		b.store(5, "y2")
	}},
	// k: gradient scale, beta1, 1−beta1, beta2, 1−beta2, 1/(1−beta2^t), eps, lr/(1−beta1^t), 1−lr·decay
	{name: "adam", args: ptrs("p", "w", "m", "v", "k"), body: func(b *body) {
		b.load("w", 0)
		b.element("k", 0, 1)
		b.op("VMULPS", vec(1), vec(0), vec(0))
		b.load("m", 1)
		b.element("k", 1, 2)
		b.op("VMULPS", vec(2), vec(1), vec(1))
		b.element("k", 2, 2)
		b.op("VFMADD231PS", vec(2), vec(0), vec(1))
		b.store(1, "m")
		b.load("v", 2)
		b.element("k", 3, 3)
		b.op("VMULPS", vec(3), vec(2), vec(2))
		b.element("k", 4, 3)
		b.op("VMULPS", vec(0), vec(0), vec(0))
		b.op("VFMADD231PS", vec(3), vec(0), vec(2))
		b.store(2, "v")
		b.element("k", 5, 3)
		b.op("VMULPS", vec(3), vec(2), vec(2))
		b.op("VSQRTPS", vec(2), vec(2))
		b.element("k", 6, 3)
		b.op("VADDPS", vec(3), vec(2), vec(2))
		b.op("VDIVPS", vec(2), vec(1), vec(1))
		b.load("p", 0)
		b.element("k", 8, 3)
		b.op("VMULPS", vec(3), vec(0), vec(0))
		b.element("k", 7, 3)
		b.op("VFNMADD231PS", vec(3), vec(1), vec(0))
		b.store(0, "p")
	}},
}

func writeVector(w *bytes.Buffer, wide bool, k kernel) signature {
	s := signature{name: k.name + suffix(wide), args: append(append([]arg{}, k.args...), arg{"n", "int"}), result: k.result}
	b := &body{w: w, sig: s, wide: wide, regs: map[string]string{}}
	fmt.Fprintf(w, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", s.declaration(), s.name, s.frame())
	free := []string{"SI", "DI", "DX", "R8", "R9", "R10", "R11"}
	for _, a := range k.args {
		if a.typ == "*float32" {
			b.regs[a.name], free = free[0], free[1:]
			b.p("MOVQ %s, %s", s.ref(a.name), b.regs[a.name])
		}
	}
	b.p("MOVQ %s, CX", s.ref("n"))
	b.p("XORQ AX, AX")
	for _, v := range k.acc {
		if k.initial != "" {
			b.op("VMOVUPS", k.initial, v)
		} else {
			b.zero(v)
		}
	}
	if k.setup != nil {
		k.setup(b)
	}
	b.p("MOVQ CX, BX")
	b.p("SHRQ $4, BX")
	b.p("JZ tail")
	fmt.Fprintf(w, "loop:\n")
	k.body(b)
	b.p("ADDQ $64, AX")
	b.p("DECQ BX")
	b.p("JNZ loop")
	fmt.Fprintf(w, "tail:\n")
	b.p("ANDQ $15, CX")
	b.p("JZ done")
	if wide {
		b.p("MOVL $1, BX")
		b.p("SHLL CX, BX")
		b.p("DECL BX")
		b.p("KMOVW BX, K1")
	} else {
		b.p("LEAQ simd_mask<>+64(SB), BX")
		b.p("SHLQ $2, CX")
		b.p("SUBQ CX, BX")
		b.p("VMOVUPS (BX), Y14")
		b.p("VMOVUPS 32(BX), Y15")
	}
	b.masked = true
	k.body(b)
	fmt.Fprintf(w, "done:\n")
	if k.result {
		v := int(k.acc[0])
		if wide {
			b.p("VEXTRACTF64X4 $1, Z%d, Y0", v)
			b.p("%s Y0, Y%d, Y0", k.fold, v)
		} else {
			b.p("%s Y%d, Y%d, Y0", k.fold, 2*v+1, 2*v)
		}
		b.p("VEXTRACTF128 $1, Y0, X1")
		b.p("%s X1, X0, X0", k.fold)
		b.p("VPERMILPS $0x4e, X0, X1")
		b.p("%s X1, X0, X0", k.fold)
		b.p("VPERMILPS $0xb1, X0, X1")
		b.p("%s X1, X0, X0", k.fold)
		b.p("VMOVSS X0, %s", s.ref("ret"))
	}
	b.p("VZEROUPPER")
	b.p("RET")
	return s
}

func writeConstants(w *bytes.Buffer) {
	f := func(name string, x float32) { word(w, name, math.Float32bits(x)) }
	f("one", 1)
	f("negInf", float32(math.Inf(-1)))
	f("expLow", -88)
	f("expHigh", 89)
	f("log2e", math.Log2E)
	f("ln2High", 0.693359375)
	f("ln2Low", -2.12194440e-4)
	for i, c := range []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		f(fmt.Sprintf("exp%d", i), c)
	}
	word(w, "bias", 127)
	fmt.Fprintf(w, "\n")
	for i := range 32 {
		v := uint32(0)
		if i < 16 {
			v = math.MaxUint32
		}
		fmt.Fprintf(w, "DATA simd_mask<>+%d(SB)/4, $0x%08x\n", 4*i, v)
	}
	fmt.Fprintf(w, "GLOBL simd_mask<>(SB), RODATA|NOPTR, $128\n")
}

// word emits a constant of 16 equal lanes.
func word(w *bytes.Buffer, name string, bits uint32) {
	fmt.Fprintf(w, "\n")
	for i := range 16 {
		fmt.Fprintf(w, "DATA simd_%s<>+%d(SB)/4, $0x%08x\n", name, 4*i, bits)
	}
	fmt.Fprintf(w, "GLOBL simd_%s<>(SB), RODATA|NOPTR, $64\n", name)
}
