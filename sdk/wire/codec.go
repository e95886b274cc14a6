// Package wire is what crosses the border between the host and a plugin: protobuf
// messages, described for other languages in skill.proto, with a codec small
// enough to live in a WASM guest. A released message never changes; golden bytes
// hold it still.
//
// Each message lists its fields once, in its fields method; [Marshal] and
// [Unmarshal] walk the same list, so the two directions cannot drift apart.
package wire

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Message is anything that can cross the border.
type Message interface{ fields(*codec) }

// Marshal gives m's bytes: fields in ascending order, proto3 defaults left out.
func Marshal(m Message) []byte {
	c := codec{encoding: true, counting: true}
	m.fields(&c)
	c.counting, c.buf = false, make([]byte, 0, c.size)
	m.fields(&c)
	return c.buf
}

// Unmarshal fills m, which should be zero, from b. Unknown fields are skipped.
// The error says at which field b stopped making sense, or that b would unfold to
// more than 32 MiB and eight times its own size. m keeps no reference to b.
func Unmarshal(b []byte, m Message) error {
	c := codec{room: freeRoom + roomPerByte*len(b), stack: make([]field, 0, few)}
	return c.read(b, m)
}

// Take is [Unmarshal] for one who gives b away: the texts and bytes of m are parts of
// it, so that b must not be written to any more.
func Take(b []byte, m Message) error {
	c := codec{room: freeRoom + roomPerByte*len(b), stack: make([]field, 0, few), taking: true}
	return c.read(b, m)
}

// few is the number of fields that there is place for before more has to be got.
const few = 32

// Two bytes can stand for an element of hundreds, so that what a hostile sender
// writes is bounded by these and not by the size of its message alone.
const (
	freeRoom    = 32 << 20 // bytes
	roomPerByte = 8
)

// codec writes a message, or holds the parsed fields of one being read. Messages in
// messages share it: in a guest, allocating is what takes the time.
type codec struct {
	encoding bool
	counting bool // how much there is to write, at first
	size     int  // the most that it can be
	buf      []byte
	taking   bool    // what is read may be kept
	in       []field // of the message being read, by number; those not yet asked for
	stack    []field // of the messages around it, and then its own
	room     int     // bytes that may still be taken, of the whole message
	err      error
}

// read fills m, which may be part of another message, from b.
func (c *codec) read(b []byte, m Message) error {
	outer, begin := c.in, len(c.stack)
	err := c.scan(b)
	if err == nil {
		c.in = c.stack[begin:]
		if !slices.IsSortedFunc(c.in, byNumber) { // every known writer has them so
			slices.SortStableFunc(c.in, byNumber)
		}
		m.fields(c)
		err, c.err = c.err, nil
	}
	c.in, c.stack = outer, c.stack[:begin]
	return err
}

func byNumber(a, b field) int { return cmp.Compare(a.num, b.num) }

// take books n bytes.
func (c *codec) take(n uintptr) error {
	if c.room -= int(n); c.room < 0 {
		return errUnfolds
	}
	return nil
}

var errUnfolds = errors.New("wire: message unfolds to far more than its size")

// field is one parsed occurrence.
type field struct {
	num, typ uint64
	val      uint64 // varint and fixed64
	data     []byte // length-delimited
}

const (
	typVarint = 0
	typFixed  = 1
	typBytes  = 2
	typFixed4 = 5
)

func (c *codec) scan(b []byte) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return fmt.Errorf("wire: bad field tag, %d bytes before the end", len(b))
		}
		b = b[n:]
		f := field{num: tag >> 3, typ: tag & 7}
		switch f.typ {
		case typVarint:
			if f.val, n = binary.Uvarint(b); n <= 0 {
				return fmt.Errorf("wire: field %d: bad number", f.num)
			}
			b = b[n:]
		case typFixed:
			if len(b) < 8 {
				return fmt.Errorf("wire: field %d: cut short", f.num)
			}
			f.val, b = binary.LittleEndian.Uint64(b), b[8:]
		case typFixed4:
			if len(b) < 4 {
				return fmt.Errorf("wire: field %d: cut short", f.num)
			}
			f.val, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		case typBytes:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > uint64(len(b)-n) {
				return fmt.Errorf("wire: field %d: says %d bytes, %d are left", f.num, l, len(b)-max(n, 0))
			}
			f.data, b = b[n:n+int(l)], b[n+int(l):]
		default:
			return fmt.Errorf("wire: field %d: unknown wire type %d", f.num, f.typ)
		}
		if err := c.take(unsafe.Sizeof(f)); err != nil {
			return err
		}
		c.stack = append(c.stack, f)
	}
	return nil
}

// header is the most that a field takes beside its content.
const header = 5 + binary.MaxVarintLen64

// count notes a field of n bytes, if it is time for that.
func (c *codec) count(n int) bool {
	if c.counting {
		c.size += header + n
	}
	return c.counting
}

func (c *codec) tag(num, typ uint64) { c.buf = binary.AppendUvarint(c.buf, num<<3|typ) }

// all gives the occurrences of num, of which there is none if one has another wire
// type. Messages ask for their fields in ascending order.
func (c *codec) all(num, typ uint64) []field {
	in := c.in
	for len(in) > 0 && in[0].num < num {
		in = in[1:]
	}
	n := 0
	for n < len(in) && in[n].num == num {
		if in[n].typ != typ && c.err == nil {
			c.err = fmt.Errorf("wire: field %d: wire type %d, want %d", num, in[n].typ, typ)
		}
		n++
	}
	c.in = in[n:]
	if c.err != nil {
		return nil
	}
	return in[:n]
}

