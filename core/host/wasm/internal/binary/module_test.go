package binary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// machine runs modules that import env.tell and, once metered, host.refill.
type machine struct {
	wazero.Runtime
	told    int // calls of tell
	refills int
	budget  int64
	limit   int // the refill that ends the guest; 0: none does
}

var errEnough = errors.New("enough")

func newMachine(t testing.TB, c wazero.RuntimeConfig) *machine {
	t.Helper()
	m := &machine{Runtime: wazero.NewRuntimeWithConfig(t.Context(), c)}
	t.Cleanup(func() { m.Close(context.Background()) })
	define := func(module, name string, results []api.ValueType, f func(s []uint64)) {
		b := m.NewHostModuleBuilder(module)
		b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, s []uint64) { f(s) }), nil, results).Export(name)
		if _, err := b.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	define("env", "tell", nil, func([]uint64) { m.told++ })
	define("host", "refill", []api.ValueType{api.ValueTypeI64}, func(s []uint64) {
		if m.refills++; m.refills == m.limit {
			panic(errEnough)
		}
		s[0] = uint64(m.budget)
	})
	return m
}

// metered rewrites code.
func metered(t testing.TB, code []byte, budget int64) []byte {
	t.Helper()
	m, err := Parse(code)
	if err == nil {
		err = m.Meter("host", "refill", budget)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Bytes()
}

func (m *machine) start(t testing.TB, code []byte) api.Module {
	t.Helper()
	guest, err := m.InstantiateWithConfig(t.Context(), code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close(context.Background()) })
	return guest
}

// outcome is what can be seen of run(n): result or trap, memory, the global.
func outcome(t testing.TB, guest api.Module, n uint64) string {
	t.Helper()
	out, err := guest.ExportedFunction("run").Call(t.Context(), n)
	said := fmt.Sprint(out)
	if err != nil {
		said, _, _ = strings.Cut(err.Error(), "\n")
	}
	memory, _ := guest.Memory().Read(0, guest.Memory().Size())
	return fmt.Sprintf("%s %x %d", said, sum(memory), guest.ExportedGlobal("count").Get())
}

func sum(b []byte) (h uint64) {
	for i, x := range b {
		h = h*31 + uint64(x)*uint64(i+1)
	}
	return h
}

func TestUnchanged(t *testing.T) {
	m, err := Parse(rich())
	if err != nil {
		t.Fatal(err)
	}
	whole := rich()
	notes := sect(sectionCustom, cat(text("notes"), op(1, 2, 3)))
	if got := m.Bytes(); !bytes.Equal(got, bytes.TrimSuffix(whole, notes)) {
		t.Errorf("read and written again, the module is another one:\n%x\n%x", got, whole)
	}
}

func TestMeter(t *testing.T) {
	original, counted := newMachine(t, wazero.NewRuntimeConfig()), newMachine(t, wazero.NewRuntimeConfig())
	counted.budget = 100
	a, b := original.start(t, rich()), counted.start(t, metered(t, rich(), 100))
	for _, n := range []uint64{1, 2, 3, 1000} {
		if x, y := outcome(t, a, n), outcome(t, b, n); x != y {
			t.Errorf("run(%d): %s\nmetered: %s", n, x, y)
		}
	}
	if original.told != counted.told || original.told == 0 {
		t.Errorf("told %d times, metered %d", original.told, counted.told)
	}
	if counted.refills < 100 { // 1,006 times round a loop of more than ten instructions
		t.Errorf("%d refills", counted.refills)
	}
}

// TestMeterSeesEveryWayToGoOn: whatever computes without end comes by a refill.
func TestMeterSeesEveryWayToGoOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		bodies [][]byte // of functions () → () from 0 on; the import is moved out of the way
	}{
		{"loop", [][]byte{code(0, op(opLoop, 0x40, opBr, 0, opEnd))}},
		{"loop in a block after a condition", [][]byte{code(0, i32(1), op(opIf, 0x40, opBlock, 0x40, opLoop, 0x40, opBr, 0, opEnd, opEnd, opEnd))}},
		{"recursion", [][]byte{code(0, op(opCall, 0))}},
		{"recursion by turns", [][]byte{code(0, op(opCall, 1)), code(0, op(opCall, 0))}},
		{"recursion through the table", [][]byte{code(0, i32(0), op(opCallIndirect, 0, 0))}},
		{"recursion behind a loop that is left", [][]byte{code(0, op(opLoop, 0x40, opEnd, opCall, 0))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var types [][]byte
			for range c.bodies {
				types = append(types, op(0))
			}
			module := cat([]byte(header),
				sect(sectionType, vec(op(0x60, 0, 0))),
				sect(sectionFunction, vec(types...)),
				sect(sectionTable, vec(op(byte(funcRef), 0, 1))),
				sect(sectionExport, vec(cat(text("run"), op(kindFunction, 0)))),
				sect(sectionElement, vec(cat(op(0), i32(0), op(opEnd), vec(op(0))))),
				sect(sectionCode, vec(c.bodies...)))
			m := newMachine(t, wazero.NewRuntimeConfig())
			m.budget = -1 << 40 // each check refills
			guest := m.start(t, metered(t, module, 1000))
			m.limit = 50
			if _, err := guest.ExportedFunction("run").Call(t.Context()); !errors.Is(err, errEnough) {
				t.Errorf("after %d refills: %v", m.refills, err)
			}
		})
	}
}

