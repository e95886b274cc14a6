package testlog

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Newlines makes every line of a log end in "\n": "\r\n" and a lone "\r", with
// which tools draw over a line, become one.
func Newlines(log string) string {
	if strings.IndexByte(log, '\r') < 0 {
		return log
	}
	var b strings.Builder
	b.Grow(len(log))
	for i := 0; i < len(log); i++ {
		if log[i] != '\r' {
			b.WriteByte(log[i])
			continue
		}
		b.WriteByte('\n')
		if i+1 < len(log) && log[i+1] == '\n' {
			i++
		}
	}
	return b.String()
}

func lines(log string) iter.Seq[string] { return strings.SplitSeq(log, "\n") }

// Plain takes terminal control sequences (ECMA-48) out of a text: colours, cursor
// movements, titles and links. One that is cut off goes to the end of its line.
func Plain(s string) string {
	i := strings.IndexByte(s, 0x1b)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		s = s[i+sequence(s[i:]):]
		i = strings.IndexByte(s, 0x1b)
	}
	b.WriteString(s)
	return b.String()
}

// sequence is the length of the control sequence at the start of s.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] < ' ' || s[i] > '~' {
				return i // broken off
			}
			if s[i] >= '@' {
				return i + 1
			}
		}
		return len(s)
	case ']', 'P', '^', '_': // up to BEL or ESC \
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == 0x07:
				return i + 1
			case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n':
				return i
			}
		}
		return len(s)
	case '\n', 0x1b:
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[1:])
	return 1 + n
}

// space is what counts as white space in the rules of the field, which are
// Python's: Unicode's and the four separators of ASCII.
func space(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }

func trim(s string) string      { return strings.TrimFunc(s, space) }
func trimLeft(s string) string  { return strings.TrimLeftFunc(s, space) }
func trimRight(s string) string { return strings.TrimRightFunc(s, space) }
func fields(s string) []string  { return strings.FieldsFunc(s, space) }

// word cuts the first word off a text that has no space before it.
func word(s string) (first, rest string) {
	i := strings.IndexFunc(s, space)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// cutSpace cuts one white space off the start of s.
func cutSpace(s string) (rest string, ok bool) {
	r, n := utf8.DecodeRuneInString(s)
	return s[n:], n > 0 && space(r)
}

// cutSpaces cuts all white space off the start of s, of which there must be some.
func cutSpaces(s string) (rest string, ok bool) {
	rest = trimLeft(s)
	return rest, len(rest) < len(s)
}

// cutAny cuts one of the prefixes off s and says which, or -1.
func cutAny(s string, prefixes ...string) (rest string, which int) {
	for i, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, i
		}
	}
	return s, -1
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// digits is the number of decimal digits at the start of s.
func digits(s string) int {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

// alphanumeric is what is part of a word in the rules of the field.
func alphanumeric(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// cutLastSpace cuts one white space off the end of s.
func cutLastSpace(s string) (rest string, ok bool) {
	r, n := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-n], n > 0 && space(r)
}
