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
	c := codec{room: freeRoom + roomPerByte*len(b)}
	return c.read(b, m)
}

// Take is [Unmarshal] for one who gives b away: the texts and bytes of m are parts of
// it, so that b must not be written to any more.
func Take(b []byte, m Message) error {
	c := codec{room: freeRoom + roomPerByte*len(b), taking: true}
	return c.read(b, m)
}

// Two bytes can stand for an element of hundreds, so that what a hostile sender
// writes is bounded by these and not by the size of its message alone.
const (
	freeRoom    = 32 << 20 // bytes
	roomPerByte = 8
)

// codec writes a message, or reads one. Messages in messages share it: in a guest,
// allocating is what takes the time.
type codec struct {
	encoding bool
	counting bool // how much there is to write, at first
	size     int  // the most that it can be
	buf      []byte

	taking bool   // what is read may be kept
	in     []byte // what is left of the message being read, from the content of its next field on
	num    uint64 // the number of that field, or none
	typ    uint64
	room   int // bytes that may still be taken, of the whole message
	err    error
}

// none is the number of a field that is not there: none is asked for after it.
const none = math.MaxUint64

// read fills m, which may be part of another message, from b.
func (c *codec) read(b []byte, m Message) error {
	b, err := c.ascending(b)
	if err != nil {
		return err
	}
	in, num, typ := c.in, c.num, c.typ
	c.enter(b)
	m.fields(c)
	c.in, c.num, c.typ = in, num, typ
	err, c.err = c.err, nil
	return err
}

// take books n bytes.
func (c *codec) take(n uintptr) error {
	if c.room -= int(n); c.room < 0 {
		return errUnfolds
	}
	return nil
}

var errUnfolds = errors.New("wire: message unfolds to far more than its size")

const (
	typVarint = 0
	typFixed  = 1
	typBytes  = 2
	typFixed4 = 5
)

// first measures the first field of b: its number and type, and how many bytes its
// tag takes and how many all of it.
func first(b []byte) (num, typ uint64, tag, all int, err error) {
	t, tag := uvarint(b)
	num, typ = t>>3, t&7
	if tag <= 0 || num == 0 || num > 1<<29-1 {
		return 0, 0, 0, 0, fmt.Errorf("wire: bad field tag, %d bytes before the end", len(b))
	}
	b = b[tag:]
	n := 0
	switch typ {
	case typVarint:
		if _, n = uvarint(b); n <= 0 {
			return 0, 0, 0, 0, fmt.Errorf("wire: field %d: bad number", num)
		}
	case typFixed:
		n = 8
	case typFixed4:
		n = 4
	case typBytes:
		var l uint64
		if l, n = uvarint(b); n <= 0 || l > uint64(len(b)-n) {
			return 0, 0, 0, 0, fmt.Errorf("wire: field %d: says %d bytes, %d are left", num, l, len(b)-max(n, 0))
		}
		n += int(l)
	default:
		return 0, 0, 0, 0, fmt.Errorf("wire: field %d: unknown wire type %d", num, typ)
	}
	if n > len(b) {
		return 0, 0, 0, 0, fmt.Errorf("wire: field %d: cut short", num)
	}
	return num, typ, tag, tag + n, nil
}

// ascending checks that b is a message and gives its fields in ascending order, as
// every known writer has them anyway.
func (c *codec) ascending(b []byte) ([]byte, error) {
	ordered, last := true, uint64(0)
	for rest := b; len(rest) > 0; {
		num, _, _, n, err := first(rest)
		if err != nil {
			return nil, err
		}
		ordered = ordered && last <= num
		last, rest = num, rest[n:]
	}
	if ordered {
		return b, nil
	}
	type field struct {
		num  uint64
		text []byte
	}
	var fields []field
	for rest := b; len(rest) > 0; {
		num, _, _, n, _ := first(rest)
		if err := c.take(unsafe.Sizeof(field{}) + uintptr(n)); err != nil {
			return nil, err
		}
		fields = append(fields, field{num, rest[:n]})
		rest = rest[n:]
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.num, b.num) })
	b = make([]byte, 0, len(b))
	for _, f := range fields {
		b = append(b, f.text...)
	}
	return b, nil
}

// enter begins to read b, which has been checked.
func (c *codec) enter(b []byte) {
	switch {
	case len(b) == 0:
		c.in, c.num = nil, none
	case b[0] < 0x80:
		c.in, c.num, c.typ = b[1:], uint64(b[0]>>3), uint64(b[0]&7)
	default:
		tag, n := binary.Uvarint(b)
		c.in, c.num, c.typ = b[n:], tag>>3, tag&7
	}
}

