package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/valence-rl/valence/core/host/transport"
)

// Calls of the host that obedient makes at most, and the bytes that describe one.
const (
	orders    = 6
	orderSize = 16
)

// obedient calls the host with whatever arguments its request says: orders of four
// numbers, the function and up to three arguments. The first byte after them is its
// own result.
func obedient() assembly {
	load := func(at int32) []byte { return code(i32(at), []byte{0x28, 2, 0}) }
	body := code(i32(0), local(1), call(input))
	for n := range int32(orders) {
		at := n * orderSize
		for f, args := range []int32{input: 2, output: 2, hostCall: 3, hostResult: 2} {
			body = code(body, load(at), i32(int32(f)), []byte{0x46, 0x04, 0x40}) // i32.eq if
			for a := range args {
				body = code(body, load(at+4+4*a))
			}
			if body = code(body, call(byte(f))); f == hostCall {
				body = code(body, drop)
			}
			body = code(body, []byte{0x0b})
		}
	}
	return skill(code(body, i32(orders*orderSize), []byte{0x2d, 0, 0})) // i32.load8_u
}

// FuzzABI: whatever a guest asks of the host ends in an answer or in a failure that is
// the guest's, and the host's own memory is not in the answer.
func FuzzABI(f *testing.F) {
	seed := func(status byte, n ...uint32) {
		b := make([]byte, orders*orderSize+1)
		for i, v := range n {
			binary.LittleEndian.PutUint32(b[4*i:], v)
		}
		b[len(b)-1] = status
		f.Add(b)
	}
	const none = 9
	seed(0, output, 0, 8, 0, none)
	seed(1, output, 0, 8, 0, none)
	seed(0, hostCall, 1, 0, 50, hostResult, 1000, 50, 0, output, 1000, 50, 0)
	seed(0, hostCall, 1, 0, 7, hostResult, 1000, 7, 0, output, 1000, 7, 0)
	seed(0, output, 0xfffffff0, 32, 0, none)
	seed(0, output, 0, 1<<27, 0, none)
	seed(0, input, 65536, 97, 0, none)
	m, err := Open(context.Background(), obedient().bytes(), Config{})
	if err != nil {
		f.Fatal(err)
	}
	defer m.Close()
	i, err := m.fresh(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	i.close()
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > page {
			return
		}
		i, err := m.instantiate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer i.close()
		out, err := i.call(t.Context(), 1, in, func(_ context.Context, method uint32, q []byte) ([]byte, error) {
			if method%2 == 0 {
				return nil, errors.New("refused")
			}
			return q, nil
		})
		var bad *transport.Failure
		switch {
		case err == nil && len(out) <= int(i.guest.Memory().Size()):
		case err == nil:
			t.Errorf("an answer of %d bytes", len(out))
		case !errors.As(err, &bad):
			t.Errorf("%T: %v", err, err)
		case bad.Reason != transport.ReasonTrap && bad.Reason != transport.ReasonError && bad.Reason != transport.ReasonPanic:
			t.Errorf("%s: %v", bad.Reason, err)
		case out != nil:
			t.Errorf("an answer beside the error: %q", out)
		}
	})
}
