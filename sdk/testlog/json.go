package testlog

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how far JSON may nest; what goes deeper is not read.
const deepest = 64

// scanner reads JSON from front to back, so that a document that is cut off gives
// what came before the cut. After the first thing that is not JSON it is bad and
// reads no more.
type scanner struct {
	text  string
	at    int
	depth int
	bad   bool
}

func (p *scanner) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.bad || p.at == len(p.text) {
		p.bad = true
		return 0
	}
	return p.text[p.at]
}

func (p *scanner) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *scanner) need(c byte) {
	if !p.take(c) {
		p.bad = true
	}
}

// object calls member for each key; member must read or skip the value. A value
// that is no object is skipped.
func (p *scanner) object(member func(key string)) {
	if p.peek() != '{' {
		p.skip()
		return
	}
	p.list('{', '}', func() {
		key := p.string()
		p.need(':')
		if !p.bad {
			member(key)
		}
	})
}

// array calls element before each element, which it must read or skip. A value
// that is no array is skipped.
func (p *scanner) array(element func()) {
	if p.peek() != '[' {
		p.skip()
		return
	}
	p.list('[', ']', element)
}

func (p *scanner) list(open, shut byte, item func()) {
	p.need(open)
	if p.depth++; p.depth > deepest {
		p.bad = true
	}
	for first := true; !p.bad && !p.take(shut); first = false {
		if !first {
			p.need(',')
		}
		if !p.bad {
			item()
		}
	}
	p.depth--
}

// words reads a string, or the strings of an array.
func (p *scanner) words() (out []string) {
	switch p.peek() {
	case '"':
		return []string{p.string()}
	case '[':
		p.array(func() { out = append(out, p.words()...) })
	default:
		p.skip()
	}
	return out
}

// string reads a string; anything else makes the scanner bad.
func (p *scanner) string() string {
	p.need('"')
	if p.bad {
		return ""
	}
	from := p.at
	i := strings.IndexAny(p.text[from:], "\"\\")
	if i < 0 {
		p.bad = true
		return ""
	}
	p.at += i
	if p.text[p.at] == '"' {
		p.at++
		return p.text[from : p.at-1]
	}
	var b strings.Builder
	b.WriteString(p.text[from:p.at])
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch c {
		case '"':
			return b.String()
		case '\\':
			p.escape(&b)
		default:
			b.WriteByte(c)
		}
	}
	p.bad = true
	return ""
}

func (p *scanner) escape(b *strings.Builder) {
	if p.at == len(p.text) {
		return
	}
	c := p.text[p.at]
	p.at++
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r := p.hex()
		if utf16.IsSurrogate(r) && strings.HasPrefix(p.text[p.at:], `\u`) {
			p.at += 2
			second := p.hex()
			if whole := utf16.DecodeRune(r, second); whole != utf8.RuneError {
				r = whole
			} else {
				b.WriteRune(utf8.RuneError)
				r = second
			}
		}
		b.WriteRune(r)
		return
	}
	b.WriteByte(c)
}

func (p *scanner) hex() rune {
	if p.at+4 > len(p.text) {
		p.bad = true
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(p.text[p.at:p.at+4], 16, 16)
	if err != nil {
		p.bad = true
		return utf8.RuneError
	}
	p.at += 4
	return rune(n)
}

// skip passes over any value.
func (p *scanner) skip() {
	switch c := p.peek(); {
	case p.bad:
	case c == '{':
		p.object(func(string) { p.skip() })
	case c == '[':
		p.array(p.skip)
	case c == '"':
		p.string()
	default:
		n := strings.IndexAny(p.text[p.at:], ",]} \t\r\n")
		if n < 0 {
			n = len(p.text) - p.at
		}
		if n == 0 {
			p.bad = true
		}
		p.at += n
	}
}
