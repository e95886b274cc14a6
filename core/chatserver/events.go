package chatserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("the answer is not UTF-8")

// events reads the data of server-sent events (WHATWG HTML, section 9.2). Names, ids
// and comments are passed over; lines end with LF, CR LF or CR.
type events struct {
	in   *bufio.Reader
	data []byte
	some bool // data has a line
}

func newEvents(r io.Reader) *events { return &events{in: bufio.NewReader(r)} }

// next gives the data of the next event, valid until the call after it. An event that
// the end of the stream cuts is io.ErrUnexpectedEOF if it has begun; only its last
// line break may be missing.
func (e *events) next() ([]byte, error) {
	e.data, e.some = e.data[:0], false
	for {
		line, err := e.line()
		if len(line) == 0 && err == nil {
			if e.some {
				return e.checked()
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "data" {
			if e.some {
				e.data = append(e.data, '\n')
			}
			e.data, e.some = append(e.data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		switch {
		case errors.Is(err, io.EOF) && e.some:
			return e.checked()
		case err != nil:
			return nil, err
		}
	}
}

func (e *events) checked() ([]byte, error) {
	if !utf8.Valid(e.data) {
		return nil, errNotUTF8
	}
	return e.data, nil
}

// line gives a line without its end.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		b, err := e.in.ReadByte()
		switch {
		case err != nil:
			return line, err
		case b == '\n':
			return line, nil
		case b == '\r':
			if next, err := e.in.Peek(1); err == nil && next[0] == '\n' {
				e.in.Discard(1)
			}
			return line, nil
		}
		line = append(line, b)
	}
}
