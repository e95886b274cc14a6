package ask

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values nest.
const maxDepth = 32

// Parse reads one JSON value (RFC 8259) as nil, bool, float64, string, []any or
// map[string]any. It is strict: nothing may follow the value, no key may come twice,
// and text is valid UTF-8 with whole surrogate pairs.
func Parse(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8")
	}
	p := &parser{text: text}
	v := p.value(0)
	p.blanks()
	if p.at < len(text) {
		p.fail("text after the value")
	}
	if p.err != nil {
		return nil, p.err
	}
	return v, nil
}

type parser struct {
	text string
	at   int
	err  error
}

func (p *parser) fail(cause string) {
	if p.err == nil {
		p.err = fmt.Errorf("not JSON at byte %d: %s", p.at, cause)
	}
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// peek is the next byte that is no blank; 0 at the end.
func (p *parser) peek() byte {
	p.blanks()
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) take(b byte) bool {
	if p.peek() != b {
		return false
	}
	p.at++
	return true
}

func (p *parser) value(depth int) any {
	if depth > maxDepth {
		p.fail("nested too deep")
	}
	if p.err != nil {
		return nil
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		return p.string()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case p.word("true"):
		return true
	case p.word("false"):
		return false
	case p.word("null"):
	default:
		p.fail("no value")
	}
	return nil
}

func (p *parser) word(w string) bool {
	if !strings.HasPrefix(p.text[p.at:], w) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) object(depth int) any {
	out := map[string]any{}
	p.at++
	if p.take('}') {
		return out
	}
	for p.err == nil {
		if p.peek() != '"' {
			p.fail("no key")
			break
		}
		key := p.string()
		if _, twice := out[key]; twice {
			p.fail("key " + strconv.Quote(key) + " comes twice")
		}
		if !p.take(':') {
			p.fail("no colon after a key")
		}
		out[key] = p.value(depth + 1)
		if p.take(',') {
			continue
		}
		if !p.take('}') {
			p.fail("an object without end")
		}
		break
	}
	return out
}

func (p *parser) list(depth int) any {
	out := []any{}
	p.at++
	if p.take(']') {
		return out
	}
	for p.err == nil {
		out = append(out, p.value(depth+1))
		if p.take(',') {
			continue
		}
		if !p.take(']') {
			p.fail("a list without end")
		}
		break
	}
	return out
}

func (p *parser) string() string {
	var b strings.Builder
	p.at++
	plain := p.at // where the bytes begin that stand for themselves
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			b.WriteString(p.text[plain:p.at])
			p.at++
			return b.String()
		case c < 0x20:
			p.fail("a control character in a text")
			return ""
		case c != '\\':
			p.at++
		default:
			b.WriteString(p.text[plain:p.at])
			if !p.escape(&b) {
				p.fail("a bad escape")
				return ""
			}
			plain = p.at
		}
	}
	p.fail("a text without end")
	return ""
}

// escape reads one escape from its backslash on.
func (p *parser) escape(b *strings.Builder) bool {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if p.at+1 >= len(p.text) {
		return false
	}
	c := p.text[p.at+1]
	if i := strings.IndexByte(from, c); i >= 0 {
		b.WriteByte(to[i])
		p.at += 2
		return true
	}
	r, ok := p.unit()
	if !ok {
		return false
	}
	if utf16.IsSurrogate(r) {
		low, ok := p.unit()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return false
		}
	}
	b.WriteRune(r)
	return true
}

// unit reads \uXXXX.
func (p *parser) unit() (rune, bool) {
	s := p.text[p.at:]
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return 0, false
	}
	p.at += 6
	return rune(n), true
}

func (p *parser) number() any {
	start := p.at
	digits := func() int {
		from := p.at
		for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
			p.at++
		}
		return p.at - from
	}
	next := func(set string) bool {
		if p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
			p.at++
			return true
		}
		return false
	}
	next("-")
	zero := p.at < len(p.text) && p.text[p.at] == '0'
	if n := digits(); n == 0 || zero && n > 1 {
		p.fail("a bad number")
		return nil
	}
	if next(".") && digits() == 0 {
		p.fail("a bad number")
		return nil
	}
	if next("eE") {
		next("+-")
		if digits() == 0 {
			p.fail("a bad number")
			return nil
		}
	}
	x, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if err != nil {
		p.fail("a number out of range")
	}
	return x
}

// List takes an object with that key alone, whose value is a list.
func List(v any, key string) ([]any, error) {
	f, err := Fields(v, key)
	if err != nil {
		return nil, err
	}
	list, ok := f[0].([]any)
	if !ok {
		return nil, errors.New(key + " is no list")
	}
	return list, nil
}

// Fields takes an object with exactly the keys named and gives their values in that
// order.
func Fields(v any, keys ...string) ([]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the value is no object")
	}
	out := make([]any, len(keys))
	for i, k := range keys {
		if out[i], ok = m[k]; !ok {
			return nil, fmt.Errorf("key %q is missing", k)
		}
	}
	if len(m) > len(keys) {
		return nil, fmt.Errorf("the object has other keys than %s", strings.Join(keys, ", "))
	}
	return out, nil
}