// TestBulkIsWeighed: moving memory counts by its length.
func TestBulkIsWeighed(t *testing.T) {
	fill := func(n int32) []byte {
		return cat([]byte(header),
			sect(sectionType, vec(op(0x60, 1, byte(I32), 1, byte(I32)))),
			sect(sectionFunction, vec(op(0))),
			sect(sectionMemory, vec(op(0, 16))),
			sect(sectionGlobal, vec(cat(op(byte(I32), 1), i32(0), op(opEnd)))),
			sect(sectionExport, vec(cat(text("run"), op(kindFunction, 0)), cat(text("count"), op(kindGlobal, 0)))),
			sect(sectionCode, vec(code(0, i32(0), i32(1), i32(n), op(0xfc, 11, 0), i32(0)))))
	}
	for _, c := range []struct {
		bytes   int32
		refills int
	}{{0, 0}, {8 * 1000, 0}, {8 * 1001, 1}, {1 << 20, 1}} {
		m := newMachine(t, wazero.NewRuntimeConfig())
		m.budget = 1000
		outcome(t, m.start(t, metered(t, fill(c.bytes), 1000)), 0)
		if m.refills != c.refills {
			t.Errorf("%d bytes: %d refills, want %d", c.bytes, m.refills, c.refills)
		}
	}
}

