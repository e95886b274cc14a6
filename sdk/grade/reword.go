package grade

import (
	"strings"
)

// Reword gives the same program in other bytes: more blanks between the tokens,
// comments at the end of the file and after the head of each function named, and
// one more first line. A test that looks for the source's text instead of its
// behaviour fails on it. Strings and comments stay as they are, and so do the
// numbers of lines, but for the first. Python only; other files come back as they
// are, and of one whose strings cannot be told apart the lines do.
func Reword(path string, data []byte, functions ...string) []byte {
	if !strings.HasSuffix(path, ".py") {
		return data
	}
	text := string(data)
	spaced, code, ok := respace(text)
	var b strings.Builder
	if !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "\ufeff") { // keep an encoding line in its place
		b.WriteString("# checked\n")
	}
	n := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		body := strings.TrimRight(line, "\r\n")
		end := line[len(body):]
		name, defines := pythonDefinition(body)
		defines = defines && strings.HasSuffix(body, ":") && contains(functions, name)
		if ok {
			body, defines = strings.TrimRight(spaced[n], "\r\n"), defines && code[n]
		}
		b.WriteString(body)
		if defines {
			b.WriteString("  # checked")
		}
		b.WriteString(end)
		n++
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString("# checked\n")
	return []byte(b.String())
}

// respace gives the lines of a Python program with every blank between two tokens
// doubled and one more after each comma and opening bracket. code[i] says whether
// line i begins outside every string. It reports false for a text whose strings it
// cannot follow: one without end, or a string in an f-string that has its quotes.
func respace(text string) (lines []string, code []bool, ok bool) {
	var b strings.Builder
	quote := ""    // that ends the string at hand; "" in code
	braces := -1   // open in the f-string at hand; −1 in any other string
	start := true  // only indentation so far in this line
	begins := true // this line began in code
	for i := 0; i < len(text); i++ {
		c := text[i]
		b.WriteByte(c)
		switch {
		case c == '\n':
			if len(quote) == 1 {
				return nil, nil, false
			}
			lines, code = append(lines, b.String()), append(code, begins)
			b.Reset()
			start, begins = true, quote == ""
			continue
		case c == '\\' && i+1 < len(text) && text[i+1] != '\r':
			i++
			if text[i] == '\n' { // the string or the statement goes on
				b.WriteByte('\n')
				lines, code = append(lines, b.String()), append(code, begins)
				b.Reset()
				start, begins = true, false
				continue
			}
			b.WriteByte(text[i])
		case quote != "" && strings.HasPrefix(text[i:], quote):
			if braces > 0 {
				return nil, nil, false
			}
			b.WriteString(quote[1:])
			i += len(quote) - 1
			quote = ""
		case quote != "":
			if braces >= 0 && (c == '{' || c == '}') {
				switch {
				case braces == 0 && i+1 < len(text) && text[i+1] == c: // a brace of the text
					b.WriteByte(c)
					i++
				case c == '{':
					braces++
				case braces > 0:
					braces--
				}
			}
		case c == '"' || c == '\'':
			quote, braces = text[i:i+1], -1
			if formatted(text[:i]) {
				braces = 0
			}
			if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[i:], triple) {
				quote = triple
				b.WriteString(triple[1:])
				i += 2
			}
		case c == '#':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			b.WriteString(text[i+1 : i+end])
			i += end - 1
		case c == ' ' && !start, c == ',', c == '(', c == '[', c == '{':
			b.WriteByte(' ')
		}
		start = start && (c == ' ' || c == '\t' || c == '\f')
	}
	if quote != "" {
		return nil, nil, false
	}
	return append(lines, b.String()), append(code, begins), true
}

// formatted says whether a quote after text begins an f-string (or a t-string).
func formatted(text string) bool {
	for n := 1; n <= 2 && n <= len(text); n++ {
		switch text[len(text)-n] | 0x20 {
		case 'f', 't':
			return true
		case 'r', 'b', 'u':
		default:
			return false
		}
	}
	return false
}

// contains says whether functions names name, as it is or as a class's method.
func contains(functions []string, name string) bool {
	for _, f := range functions {
		if f == name || strings.HasSuffix(f, "."+name) {
			return true
		}
	}
	return false
}
