package toolserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/valence-rl/valence/sdk/wire"
)

// Kind says what a frame asks for or that it answers.
type Kind uint8

// The kinds. Exec, Read, Write, Diff and Setup have one answer each, with their id.
const (
	KindSetup  Kind = iota + 1 // whatever the server's Setup takes and gives
	KindExec                   // Exec → Result
	KindRead                   // path, limit → bytes
	KindWrite                  // changes → nothing
	KindDiff                   // limit → changes
	KindCancel                 // id of a command, whose answer is no longer awaited
	KindResume                 // on a stream that replaces another one: the ids that are still awaited
	KindSeen                   // the answer to this id has come and need not be kept
	KindAnswer                 // from the server: failure, then what was asked for
)

// frameLimit bounds a frame, so that a broken peer cannot make the other end
// allocate without bound. It holds the largest read, write or diff.
const frameLimit = 1 << 30

const frameHead = 4 + 4 + 1

// Frame is one message.
type Frame struct {
	ID   uint32
	Kind Kind
	Body []byte
}

// WriteFrame sends f in one write, so that frames of several writers that hold a
// lock around it never interleave.
func WriteFrame(w io.Writer, f Frame) error {
	if len(f.Body) > frameLimit {
		return errors.New("message too large")
	}
	b := make([]byte, frameHead, frameHead+len(f.Body))
	binary.BigEndian.PutUint32(b, uint32(len(f.Body)+frameHead-4))
	binary.BigEndian.PutUint32(b[4:], f.ID)
	b[8] = byte(f.Kind)
	_, err := w.Write(append(b, f.Body...))
	return err
}

// ReadFrame reads one frame; io.EOF means that the peer ended between frames.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < frameHead-4 || n > frameLimit+frameHead {
		return Frame{}, fmt.Errorf("frame of %d bytes", n)
	}
	f := Frame{ID: binary.BigEndian.Uint32(head[4:]), Kind: Kind(head[8])}
	f.Body = make([]byte, n-(frameHead-4))
	if _, err := io.ReadFull(r, f.Body); err != nil {
		return Frame{}, io.ErrUnexpectedEOF
	}
	return f, nil
}

// WriteAnswer answers request id with err, which may be nil, and nothing else.
func WriteAnswer(w io.Writer, id uint32, err error) error {
	var e Encoder
	e.failure(err)
	return WriteFrame(w, Frame{ID: id, Kind: KindAnswer, Body: e.B})
}

// Encoder appends fields to the body B.
type Encoder struct{ B []byte }

// Uint appends a number.
func (e *Encoder) Uint(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// Bool appends a truth value.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint(1)
	} else {
		e.Uint(0)
	}
}

// Bytes appends bytes.
func (e *Encoder) Bytes(v []byte) {
	e.Uint(uint64(len(v)))
	e.B = append(e.B, v...)
}

// String appends a text.
func (e *Encoder) String(v string) {
	e.Uint(uint64(len(v)))
	e.B = append(e.B, v...)
}

// Strings appends a list of texts.
func (e *Encoder) Strings(v []string) {
	e.Uint(uint64(len(v)))
	for _, s := range v {
		e.String(s)
	}
}

// Decoder takes fields off the body B. After the first malformed field every field is
// zero and bad is set. Byte fields alias the body.
type Decoder struct {
	B   []byte
	bad bool
}

// Uint takes a number.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.B, d.bad = nil, true
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Bool takes a truth value.
func (d *Decoder) Bool() bool { return d.Uint() != 0 }

// Bytes takes bytes; they alias the body.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.B)) {
		d.B, d.bad = nil, true
		return nil
	}
	v := d.B[:n:n]
	d.B = d.B[n:]
	return v
}

// String takes a text.
func (d *Decoder) String() string { return string(d.Bytes()) }

// Count takes a list's length: every element takes a byte at least.
func (d *Decoder) Count() int {
	n := d.Uint()
	if n > uint64(len(d.B)) {
		d.B, d.bad = nil, true
		return 0
	}
	return int(n)
}

// Strings takes a list of texts.
func (d *Decoder) Strings() []string {
	n := d.Count()
	if n == 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.String())
	}
	return v
}

// Err tells whether the body was malformed or longer than its message.
func (d *Decoder) Err() error {
	if d.bad || len(d.B) > 0 {
		return errors.New("malformed message")
	}
	return nil
}

// Changes appends changes in their order.
func (e *Encoder) Changes(v []wire.Change) {
	e.Uint(uint64(len(v)))
	for _, c := range v {
		e.String(c.Path)
		e.Bytes(c.Data)
		e.Bool(c.Exec)
		e.Bool(c.Deleted)
		e.String(c.Symlink)
	}
}

// Changes takes changes.
func (d *Decoder) Changes() []wire.Change {
	n := d.Count()
	if n == 0 {
		return nil
	}
	v := make([]wire.Change, 0, n)
	for range n {
		c := wire.Change{Path: d.String(), Data: d.Bytes(), Exec: d.Bool(), Deleted: d.Bool(), Symlink: d.String()}
		if len(c.Data) == 0 {
			c.Data = nil
		}
		v = append(v, c)
	}
	return v
}