// fail ends the reading of the message.
func (c *codec) fail(err error) { c.in, c.num, c.err = nil, none, err }

// skip passes over a field.
func (c *codec) skip() {
	switch b := c.in; c.typ {
	case typVarint:
		_, n := uvarint(b)
		c.enter(b[n:])
	case typFixed:
		c.enter(b[8:])
	case typFixed4:
		c.enter(b[4:])
	case typBytes:
		l, n := uvarint(b)
		c.enter(b[n+int(l):])
	}
}

// at says whether the next field is one of number num, and refuses one of another
// wire type. Messages ask for their fields in ascending order; those between are
// unknown, and skipped.
func (c *codec) at(num, typ uint64) bool {
	for c.num < num {
		c.skip()
	}
	if c.num == num && c.typ != typ {
		c.fail(fmt.Errorf("wire: field %d: wire type %d, want %d", num, c.typ, typ))
	}
	return c.num == num
}

// data reads the next field, if it is one of number num with that many bytes.
func (c *codec) data(num uint64) (b []byte, ok bool) {
	if c.num != num || c.typ != typBytes { // the usual case needs no call
		if !c.at(num, typBytes) {
			return nil, false
		}
	}
	in := c.in
	n, from := int(in[0]), 1
	if n >= 0x80 {
		var l uint64
		l, from = binary.Uvarint(in)
		n = int(l)
	}
	b = in[from : from+n : from+n]
	c.enter(in[from+n:])
	return b, true
}

// grow makes room in v for all fields of number num that come next.
func grow[T any](c *codec, num uint64, v []T) []T {
	if !c.at(num, typBytes) {
		return v
	}
	in := c.in
	n := 0
	for c.num == num {
		c.skip()
		n++
	}
	c.in, c.num, c.typ = in, num, typBytes
	var t T
	if err := c.take(uintptr(n) * unsafe.Sizeof(t)); err != nil {
		c.fail(err)
		return v
	}
	if cap(v) == 0 {
		return make([]T, 0, n)
	}
	return slices.Grow(v, n)
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
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

func (c *codec) int(num uint64, v *int64) {
	if c.encoding {
		if *v != 0 && !c.count(0) {
			c.tag(num, typVarint)
			c.buf = binary.AppendUvarint(c.buf, uint64(*v))
		}
		return
	}
	for c.num <= num && c.at(num, typVarint) {
		n, size := uvarint(c.in)
		*v = int64(n)
		c.enter(c.in[size:])
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
	for c.num <= num && c.at(num, typFixed) {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(c.in))
		c.enter(c.in[8:])
	}
}

func (c *codec) string(num uint64, v *string) {
	if c.encoding {
		if *v != "" {
			c.putString(num, *v)
		}
		return
	}
	for c.num <= num {
		b, ok := c.data(num)
		if !ok {
			return
		}
		*v = c.text(num, b)
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

func (c *codec) text(num uint64, b []byte) string {
	if !utf8.Valid(b) {
		c.fail(fmt.Errorf("wire: field %d: not UTF-8", num))
	}
	if c.taking {
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	return string(b)
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
	for c.num <= num {
		b, ok := c.data(num)
		switch {
		case !ok:
			return
		case c.taking:
			*v = b
		default:
			*v = append([]byte(nil), b...)
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
	if c.num > num {
		return
	}
	*v = grow(c, num, *v)
	for b, ok := c.data(num); ok; b, ok = c.data(num) {
		*v = append(*v, c.text(num, b))
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

func (c *codec) get(num uint64, b []byte, m Message) {
	if err := c.read(b, m); err != nil {
		c.fail(fmt.Errorf("wire: field %d: %w", num, err))
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
	if c.num > num {
		return
	}
	for b, ok := c.data(num); ok; b, ok = c.data(num) {
		c.get(num, b, P(v))
	}
}

func many[T any, P message[T]](c *codec, num uint64, v *[]T) {
	if c.encoding {
		for i := range *v {
			c.put(num, P(&(*v)[i]), true)
		}
		return
	}
	if c.num > num {
		return
	}
	*v = grow(c, num, *v)
	for b, ok := c.data(num); ok; b, ok = c.data(num) {
		var t T
		*v = append(*v, t)
		c.get(num, b, P(&(*v)[len(*v)-1]))
	}
}

func optional[T any, P message[T]](c *codec, num uint64, v **T) {
	if c.encoding {
		if *v != nil {
			c.put(num, P(*v), true)
		}
		return
	}
	if c.num > num {
		return
	}
	for b, ok := c.data(num); ok; b, ok = c.data(num) {
		if *v == nil {
			*v = new(T)
		}
		c.get(num, b, P(*v))
	}
}
