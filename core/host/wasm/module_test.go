package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/host/transport"
)

// The functions of skill_v1 in the order in which skill imports them.
const (
	input = iota
	output
	hostCall
	hostResult
)

// skill is a module with all imports whose skill_v1_call has this body.
func skill(body []byte) assembly {
	return assembly{
		imports: []string{"skill_v1 input", "skill_v1 output", "skill_v1 host_call", "skill_v1 host_result"},
		pages:   2, call: body,
	}
}

// echo answers with its request.
var echo = code(i32(2048), local(1), call(input), i32(2048), local(1), call(output), i32(0))

func open(t testing.TB, a assembly, c Config) *Module {
	t.Helper()
	m, err := Open(t.Context(), a.bytes(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

func refuse(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("refused") }

// fails checks how a call failed.
func fails(t *testing.T, err error, reason transport.Reason, words string) *transport.Failure {
	t.Helper()
	var f *transport.Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want a *transport.Failure", err)
	}
	if f.Reason != reason || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %s: %s", f.Reason, err, reason, words)
	}
	return f
}

func TestEcho(t *testing.T) {
	m := open(t, skill(echo), Config{})
	for n := range 3 {
		in := bytes.Repeat([]byte("ab"), n*1000)
		out, err := m.Call(t.Context(), 3, in, refuse)
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%d bytes: %q, %v", len(in), out, err)
		}
	}
}

