package binary

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"pgregory.net/rapid"
)

// FuzzRewrite: no bytes end the reader, and a module that a compiler takes is taken
// after each change, too.
func FuzzRewrite(f *testing.F) {
	f.Add(rich())
	f.Add([]byte(header))
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	valid := func(code []byte) error {
		c, err := r.CompileModule(ctx, code)
		if err == nil {
			c.Close(ctx)
		}
		return err
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		m, err := Parse(code)
		if err != nil {
			return
		}
		before := valid(code)
		m.Freezable()
		if before == nil {
			if err := valid(m.Bytes()); err != nil {
				t.Fatalf("written again: %v", err)
			}
		}
		if m.Meter("host", "refill", 1000) != nil {
			return
		}
		if _, err := m.Open("\x00:"); err != nil {
			return
		}
		if err := valid(m.Bytes()); err != nil && before == nil {
			t.Fatalf("metered and opened: %v", err)
		}
	})
}

// program draws a body of run(n) in structured code that always ends. Locals: 0 is n,
// 1 the result so far, from 2 on one counter for each depth of loops.
type program struct {
	t     *rapid.T
	depth int
}

const counters = 3

func (p *program) block() (b []byte) {
	for range rapid.IntRange(1, 4).Draw(p.t, "statements") {
		b = append(b, p.statement()...)
	}
	return b
}

// mix folds the value on top of the stack into the result.
var mix = op(opLocalGet, 1, 0x73, 0x21, 1) // xor

func (p *program) statement() []byte {
	n := rapid.Int32Range(0, 60).Draw(p.t, "n")
	switch rapid.IntRange(0, 9).Draw(p.t, "statement") {
	case 0:
		return cat(op(opLocalGet, 1), i32(31), op(0x6c), i32(n), op(0x6a, 0x21, 1))
	case 1:
		return cat(i32(4*n), op(opLocalGet, 1), op(0x36, 2, 0))
	case 2:
		return cat(i32(n), op(0x28, 2, 0), mix)
	case 3:
		return cat(i32(n), op(opLocalGet, 1), i32(n), op(0xfc, 11, 0))
	case 4:
		return cat(i32(n), i32(90), i32(n), op(0xfc, 10, 0, 0))
	case 5:
		return cat(op(opLocalGet, 1, opCall, 2), mix)
	case 6:
		if p.depth < counters {
			counter := byte(2 + p.depth)
			p.depth++
			body := p.block()
			p.depth--
			return cat(i32(n%7+1), op(0x21, counter, opLoop, 0x40), body,
				op(opLocalGet, counter), i32(1), op(0x6b, opLocalTee, counter, opBrIf, 0, opEnd))
		}
	case 7:
		return cat(op(opLocalGet, 1), i32(1), op(0x71, opIf, 0x40), p.block(), op(opElse), p.block(), op(opEnd))
	case 8:
		return cat(op(opBlock, 0x40, opLocalGet, 0), i32(n), op(0x4a, opBrIf, 0), p.block(), op(opEnd))
	}
	return cat(op(opGlobalGet, 0), i32(n), op(0x6a, opGlobalSet, 0, opGlobalGet, 0), mix)
}

// TestMeteredProgramsComputeTheSame compares drawn programs with what becomes of them.
func TestMeteredProgramsComputeTheSame(t *testing.T) {
	original, counted := newMachine(t, wazero.NewRuntimeConfigInterpreter()), newMachine(t, wazero.NewRuntimeConfigInterpreter())
	counted.budget = 10
	rapid.Check(t, func(r *rapid.T) {
		p := &program{t: r}
		body := p.block()
		module := cat([]byte(header),
			sect(sectionType, vec(op(0x60, 0, 0), op(0x60, 1, byte(I32), 1, byte(I32)))),
			sect(sectionImport, vec(cat(text("env"), text("tell"), op(kindFunction, 0)))),
			sect(sectionFunction, vec(op(1), op(1))),
			sect(sectionMemory, vec(op(0, 1))),
			sect(sectionGlobal, vec(cat(op(byte(I32), 1), i32(0), op(opEnd)))),
			sect(sectionExport, vec(cat(text("run"), op(kindFunction, 1)), cat(text("count"), op(kindGlobal, 0)))),
			sect(sectionCode, vec(
				code(1+counters, body, op(opLocalGet, 1)),
				code(0, op(opLocalGet, 0, opLocalGet, 0, 0x6a)))))
		a, b := original.start(t, module), counted.start(t, metered(t, module, 10))
		n := uint64(rapid.IntRange(0, 70).Draw(r, "input"))
		if x, y := outcome(t, a, n), outcome(t, b, n); x != y {
			r.Errorf("%s\nmetered: %s", x, y)
		}
		a.Close(context.Background())
		b.Close(context.Background())
	})
	if counted.refills == 0 {
		t.Error("never refilled")
	}
}
