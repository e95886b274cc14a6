package wasm

import "strings"

// tailSize is how much of a guest's output is kept, in bytes.
const tailSize = 16 << 10

// tail keeps the end of what is written to it.
type tail struct {
	kept    []byte
	dropped bool
}

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if n > tailSize {
		b, t.dropped = b[n-tailSize:], true
	}
	if over := len(t.kept) + len(b) - tailSize; over > 0 {
		t.kept, t.dropped = append(t.kept[:0], t.kept[over:]...), true
	}
	t.kept = append(t.kept, b...)
	return n, nil
}

// String gives the kept end; a first line that was cut is marked with an ellipsis.
func (t *tail) String() string {
	s := strings.ToValidUTF8(string(t.kept), "\uFFFD")
	if t.dropped {
		s = "…" + s
	}
	return s
}
