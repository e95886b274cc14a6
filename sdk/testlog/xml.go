package testlog

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// tag is one tag of an XML text.
type tag struct {
	name       string
	attributes string // between the name and the end of the tag, as written
	closing    bool   // </name>
	empty      bool   // <name/>
}

// tags calls visit for each whole tag of an XML text, in order, whatever is between
// them. Comments, character data sections, declarations and instructions are passed
// over. A text that is cut off ends with its last whole tag.
func tags(text string, visit func(tag)) {
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			return
		}
		text = text[i+1:]
		shut := ""
		switch {
		case strings.HasPrefix(text, "!--"):
			shut = "-->"
		case strings.HasPrefix(text, "![CDATA["):
			shut = "]]>"
		case strings.HasPrefix(text, "?"):
			shut = "?>"
		case strings.HasPrefix(text, "!"):
			shut = ">"
		}
		if shut != "" {
			_, rest, ok := strings.Cut(text, shut)
			if !ok {
				return
			}
			text = rest
			continue
		}
		end := tagEnd(text)
		if end < 0 {
			return
		}
		inner := text[:end]
		text = text[end+1:]
		t := tag{}
		inner, t.closing = strings.CutPrefix(inner, "/")
		inner, t.empty = strings.CutSuffix(inner, "/")
		n := strings.IndexAny(inner, " \t\n")
		if n < 0 {
			n = len(inner)
		}
		t.name, t.attributes = inner[:n], inner[n:]
		if t.name != "" {
			visit(t)
		}
	}
}

// tagEnd finds the ">" of a tag, outside quotes.
func tagEnd(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i
		}
	}
	return -1
}

// attribute gives the value of an attribute, its references resolved; "" if the
// tag has none of that name.
func (t *tag) attribute(name string) string {
	s := t.attributes
	for {
		s = strings.TrimLeft(s, " \t\n")
		eq := strings.IndexByte(s, '=')
		if eq < 0 {
			return ""
		}
		key := strings.TrimRight(s[:eq], " \t\n")
		s = strings.TrimLeft(s[eq+1:], " \t\n")
		if s == "" || s[0] != '"' && s[0] != '\'' {
			return ""
		}
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 {
			return ""
		}
		if key == name {
			return resolve(s[1 : 1+end])
		}
		s = s[end+2:]
	}
}

// resolve replaces character references and the five named ones.
func resolve(s string) string {
	if strings.IndexByte(s, '&') < 0 {
		return s
	}
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(s, "&")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		s = rest
		end := strings.IndexByte(rest[:min(len(rest), 12)], ';')
		if end < 0 {
			b.WriteByte('&')
			continue
		}
		if r := reference(rest[:end]); r >= 0 {
			b.WriteRune(r)
			s = rest[end+1:]
		} else {
			b.WriteByte('&')
		}
	}
}

func reference(name string) rune {
	switch name {
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "amp":
		return '&'
	case "quot":
		return '"'
	case "apos":
		return '\''
	}
	number, ok := strings.CutPrefix(name, "#")
	if !ok {
		return -1
	}
	base := 10
	if h, ok := strings.CutPrefix(number, "x"); ok {
		number, base = h, 16
	}
	n, err := strconv.ParseUint(number, base, 21)
	if err != nil || !utf8.ValidRune(rune(n)) {
		return -1
	}
	return rune(n)
}