// grow makes room in v for n more elements.
func grow[T any](c *codec, v []T, n int) []T {
	var t T
	if n == 0 {
		return v
	}
	if c.err = c.take(uintptr(n) * unsafe.Sizeof(t)); c.err != nil {
		return v
	}
	return slices.Grow(v, n)
}

func (c *codec) int(num uint64, v *int64) {
	if c.encoding {
		if *v != 0 && !c.count(0) {
			c.tag(num, typVarint)
			c.buf = binary.AppendUvarint(c.buf, uint64(*v))
		}
		return
	}
	if all := c.all(num, typVarint); len(all) > 0 {
		*v = int64(all[len(all)-1].val)
	}
}

func (c *codec) bool(num uint64, v *bool) {
	var n int64
	if *v {
		n = 1
	}
	c.int(num, &n)
	if !c.encoding { // Marshal only reads: one message may be encoded by several goroutines
		*v = n != 0
	}
}

func (c *codec) uint(num uint64, v *uint64) {
	n := int64(*v)
	c.int(num, &n)
	if !c.encoding {
		*v = uint64(n)
	}
}

func (c *codec) float(num uint64, v *float64) {
	if c.encoding {
		if math.Float64bits(*v) != 0 && !c.count(8) {
			c.tag(num, typFixed)
			c.buf = binary.LittleEndian.AppendUint64(c.buf, math.Float64bits(*v))
		}
		return
	}
	if all := c.all(num, typFixed); len(all) > 0 {
		*v = math.Float64frombits(all[len(all)-1].val)
	}
}

func (c *codec) string(num uint64, v *string) {
	if c.encoding {
		if *v != "" {
			c.putString(num, *v)
		}
		return
	}
	for _, f := range c.all(num, typBytes) {
		*v = c.text(&f)
	}
}

// putString writes valid UTF-8: stock decoders refuse anything else.
func (c *codec) putString(num uint64, s string) {
	if c.count(len(s)) {
		return
	}
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each bad byte becomes U+FFFD
	}
	c.tag(num, typBytes)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *codec) text(f *field) string {
	if !utf8.Valid(f.data) && c.err == nil {
		c.err = fmt.Errorf("wire: field %d: not UTF-8", f.num)
	}
	if c.taking {
		return unsafe.String(unsafe.SliceData(f.data), len(f.data))
	}
	return string(f.data)
}

func (c *codec) bytes(num uint64, v *[]byte) {
	if c.encoding {
		if len(*v) != 0 && !c.count(len(*v)) {
			c.tag(num, typBytes)
			c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
			c.buf = append(c.buf, *v...)
		}
		return
	}
	for _, f := range c.all(num, typBytes) {
		if c.taking {
			*v = f.data[:len(f.data):len(f.data)]
		} else {
			*v = append([]byte(nil), f.data...)
		}
	}
}

func (c *codec) strings(num uint64, v *[]string) {
	if c.encoding {
		for _, s := range *v {
			c.putString(num, s)
		}
		return
	}
	all := c.all(num, typBytes)
	for *v = grow(c, *v, len(all)); len(all) > 0 && c.err == nil; all = all[1:] {
		*v = append(*v, c.text(&all[0]))
	}
}

// put writes one embedded message. Without always, one that has no bytes is left out.
func (c *codec) put(num uint64, m Message, always bool) {
	if c.count(0) {
		m.fields(c)
		return
	}
	before := len(c.buf)
	c.tag(num, typBytes)
	c.buf = append(c.buf, 0) // its length, if that is below 128
	begin := len(c.buf)
	m.fields(c)
	n := len(c.buf) - begin
	if n == 0 && !always {
		c.buf = c.buf[:before]
		return
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	c.buf = append(c.buf, length[1:k]...)
	copy(c.buf[begin+k-1:], c.buf[begin:begin+n])
	copy(c.buf[begin-1:], length[:k])
}

func (c *codec) get(f *field, m Message) {
	if err := c.read(f.data, m); err != nil {
		c.err = fmt.Errorf("wire: field %d: %w", f.num, err)
	}
}

// message is a pointer to T that is a Message.
type message[T any] interface {
	*T
	Message
}

func one[T any, P message[T]](c *codec, num uint64, v *T) {
	if c.encoding {
		c.put(num, P(v), false)
		return
	}
	for _, f := range c.all(num, typBytes) {
		c.get(&f, P(v))
	}
}

func many[T any, P message[T]](c *codec, num uint64, v *[]T) {
	if c.encoding {
		for i := range *v {
			c.put(num, P(&(*v)[i]), true)
		}
		return
	}
	all := c.all(num, typBytes)
	for *v = grow(c, *v, len(all)); len(all) > 0 && c.err == nil; all = all[1:] {
		var t T
		*v = append(*v, t)
		c.get(&all[0], P(&(*v)[len(*v)-1]))
	}
}

func optional[T any, P message[T]](c *codec, num uint64, v **T) {
	if c.encoding {
		if *v != nil {
			c.put(num, P(*v), true)
		}
		return
	}
	for _, f := range c.all(num, typBytes) {
		if *v == nil {
			*v = new(T)
		}
		c.get(&f, P(*v))
	}
}
