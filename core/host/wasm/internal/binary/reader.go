package binary

import (
	"errors"
	"fmt"
)

var errShort = errors.New("ends too early")

// reader takes a module apart from front to back. After its first error it gives
// zeros only, so that callers ask once at the end.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.b)
}

func (r *reader) failf(format string, a ...any) { r.fail(fmt.Errorf(format, a...)) }

func (r *reader) done() bool { return r.at >= len(r.b) }

func (r *reader) byte() byte {
	if r.done() {
		r.fail(errShort)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// take gives the next n bytes, which belong to the module.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.at {
		r.fail(errShort)
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

// u32 reads an unsigned number in LEB128.
func (r *reader) u32() uint32 { return uint32(r.unsigned(32)) }

func (r *reader) unsigned(bits int) (v uint64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if left := bits - shift; left < 7 && b>>left != 0 {
			r.failf("number of more than %d bits", bits)
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// signed reads a signed number in LEB128 of at most bits.
func (r *reader) signed(bits int) (v int64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if left := bits - shift; left < 8 {
			// The last byte repeats the sign in what it has to spare.
			if rest := int8(b<<1) >> left; b >= 0x80 || rest != 0 && rest != -1 {
				r.failf("number of more than %d bits", bits)
				return 0
			}
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// count reads the length of a list whose items take a byte or more.
func (r *reader) count() int {
	n := r.u32()
	if int64(n) > int64(len(r.b)-r.at) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

func (r *reader) name() string { return string(r.take(r.count())) }

// valueType reads the type of a value.
func (r *reader) valueType() ValueType {
	t := ValueType(r.byte())
	switch t {
	case I32, I64, F32, F64, V128, funcRef, externRef:
	default:
		if r.err == nil {
			r.failf("unknown type %#x", byte(t))
		}
	}
	return t
}
