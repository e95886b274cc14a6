package transport

import (
	"slices"
	"strings"
)

// How much of what a plugin prints is kept, in bytes. The beginning says why a
// runtime gave up, the end where.
const (
	headSize = 4 << 10
	tailSize = 12 << 10
)

// Printed keeps the beginning and the end of what is written to it. It is used by
// one goroutine at a time; the zero Printed is empty.
type Printed struct {
	head, tail []byte
	dropped    bool // something between the two
}

func (p *Printed) Write(b []byte) (int, error) {
	n := len(b)
	k := min(headSize-len(p.head), n)
	p.head, b = append(p.head, b[:k]...), b[k:]
	if len(b) > tailSize {
		b, p.dropped = b[len(b)-tailSize:], true
	}
	if over := len(p.tail) + len(b) - tailSize; over > 0 {
		p.tail, p.dropped = append(p.tail[:0], p.tail[over:]...), true
	}
	p.tail = append(p.tail, b...)
	return n, nil
}

// Clone gives a copy that is written to independently of p.
func (p *Printed) Clone() Printed {
	return Printed{slices.Clone(p.head), slices.Clone(p.tail), p.dropped}
}

// String gives what was kept; an ellipsis marks what was not.
func (p *Printed) String() string {
	gap := ""
	if p.dropped {
		gap = "\n…\n"
	}
	return strings.ToValidUTF8(string(p.head)+gap+string(p.tail), "\uFFFD")
}
