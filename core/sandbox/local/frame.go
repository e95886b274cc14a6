package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/valence-rl/valence/sdk"
)

// The tool protocol. Both ends are one build of one binary, so it has no
// versions; it is binary so that output of any bytes passes and the server in the
// sandbox stays small. A frame is
//
//	length uint32 | id uint32 | kind uint8 | body
//
// in big-endian order, length counting what follows it. A body is a fixed
// sequence of unsigned varints, and of strings and lists with their length in
// front. The host sends requests, the server one answer to each, in any order.

// kind says what a frame asks for or that it answers.
type kind uint8

const (
	kindSetup  kind = iota + 1 // setup → answer: the first frame, sent once
	kindExec                   // execRequest → execAnswer
	kindRead                   // readRequest → bytes
	kindWrite                  // changes → nothing
	kindDiff                   // limit → changes
	kindCancel                 // id of an exec, whose answer is no longer awaited
	kindAnswer                 // from the server: failure, then what was asked for
)

// frameLimit bounds a frame, so that a broken peer cannot make the other end
// allocate without bound. It holds the largest read, write or diff.
const frameLimit = 1 << 30

const frameHead = 4 + 4 + 1

type frame struct {
	id   uint32
	kind kind
	body []byte
}

// writeFrame sends f in one write, so that frames of several writers that hold a
// lock around it never interleave.
func writeFrame(w io.Writer, f frame) error {
	if len(f.body) > frameLimit {
		return errors.New("message too large")
	}
	b := make([]byte, frameHead, frameHead+len(f.body))
	binary.BigEndian.PutUint32(b, uint32(len(f.body)+frameHead-4))
	binary.BigEndian.PutUint32(b[4:], f.id)
	b[8] = byte(f.kind)
	_, err := w.Write(append(b, f.body...))
	return err
}

// readFrame reads one frame; io.EOF means that the peer ended between frames.
func readFrame(r io.Reader) (frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < frameHead-4 || n > frameLimit+frameHead {
		return frame{}, fmt.Errorf("frame of %d bytes", n)
	}
	f := frame{id: binary.BigEndian.Uint32(head[4:]), kind: kind(head[8])}
	f.body = make([]byte, n-(frameHead-4))
	if _, err := io.ReadFull(r, f.body); err != nil {
		return frame{}, io.ErrUnexpectedEOF
	}
	return f, nil
}

// encoder appends fields to a body.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
	} else {
		e.uint(0)
	}
}
func (e *encoder) bytes(v []byte) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}
func (e *encoder) string(v string) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}
func (e *encoder) strings(v []string) {
	e.uint(uint64(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

// decoder takes fields off a body. After the first malformed field every field is
// zero and bad is set. Byte fields alias the body.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}
func (d *decoder) bool() bool { return d.uint() != 0 }
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
func (d *decoder) string() string { return string(d.bytes()) }

// count is a list's length: every element takes a byte at least.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n)
}
func (d *decoder) strings() []string {
	n := d.count()
	if n == 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.string())
	}
	return v
}

// err tells whether the body was malformed or longer than its message.
func (d *decoder) err() error {
	if d.bad || len(d.b) > 0 {
		return errors.New("malformed message")
	}
	return nil
}

// changes are written as they are; their order is kept.
func (e *encoder) changes(v []sdk.Change) {
	e.uint(uint64(len(v)))
	for _, c := range v {
		e.string(c.Path)
		e.bytes(c.Data)
		e.bool(c.Exec)
		e.bool(c.Deleted)
		e.string(c.Symlink)
	}
}

func (d *decoder) changes() []sdk.Change {
	n := d.count()
	if n == 0 {
		return nil
	}
	v := make([]sdk.Change, 0, n)
	for range n {
		c := sdk.Change{Path: d.string(), Data: d.bytes(), Exec: d.bool(), Deleted: d.bool(), Symlink: d.string()}
		if len(c.Data) == 0 {
			c.Data = nil
		}
		v = append(v, c)
	}
	return v
}
