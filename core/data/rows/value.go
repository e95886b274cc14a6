package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is one value of a row: a text, or the JSON of anything else. The zero Value
// is none.
type Value struct {
	Text string
	JSON []byte // of what is no text: a number, true, false, null, an array or an object
}

// IsText says that the value is a text.
func (v Value) IsText() bool { return v.JSON == nil }

// IsNull says that the value is JSON's null.
func (v Value) IsNull() bool { return string(v.JSON) == "null" }

// Kind names the value's type: text, number, boolean, null, list or object.
func (v Value) Kind() string {
	if v.IsText() {
		return "text"
	}
	switch v.JSON[0] {
	case '[':
		return "list"
	case '{':
		return "object"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// Field is a named value.
type Field struct {
	Name  string
	Value Value
}

// SyntaxError says where a text stops being JSON, and in which key of the outer
// object that is.
type SyntaxError struct {
	Field  string // "" outside any
	Offset int    // bytes from the start
	Text   string
}

func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("byte %d: %s", e.Offset, e.Text)
	}
	return fmt.Sprintf("%s, byte %d: %s", e.Field, e.Offset, e.Text)
}

// scanner walks over one JSON text. It is stricter than encoding/json, which
// replaces what is not Unicode: nothing that it accepts is changed.
type scanner struct {
	b     []byte
	at    int
	field string
}

func (s *scanner) fail(at int, format string, args ...any) error {
	return &SyntaxError{s.field, at, fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next passes over blanks and then c, if c is there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) want(c byte) error {
	if s.next(c) {
		return nil
	}
	if s.at == len(s.b) {
		return s.fail(s.at, "the text ends where %q was due", c)
	}
	return s.fail(s.at, "%q where %q was due", s.b[s.at], c)
}

func (s *scanner) end() error {
	if s.space(); s.at < len(s.b) {
		return s.fail(s.at, "%q after the value's end", s.b[s.at])
	}
	return nil
}

// value reads one value of any kind.
func (s *scanner) value() (Value, error) {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == '"' {
		t, err := s.text()
		return Value{Text: t}, err
	}
	from := s.at
	if err := s.pass(); err != nil {
		return Value{}, err
	}
	raw := s.b[from:s.at:s.at]
	if !json.Valid(raw) {
		return Value{}, s.fail(from, "no JSON value")
	}
	return Value{JSON: raw}, nil
}

// pass goes to the end of a value that is no text, without looking at its grammar.
func (s *scanner) pass() error {
	from, depth := s.at, 0
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case '"':
			if err := s.quoted(); err != nil {
				return err
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return nil
			}
			if depth--; depth == 0 {
				s.at++
				return nil
			}
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return nil
			}
		}
		s.at++
	}
	if depth > 0 || from == s.at {
		return s.fail(s.at, "the text ends within a value")
	}
	return nil
}

// quoted goes to the end of a text, without reading it.
func (s *scanner) quoted() error {
	from := s.at
	for i := s.at + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			s.at = i + 1
			return nil
		}
	}
	return s.fail(from, "a text without its end")
}

// text reads a text in quotes.
func (s *scanner) text() (string, error) {
	from := s.at
	rest := s.b[s.at+1:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return "", s.fail(from, "a text without its end")
	}
	if plain := rest[:end]; bytes.IndexByte(plain, '\\') < 0 {
		if err := s.characters(plain, from+1); err != nil {
			return "", err
		}
		s.at += end + 2
		return string(plain), nil
	}
	if err := s.quoted(); err != nil {
		return "", err
	}
	return s.unescape(s.b[from+1:s.at-1], from+1)
}

// characters refuses what may not stand in a text as it is.
func (s *scanner) characters(b []byte, at int) error {
	for i, c := range b {
		if c < ' ' {
			return s.fail(at+i, "the character %q stands in a text as it is", c)
		}
	}
	if !utf8.Valid(b) {
		for i := 0; i < len(b); {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				return s.fail(at+i, "not UTF-8: byte %#02x", b[i])
			}
			i += n
		}
	}
	return nil
}

func (s *scanner) unescape(b []byte, at int) (string, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			next = len(b) - i
		}
		if err := s.characters(b[i:i+next], at+i); err != nil {
			return "", err
		}
		out = append(out, b[i:i+next]...)
		if i += next; i == len(b) {
			break
		}
		switch c := b[i+1]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, ok := hex(b[i+2:])
			if !ok {
				return "", s.fail(at+i, `\u without four digits`)
			}
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if rest := b[i+6:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
					low, ok = hex(rest[2:])
				}
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return "", s.fail(at+i, "%s is half a character", b[i:i+6])
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
			i += 4
		default:
			return "", s.fail(at+i, `\%c is no escape`, c)
		}
		i += 2
	}
	return string(out), nil
}

func hex(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		if c == '+' || c == '-' || c == '_' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// Object reads the fields of one JSON object, in their order. Values alias b.
func Object(b []byte) ([]Field, error) {
	s := &scanner{b: b}
	if s.space(); s.at < len(b) && b[s.at] != '{' {
		return nil, s.fail(s.at, "want an object, not %q", b[s.at])
	}
	if err := s.want('{'); err != nil {
		return nil, err
	}
	var out []Field
	for !s.next('}') {
		if len(out) > 0 {
			if err := s.want(','); err != nil {
				return nil, err
			}
		}
		if s.space(); s.at == len(b) || b[s.at] != '"' {
			return nil, s.want('"')
		}
		name, err := s.text()
		if err != nil {
			return nil, err
		}
		s.field = name
		if err := s.want(':'); err != nil {
			return nil, err
		}
		v, err := s.value()
		if err != nil {
			return nil, err
		}
		out = append(out, Field{name, v})
		s.field = ""
	}
	return out, s.end()
}

// Elements reads the values of one JSON list. They alias b.
func Elements(b []byte) ([]Value, error) {
	s := &scanner{b: b}
	if err := s.want('['); err != nil {
		return nil, err
	}
	out := []Value{}
	for !s.next(']') {
		if len(out) > 0 {
			if err := s.want(','); err != nil {
				return nil, err
			}
		}
		v, err := s.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, s.end()
}

// AppendText appends s as a JSON text. s is valid UTF-8.
func AppendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}

// Append appends the value's JSON.
func (v Value) Append(b []byte) []byte {
	if v.IsText() {
		return AppendText(b, v.Text)
	}
	return append(b, v.JSON...)
}
