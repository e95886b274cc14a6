package wasm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// frozen opens wild and takes the image.
func frozen(t testing.TB) *Module {
	t.Helper()
	m := wild(t, Config{})
	if _, err := m.Call(t.Context(), wire.MethodDescribe, nil, refuse); err != nil {
		t.Fatal(err)
	}
	if ok, why := m.Frozen(); !ok || why != nil {
		t.Fatalf("no image: %v", why)
	}
	return m
}

// plain hides the image while f runs, so that instances are started.
func (m *Module) plain(f func()) {
	img := m.image.Swap(nil)
	defer m.image.Store(img)
	f()
}

// TestImageIsTheSameMachine: what a started instance answers, prints and says of the
// world is what one from the image does, and one that was set back, whatever it
// served.
func TestImageIsTheSameMachine(t *testing.T) {
	m := frozen(t)
	runs := func(context.Context, uint32, []byte) ([]byte, error) {
		return wire.Marshal(&sdk.RunResponse{Logs: []sdk.Log{{Output: "ran"}}}), nil
	}
	type outcome struct {
		out     []byte
		err     string
		reason  transport.Reason
		printed string
	}
	ask := func(i *instance, in []byte) (o outcome) {
		out, err := i.call(t.Context(), wire.MethodEvaluate, in, runs)
		o.out = out
		var f *transport.Failure
		if errors.As(err, &f) {
			o.err, o.reason, o.printed = f.Error(), f.Reason, f.Printed
		}
		return o
	}
	fresh := func() *instance {
		i, err := m.instantiate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(i.close)
		return i
	}
	used := fresh()
	for _, p := range []string{"world", "count", "environment", "echo", "prison", "run", "error", "nil", "panic", "exit", "deadlock", "recurse", "world", "count"} {
		in := prompt(p, "a word")
		var plain *instance
		m.plain(func() { plain = fresh() })
		if plain.memory.image != nil {
			t.Fatal("the plain one comes from the image")
		}
		want := ask(plain, in)
		clone := fresh()
		if clone.memory.image == nil {
			t.Fatal("the clone does not come from the image")
		}
		got, again := ask(clone, in), ask(used, in)
		for way, o := range map[string]outcome{"from the image": got, "set back": again} {
			if !bytes.Equal(o.out, want.out) || o.err != want.err || o.reason != want.reason {
				t.Errorf("%s, %s: %q %s\nstarted: %q %s", p, way, o.out, o.err, want.out, want.err)
			}
			// A trace names addresses, which depend on how the memory was used.
			if p != "recurse" && o.printed != want.printed {
				t.Errorf("%s, %s: printed %q\nstarted: %q", p, way, o.printed, want.printed)
			}
		}
		if plain.clock != clone.clock || p != "recurse" && plain.guest.Memory().Size() != clone.guest.Memory().Size() {
			t.Errorf("%s: clock %v and %v", p, plain.clock, clone.clock)
		}
		if again.err != "" || !used.reset() {
			used = fresh()
		}
	}
}

// TestResetWithoutList sets back where the kernel gives no list of changed pages, and
// where too many were changed.
func TestResetWithoutList(t *testing.T) {
	m := frozen(t)
	s := m.image.Load().memory
	pages := s.pages
	for _, way := range []string{"list", "no list", "list"} {
		if s.pages = pages; way == "no list" {
			s.pages = nil
		}
		for range 3 {
			for _, n := range []int{10, 3 << 20} { // the second is more than is copied back
				in := prompt("echo", string(bytes.Repeat([]byte("x"), n)))
				var v sdk.Verdict
				out, err := m.Call(t.Context(), wire.MethodEvaluate, in, refuse)
				if err == nil {
					err = wire.Unmarshal(out, &v)
				}
				if err != nil || len(v.Reason) != n {
					t.Fatalf("%s: %d bytes, %v", way, len(v.Reason), err)
				}
			}
			out, err := m.Call(t.Context(), wire.MethodEvaluate, prompt("count", ""), refuse)
			var v sdk.Verdict
			if err == nil {
				err = wire.Unmarshal(out, &v)
			}
			if err != nil || v.Reason != "1" {
				t.Fatalf("%s: something carried over: %q, %v", way, v.Reason, err)
			}
		}
	}
	s.pages = pages
}

// TestEveryPageIsSetBack compares all of an instance's memory with the image.
func TestEveryPageIsSetBack(t *testing.T) {
	m := frozen(t)
	i, err := m.instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	img := m.image.Load()
	for _, n := range []int{0, 1 << 10, 1 << 20, 0} {
		if _, err := i.call(t.Context(), wire.MethodEvaluate, prompt("echo", string(make([]byte, n))), refuse); err != nil {
			t.Fatal(err)
		}
		if b, _ := i.guest.Memory().Read(0, img.size); bytes.Equal(b, img.memory.bytes) {
			t.Fatal("the call left no trace to undo")
		}
		if !i.reset() {
			t.Fatalf("%d bytes: not set back", n)
		}
		if b, _ := i.guest.Memory().Read(0, img.size); !bytes.Equal(b, img.memory.bytes) {
			t.Errorf("%d bytes: memory differs from the image", n)
		}
		for k, g := range i.globals {
			if g.Get() != img.globals[k] {
				t.Errorf("%d bytes: global %d differs", n, k)
			}
		}
	}
}

// TestFallBack: a module of which no image is taken serves as well, stops at its
// deadline, and it is known why.
func TestFallBack(t *testing.T) {
	changes := skill(code(i32(0), []byte{0xd0, 0x70, 0x26, 0}, echo)) // table.set
	changes.table = true
	reserved := skill(echo)
	reserved.extra = "valence:0"
	empty := skill(code(i32(0), i32(0), call(output), i32(0)))
	empty.pages = 0
	for _, c := range []struct {
		name  string
		a     assembly
		words string
		in    string
	}{
		{"table", changes, "function 0 uses table.set", "request"},
		{"reserved name", reserved, `the module is not understood: export "valence:0" has a reserved name`, "request"},
		{"no memory", empty, "its memory is empty", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := open(t, c.a, Config{})
			for range 3 {
				if out, err := m.Call(t.Context(), 1, []byte(c.in), refuse); err != nil || string(out) != c.in {
					t.Fatalf("%q, %v", out, err)
				}
			}
			if ok, why := m.Frozen(); ok || why == nil || why.Error() != c.words {
				t.Errorf("frozen %v: %v; want: %s", ok, why, c.words)
			}
			c.a.call = code(i32(0), forever)
			m = open(t, c.a, Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := m.Call(ctx, 1, nil, refuse)
			fails(t, err, transport.ReasonDeadline, "deadline")
		})
	}
}

// TestImageCannotBeMapped: instances are started instead.
func TestImageCannotBeMapped(t *testing.T) {
	m := frozen(t)
	img := *m.image.Load()
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	img.memory = &snapshot{file: closed, bytes: img.memory.bytes}
	whole := m.image.Swap(&img)
	defer m.image.Store(whole)
	i, err := m.instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	if i.memory.image != nil {
		t.Error("passes for one from the image")
	}
	if _, err := i.call(t.Context(), wire.MethodEvaluate, prompt("echo", "x"), refuse); err != nil {
		t.Error(err)
	}
	if i.reset() {
		t.Error("was set back to what it did not begin with")
	}
}

// TestImageHasAWholeCount: what the start used up is not missing from each call.
func TestImageHasAWholeCount(t *testing.T) {
	globals := frozen(t).image.Load().globals
	if n := globals[len(globals)-1]; n != budget {
		t.Errorf("calls begin with a count of %d, want %d", n, budget)
	}
}
