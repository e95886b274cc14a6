package wasm

import (
	"encoding/binary"
	"strings"
)

// assembly builds small modules byte by byte, as an author of a guest in another
// language would get them from a compiler.
type assembly struct {
	imports []string // of module, each "module name"; all but host_call are (i32, i32)
	pages   uint64   // of memory, at the start
	data    string   // at address 1024
	call    []byte   // body of skill_v1_call; nil: not exported
	start   []byte   // body of _initialize; nil: none
	oneArg  bool     // give skill_v1_call another signature
	program bool     // export _start
	table   bool     // have a table with one place
	extra   string   // another export's name, of the memory
}

// Types by index.
const (
	typeCopy  = iota // (i32, i32)
	typeAsk          // (i32, i32, i32) → i64
	typeCall         // (i32, i32) → i32
	typeStart        // ()
	typeOne          // (i32) → i32
)

func (a assembly) bytes() []byte {
	types := section(1, list([][]byte{
		{0x60, 2, 0x7f, 0x7f, 0},
		{0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7e},
		{0x60, 2, 0x7f, 0x7f, 1, 0x7f},
		{0x60, 0, 0},
		{0x60, 1, 0x7f, 1, 0x7f},
	}))
	var imports [][]byte
	for _, i := range a.imports {
		module, name, _ := strings.Cut(i, " ")
		typ := byte(typeCopy)
		if name == "host_call" {
			typ = typeAsk
		}
		imports = append(imports, append(append(text(module), text(name)...), 0, typ))
	}
	var funcs, exports, bodies [][]byte
	add := func(name string, typ byte, body []byte) {
		exports = append(exports, append(text(name), append([]byte{0}, uleb(uint64(len(imports)+len(funcs)))...)...))
		funcs = append(funcs, []byte{typ})
		code := append([]byte{0}, append(body, 0x0b)...) // no locals; end
		bodies = append(bodies, append(uleb(uint64(len(code))), code...))
	}
	if a.call != nil {
		typ := byte(typeCall)
		if a.oneArg {
			typ = typeOne
		}
		add("skill_v1_call", typ, a.call)
	}
	if a.start != nil {
		add("_initialize", typeStart, a.start)
	}
	if a.program {
		add("_start", typeStart, nil)
	}
	exports = append(exports, append(text("memory"), 2, 0))
	if a.extra != "" {
		exports = append(exports, append(text(a.extra), 2, 0))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, types...)
	out = append(out, section(2, list(imports))...)
	out = append(out, section(3, list(funcs))...)
	if a.table {
		out = append(out, section(4, []byte{1, 0x70, 0, 1})...)
	}
	out = append(out, section(5, append([]byte{1, 0}, uleb(a.pages)...))...)
	out = append(out, section(7, list(exports))...)
	out = append(out, section(10, list(bodies))...)
	if a.data != "" {
		out = append(out, section(11, append([]byte{1, 0}, append(append(i32(1024), 0x0b), text(a.data)...)...))...)
	}
	return out
}

// Instructions.
func i32(n int32) []byte      { return append([]byte{0x41}, sleb(n)...) }
func call(f byte) []byte      { return []byte{0x10, f} }
func local(n byte) []byte     { return []byte{0x20, n} }
func code(p ...[]byte) []byte { return flat(p) }

var (
	drop        = []byte{0x1a}
	wrap        = []byte{0xa7}                               // i64 → i32
	forever     = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b, 0x00} // loop br 0 end unreachable
	unreachable = []byte{0x00}
)

func section(id byte, body []byte) []byte {
	return append(append([]byte{id}, uleb(uint64(len(body)))...), body...)
}

func list(items [][]byte) []byte { return append(uleb(uint64(len(items))), flat(items)...) }

func text(s string) []byte { return append(uleb(uint64(len(s))), s...) }

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func sleb(n int32) (b []byte) {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func flat(p [][]byte) (b []byte) {
	for _, x := range p {
		b = append(b, x...)
	}
	return b
}
