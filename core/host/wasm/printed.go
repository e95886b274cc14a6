package wasm

import "strings"

// How much of what a guest prints is kept, in bytes. The beginning says why a
// runtime gave up, the end where.
const (
	headSize = 4 << 10
	tailSize = 12 << 10
)

// printed keeps the beginning and the end of what is written to it.
type printed struct {
	head, tail []byte
	dropped    bool // something between the two
}

func (p *printed) Write(b []byte) (int, error) {
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

// String gives what was kept; an ellipsis marks what was not.
func (p *printed) String() string {
	gap := ""
	if p.dropped {
		gap = "\n…\n"
	}
	return strings.ToValidUTF8(string(p.head)+gap+string(p.tail), "\uFFFD")
}
