package binary

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestNumbers: what is appended is read again, for every width.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint32().Draw(t, "u")
		i := rapid.Int32().Draw(t, "i")
		l := rapid.Int64().Draw(t, "l")
		b := appendSigned(appendSigned(appendU32(nil, u), int64(i)), l)
		r := &reader{b: b}
		if gu, gi, gl := r.u32(), r.signed(32), r.signed(64); gu != u || gi != int64(i) || gl != l || !r.done() || r.err != nil {
			t.Errorf("%d %d %d became %d %d %d, %v", u, i, l, gu, gi, gl, r.err)
		}
	})
	for _, n := range []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, 63, 64, -64, -65, 0, -1} {
		r := &reader{b: appendSigned(nil, n)}
		if got := r.signed(64); got != n || r.err != nil {
			t.Errorf("%d became %d, %v", n, got, r.err)
		}
	}
}

// TestNumbersTooLong: a number has no more bits than its type, nor more bytes.
func TestNumbersTooLong(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		read func(*reader)
		ok   bool
	}{
		{"u32 largest", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, func(r *reader) { r.u32() }, true},
		{"u32 larger", []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, func(r *reader) { r.u32() }, false},
		{"u32 padded", []byte{0x80, 0x80, 0x80, 0x80, 0x00}, func(r *reader) { r.u32() }, true},
		{"u32 of six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, func(r *reader) { r.u32() }, false},
		{"s32 least", []byte{0x80, 0x80, 0x80, 0x80, 0x78}, func(r *reader) { r.signed(32) }, true},
		{"s32 less", []byte{0x80, 0x80, 0x80, 0x80, 0x70}, func(r *reader) { r.signed(32) }, false},
		{"s32 of six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, func(r *reader) { r.signed(32) }, false},
		{"s64 least", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, func(r *reader) { r.signed(64) }, true},
		{"s64 less", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e}, func(r *reader) { r.signed(64) }, false},
		{"none", nil, func(r *reader) { r.u32() }, false},
		{"cut", []byte{0x80}, func(r *reader) { r.signed(32) }, false},
	} {
		r := &reader{b: c.b}
		if c.read(r); (r.err == nil) != c.ok {
			t.Errorf("%s: error %v, want none: %v", c.name, r.err, c.ok)
		}
	}
}
