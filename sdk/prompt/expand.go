package prompt

import (
	"fmt"
	"strings"
)

// Value is what one placeholder stands for.
type Value struct {
	Name string
	Text string
	// Absent says why a record has no such text, e.g. "the workspace is an image";
	// a template that asks for it gives an [Error] with Absent set.
	Absent string
}

// Error is a template that cannot be filled in.
type Error struct {
	Template    string
	Line        int // from 1
	Placeholder string
	Cause       string
	Absent      bool // the template is sound; this record lacks the text
}

func (e *Error) Error() string {
	if e.Placeholder == "" {
		return fmt.Sprintf("fill prompt: %s:%d: %s", e.Template, e.Line, e.Cause)
	}
	return fmt.Sprintf("fill prompt: %s:%d: {%s}: %s", e.Template, e.Line, e.Placeholder, e.Cause)
}

// Fill substitutes values in both parts of the template. The error is an *[Error].
func (t *Template) Fill(values []Value) (system, user string, err error) {
	if system, err = Expand(t.Name, t.System, values); err != nil {
		return "", "", err
	}
	if user, err = Expand(t.Name, t.User, values); err != nil {
		err.(*Error).Line += t.Line
		return "", "", err
	}
	return system, user, nil
}

// Expand replaces each {name} of text by its value. `{{` and `}}` stand for single
// braces; a name has lower-case letters, digits and underscores. Values are put in
// as they are: a brace in one is not looked at again. Every error is an *[Error]
// that names the template as given and the line.
func Expand(template, text string, values []Value) (string, error) {
	var b strings.Builder
	line := 1
	fail := func(name, cause string, absent bool) (string, error) {
		return "", &Error{Template: template, Line: line, Placeholder: name, Cause: cause, Absent: absent}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			line++
			b.WriteByte(c)
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			b.WriteByte(c)
			i++
		case c == '}':
			return fail("", "a } that closes nothing; write }} for a brace", false)
		case c == '{':
			n := nameLength(text[i+1:])
			if n == 0 || i+1+n >= len(text) || text[i+1+n] != '}' {
				return fail("", "a { that opens no placeholder; write {{ for a brace", false)
			}
			name := text[i+1 : i+1+n]
			v := find(values, name)
			switch {
			case v == nil:
				return fail(name, "unknown placeholder; known are "+names(values), false)
			case v.Absent != "":
				return fail(name, v.Absent, true)
			}
			b.WriteString(v.Text)
			i += n + 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func nameLength(s string) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

func find(values []Value, name string) *Value {
	for i := range values {
		if values[i].Name == name {
			return &values[i]
		}
	}
	return nil
}

func names(values []Value) string {
	s := make([]string, len(values))
	for i, v := range values {
		s[i] = v.Name
	}
	return strings.Join(s, ", ")
}