// TestOpen: a module that was opened reaches, in the host's hands, the state that it
// had reached alone; another instance is put into that state.
func TestOpen(t *testing.T) {
	m := newMachine(t, wazero.NewRuntimeConfig())
	alone := m.start(t, rich())
	p, err := Parse(rich())
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open("x:")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Data) != 1 || s.Data[0].Offset != 4 || string(s.Data[0].Bytes) != "active" || s.Start != "x:start" || !slices.Equal(s.Globals, []string{"x:0", "x:1"}) {
		t.Errorf("%+v", s)
	}
	opened := p.Bytes()
	led := m.start(t, opened)
	if b, _ := led.Memory().Read(4, 6); string(b) != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("the memory already has %q", b)
	}
	for _, d := range s.Data {
		led.Memory().Write(d.Offset, d.Bytes)
	}
	if _, err := led.ExportedFunction(s.Start).Call(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := m.start(t, opened)
	all, _ := led.Memory().Read(0, led.Memory().Size())
	copied.Memory().Write(0, all)
	for _, g := range s.Globals {
		copied.ExportedGlobal(g).(api.MutableGlobal).Set(led.ExportedGlobal(g).Get())
	}
	want := outcome(t, alone, 9)
	for name, guest := range map[string]api.Module{"led": led, "copied": copied} {
		if got := outcome(t, guest, 9); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := mustParse(t, opened).Open("x:"); err == nil || !strings.Contains(err.Error(), `"x:`) {
		t.Errorf("opened again: %v", err)
	}
}

// TestDataThatNobodyRefersTo is left out: each segment costs at every instantiation.
func TestDataThatNobodyRefersTo(t *testing.T) {
	module := cat([]byte(header),
		sect(sectionMemory, vec(op(0, 1))),
		sect(sectionDataCount, op(2)),
		sect(sectionData, vec(
			cat(op(dataActive), i32(0), op(opEnd), text("a")),
			cat(op(dataActive), i32(9), op(opEnd), text("b")))))
	m := mustParse(t, module)
	s, err := m.Open("x:")
	if want := cat([]byte(header), sect(sectionMemory, vec(op(0, 1)))); err != nil || len(s.Data) != 2 || !bytes.Equal(m.Bytes(), want) {
		t.Errorf("%+v, %v: %x", s, err, m.Bytes())
	}
}

func mustParse(t testing.TB, code []byte) *Module {
	t.Helper()
	m, err := Parse(code)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFreezable(t *testing.T) {
	memory := sect(sectionMemory, vec(op(0, 1)))
	table := sect(sectionTable, vec(op(byte(funcRef), 0, 1)))
	with := func(body ...[]byte) []byte {
		return cat([]byte(header), sect(sectionType, vec(op(0x60, 0, 0))), sect(sectionFunction, vec(op(0))), table, memory,
			sect(sectionDataCount, op(1)), sect(sectionCode, vec(code(0, body...))), sect(sectionData, vec(cat(op(dataPassive), text("p")))))
	}
	imports := func(what ...byte) []byte {
		return cat([]byte(header), sect(sectionImport, vec(cat(text("env"), text("it"), what))), memory)
	}
	global := func(what ...byte) []byte { return cat([]byte(header), memory, sect(sectionGlobal, vec(what))) }
	zero := make([]byte, 16)
	for _, c := range []struct {
		name string
		code []byte
		want string // "" if it can be frozen
	}{
		{"memory", cat([]byte(header), memory), ""},
		{"no memory", []byte(header), "it has 0 memories"},
		{"shared memory", cat([]byte(header), sect(sectionMemory, vec(op(3, 1, 1)))), "it has a shared memory"},
		{"imported memory", imports(kindMemory, 0, 1), "imports it of env"},
		{"imported table", imports(kindTable, byte(funcRef), 0, 1), "imports it of env"},
		{"imported global", imports(kindGlobal, byte(I32), 0), "imports it of env"},
		{"floating point", global(cat(op(byte(F32), 1, opF32Const), zero[:4], op(opEnd))...), ""},
		{"vector that stays", global(cat(op(byte(V128), 0, 0xfd, 12), zero, op(opEnd))...), ""},
		{"vector that changes", global(cat(op(byte(V128), 1, 0xfd, 12), zero, op(opEnd))...), "global 0 holds no number"},
		{"reference that changes", global(byte(funcRef), 1, opRefNull, byte(funcRef), opEnd), "global 0 holds no number"},
		{"table is read", with(op(0xfc, 16, 0, 0x1a)), ""},
		{"memory.init", with(i32(0), i32(0), i32(0), op(0xfc, 8, 0, 0)), ""},
		{"table.set", with(i32(0), op(opRefNull, byte(funcRef), opTableSet, 0)), "function 0 uses table.set"},
		{"table.grow", with(op(opRefNull, byte(funcRef)), i32(0), op(0xfc, 15, 0, 0x1a)), "function 0 uses table.grow"},
		{"data.drop", with(op(0xfc, 9, 0)), "function 0 uses data.drop"},
	} {
		err := mustParse(t, c.code).Freezable()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	function := func(body ...byte) []byte {
		return cat([]byte(header), sect(sectionType, vec(op(0x60, 0, 0))), sect(sectionFunction, vec(op(0))), sect(sectionCode, vec(sized(op(0), body))))
	}
	for _, c := range []struct {
		name string
		code []byte
		want string
	}{
		{"nothing", nil, "invalid header"},
		{"a later version", []byte("\x00asm\x02\x00\x00\x00"), "invalid header"},
		{"cut", rich()[:len(rich())-3], "ends too early"},
		{"section out of order", cat([]byte(header), sect(sectionMemory, vec()), sect(sectionType, vec())), "section 1 is out of order"},
		{"section twice", cat([]byte(header), sect(sectionType, vec()), sect(sectionType, vec())), "section 1 is out of order"},
		{"tags", cat([]byte(header), sect(13, vec())), "unknown section 13"},
		{"rest in a section", cat([]byte(header), sect(sectionType, op(0, 0))), "longer than its content"},
		{"declared only", cat([]byte(header), sect(sectionType, vec(op(0x60, 0, 0))), sect(sectionFunction, vec(op(0)))), "1 functions are declared and 0 defined"},
		{"type of a struct", cat([]byte(header), sect(sectionType, vec(op(0x5f, 0)))), "another form 0x5f"},
		{"64-bit memory", cat([]byte(header), sect(sectionMemory, vec(op(4, 1)))), "limits of kind 4"},
		{"a second memory", function(opI32Const, 0, 0x28, 0x42, 0, 0, 0x1a, opEnd), "alignment 66"},
		{"exceptions", function(0x08, 0, opEnd), "unknown instruction 0x8"},
		{"atomics", function(0xfe, 0x10, 0, 0, opEnd), "unknown instruction 0xfe"},
		{"relaxed vectors", function(0xfd, 0x80, 0x02, opEnd), "behind a prefix"},
		{"code behind the end", function(opEnd, opNop), "goes on behind its end"},
		{"no end", function(opNop), "ends too early"},
		{"data at a place to be computed", cat([]byte(header), sect(sectionData, vec(op(0, opGlobalGet, 0, opEnd, 0)))), "to be computed"},
		{"a computing constant", cat([]byte(header), sect(sectionGlobal, vec(op(byte(I32), 0, opCall, 0, opEnd)))), "in a constant"},
	} {
		if _, err := Parse(c.code); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
