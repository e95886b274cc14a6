package swebench

import (
	"strconv"
	"unicode/utf16"
)

// writer writes JSON as Python's json.dumps(indent=4) does, byte for byte: ASCII
// alone, empty objects and lists closed up, no newline at the end.
type writer struct {
	b     []byte
	depth int
	inner bool // something stands in the innermost object or list
}

func (w *writer) line() {
	if w.inner {
		w.b = append(w.b, ',')
	}
	w.inner = true
	w.newline()
}

func (w *writer) newline() {
	w.b = append(w.b, '\n')
	for range w.depth {
		w.b = append(w.b, "    "...)
	}
}

func (w *writer) group(open, shut byte, inside func()) {
	w.b = append(w.b, open)
	w.depth++
	w.inner = false
	inside()
	w.depth--
	if w.inner {
		w.newline()
	}
	w.b = append(w.b, shut)
	w.inner = true
}

func (w *writer) object(members func()) { w.group('{', '}', members) }

func (w *writer) list(of []string) {
	w.group('[', ']', func() {
		for _, s := range of {
			w.line()
			w.string(s)
		}
	})
}

func (w *writer) key(name string) {
	w.line()
	w.string(name)
	w.b = append(w.b, ": "...)
}

func (w *writer) field(key string, is bool) {
	w.key(key)
	w.b = strconv.AppendBool(w.b, is)
}

func (w *writer) count(key string, n int) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *writer) split(key string, s *Split) {
	w.key(key)
	w.object(func() {
		w.key("success")
		w.list(s.Success)
		w.key("failure")
		w.list(s.Failure)
	})
}

// string writes a text; bytes that are not UTF-8 become U+FFFD.
func (w *writer) string(s string) {
	w.b = append(w.b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b = append(w.b, '\\', byte(r))
		case r >= ' ' && r <= '~':
			w.b = append(w.b, byte(r))
		case r == '\n':
			w.b = append(w.b, `\n`...)
		case r == '\r':
			w.b = append(w.b, `\r`...)
		case r == '\t':
			w.b = append(w.b, `\t`...)
		case r == '\f':
			w.b = append(w.b, `\f`...)
		case r == '\b':
			w.b = append(w.b, `\b`...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			w.unit(high)
			w.unit(low)
		default:
			w.unit(r)
		}
	}
	w.b = append(w.b, '"')
}

func (w *writer) unit(r rune) {
	const hex = "0123456789abcdef"
	w.b = append(w.b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