// TestHostCall sends the request to the host under the method's own number, and
// answers with the reply.
func TestHostCall(t *testing.T) {
	m := open(t, skill(code(
		i32(2048), local(1), call(input),
		// The reply's length is stored at 0, since there are no locals but parameters.
		i32(0), local(0), i32(2048), local(1), call(hostCall), wrap, []byte{0x36, 2, 0},
		i32(4096), i32(0), []byte{0x28, 2, 0}, call(hostResult),
		i32(4096), i32(0), []byte{0x28, 2, 0}, call(output),
		i32(0),
	)), Config{})
	out, err := m.Call(t.Context(), 7, []byte("question"), func(_ context.Context, method uint32, in []byte) ([]byte, error) {
		return fmt.Appendf(nil, "%d %s answer", method, in), nil
	})
	if err != nil || string(out) != "7 question answer" {
		t.Errorf("%q, %v", out, err)
	}
	// An error's text comes the same way, marked by the sign that this guest drops.
	out, err = m.Call(t.Context(), 7, nil, refuse)
	if err != nil || string(out) != "refused" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestBreaches(t *testing.T) {
	far := int32(-16) // 16 bytes before the end of the address space
	for _, c := range []struct {
		name   string
		body   []byte
		reason transport.Reason
		words  string
	}{
		{"status", code(i32(1024), i32(5), call(output), i32(1)), transport.ReasonError, "hello"},
		{"status and no text", i32(-1), transport.ReasonError, ""},
		{"panic", code(i32(1029), i32(9), call(output), i32(1)), transport.ReasonPanic, "panic: oh"},
		{"unreachable", unreachable, transport.ReasonTrap, "unreachable"},
		{"output from outside", code(i32(far), i32(100), call(output), i32(0)), transport.ReasonTrap, "output: 100 bytes at 4294967280 are not in memory"},
		{"output too large", code(i32(0), i32(-1), call(output), i32(0)), transport.ReasonTrap, "output: message of 4294967295 bytes"},
		{"input to outside", code(i32(far), local(1), call(input), i32(0)), transport.ReasonTrap, "input: 2 bytes at 4294967280"},
		{"input of another length", code(i32(0), i32(1), call(input), i32(0)), transport.ReasonTrap, "input: asks for 1 bytes of 2"},
		{"call from outside", code(i32(1), i32(far), i32(100), call(hostCall), drop, i32(0)), transport.ReasonTrap, "host_call: 100 bytes"},
		{"result of another length", code(i32(1), i32(0), i32(0), call(hostCall), drop, i32(0), i32(99), call(hostResult), i32(0)), transport.ReasonTrap, "host_result: asks for 99 bytes of 7"},
		{"result before a call", code(i32(0), i32(1), call(hostResult), i32(0)), transport.ReasonTrap, "host_result: asks for 1 bytes of 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := skill(c.body)
			a.data = "hellopanic: oh"
			m := open(t, a, Config{})
			for range 2 { // the second call must not feel the first
				out, err := m.Call(t.Context(), 1, []byte("in"), refuse)
				fails(t, err, c.reason, c.words)
				if out != nil {
					t.Errorf("an answer beside the error: %q", out)
				}
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	foreign := skill(echo)
	foreign.imports[0] = "env input"
	later := skill(echo)
	later.imports[0] = "skill_v2 input"
	unknown := skill(echo)
	unknown.imports[0] = "skill_v1 peek"
	other := skill(code(local(0)))
	other.oneArg = true
	program := assembly{pages: 1, program: true}
	for _, c := range []struct {
		name  string
		code  []byte
		words string
	}{
		{"nothing", nil, "invalid magic"},
		{"a text", []byte("name = 1"), "invalid magic"},
		{"cut short", skill(echo).bytes()[:60], ""},
		{"no export", assembly{pages: 1}.bytes(), "no export skill_v1_call"},
		{"program", program.bytes(), "-buildmode=c-shared"},
		{"signature", other.bytes(), "another signature"},
		{"foreign import", foreign.bytes(), "imports input of env, which a plugin is not given"},
		{"later ABI", later.bytes(), "imports input of skill_v2, this host offers skill_v1"},
		{"unknown import", unknown.bytes(), "imports peek of skill_v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.code, Config{})
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
	if _, err := Open(t.Context(), skill(echo).bytes(), Config{Memory: -1}); err == nil {
		t.Error("takes a negative memory limit")
	}
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		start  []byte
		pages  uint64
		reason transport.Reason
		words  string
	}{
		{"loop", forever, 2, transport.ReasonDeadline, "start: "},
		{"trap", unreachable, 2, transport.ReasonTrap, "start: "},
		{"asks the host", code(i32(1), i32(0), i32(0), call(hostCall), drop), 2, transport.ReasonTrap, "start: host_call outside of a call"},
		{"too large", nil, 64, transport.ReasonMemory, "start: more than 1 MiB of memory wanted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := skill(echo)
			a.start, a.pages = c.start, c.pages
			m := open(t, a, Config{Memory: 1 << 20})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if c.reason != transport.ReasonDeadline {
				ctx = t.Context()
			}
			_, err := m.Call(ctx, 1, nil, refuse)
			if f := fails(t, err, c.reason, c.words); !f.Starting {
				t.Error("not marked as starting")
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	m := open(t, skill(forever), Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := m.Call(ctx, 1, nil, refuse)
	fails(t, err, transport.ReasonDeadline, "deadline exceeded")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = m.Call(ctx, 1, nil, refuse)
	fails(t, err, transport.ReasonCancelled, "canceled")
}

// TestMemory grows by one page at a time until the host refuses; the guest that
// lives with the refusal is served.
func TestMemory(t *testing.T) {
	// loop: memory.grow(1) ≠ -1 → again
	grow := []byte{0x03, 0x40, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b}
	size := code(i32(0), []byte{0x3f, 0}, []byte{0x36, 2, 0}, i32(0), i32(4), call(output), i32(0))
	m := open(t, skill(code(grow, size)), Config{Memory: 10*page + 1})
	for n := range 3 { // the first one starts, the others come from the image
		out, err := m.Call(t.Context(), 1, nil, refuse)
		if err != nil || !bytes.Equal(out, []byte{11, 0, 0, 0}) {
			t.Errorf("call %d: %v pages, %v; want 11", n, out, err)
		}
	}
	m = open(t, skill(code(grow, unreachable)), Config{Memory: 10 * page})
	_, err := m.Call(t.Context(), 1, nil, refuse)
	fails(t, err, transport.ReasonMemory, "memory wanted")
}

// TestLinear holds both ways to provide memory to one promise: what was given
// stays, what is new is zero.
func TestLinear(t *testing.T) {
	for _, way := range []string{"mapped", "heap"} {
		l := &linear{limit: 8 * page}
		if way == "mapped" {
			l.Allocate(0, 0)
		}
		for n := uint64(1); n <= 8; n++ {
			b := l.Reallocate(n * page)
			if uint64(len(b)) != n*page {
				t.Fatalf("%s: %d bytes, want %d pages", way, len(b), n)
			}
			for k := range n {
				want := byte(k + 1)
				if k == n-1 {
					want = 0
				}
				if b[k*page] != want {
					t.Fatalf("%s: page %d of %d starts with %d, want %d", way, k, n, b[k*page], want)
				}
			}
			b[(n-1)*page] = byte(n)
		}
		if l.refused || l.Reallocate(9*page) != nil || !l.refused {
			t.Errorf("%s: the limit does not hold", way)
		}
		l.Free()
		l.Free()
	}
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, skill(echo), Config{Cache: dir})
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) == 0 {
		t.Fatalf("nothing in the cache: %v", err)
	} else {
		for _, f := range files { // a cache that was damaged must not matter
			if err := os.WriteFile(f, []byte("damaged"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []string{dir, "/dev/null/x"} {
		m := open(t, skill(echo), Config{Cache: c})
		if out, err := m.Call(t.Context(), 1, []byte("x"), refuse); err != nil || string(out) != "x" {
			t.Errorf("cache %s: %q, %v", c, out, err)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	m := open(t, skill(echo), Config{Warm: 4})
	var all sync.WaitGroup
	for g := range 32 {
		all.Go(func() {
			for n := range 20 {
				in := fmt.Sprint(g, " ", n)
				if out, err := m.Call(t.Context(), 1, []byte(in), refuse); err != nil || string(out) != in {
					t.Errorf("%q, %v", out, err)
				}
			}
		})
	}
	all.Wait()
}

func TestClock(t *testing.T) {
	var c clock
	s0, _ := c.wall()
	for range 40 {
		c.sleep(1 << 62)
	}
	if now := c.mono(); now < 0 || now != c.mono() {
		t.Error("the clock runs beyond its horizon")
	}
	if s, _ := c.wall(); s < s0 {
		t.Error("the clock runs backwards")
	}
}
