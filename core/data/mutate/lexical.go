package mutate

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

// lexicalFunctions finds functions by the line that begins one: what is indented more
// than that line belongs to it, and, where that line or the next opens a brace, all up
// to the one that closes it. Edits are made of the tokens between strings and comments.
func lexicalFunctions(begins *regexp.Regexp, files []sdk.File) []Function {
	var out []Function
	for _, f := range files {
		lines := bytes.SplitAfter(f.Data, []byte("\n"))
		offset := 0
		for i := 0; i < len(lines); i++ {
			line := strings.TrimRight(string(lines[i]), "\r\n")
			m := begins.FindStringSubmatch(line)
			if m == nil || m[1] == "" {
				offset += len(lines[i])
				continue
			}
			last := blockEnd(lines, i)
			from, to := offset, offset
			for j := i; j <= last; j++ {
				to += len(lines[j])
			}
			fn := Function{Path: f.Path, Name: m[1], Line: i + 1, End: last + 1, Edits: lexicalEdits(f.Data, from+len(lines[i]), to)}
			if len(fn.Edits) > 0 {
				out = append(out, fn)
			}
			offset, i = to, last
		}
	}
	return out
}

// blockEnd is the last line of the block that line i begins.
func blockEnd(lines [][]byte, i int) int {
	depth := 0
	opened := false
	for j := i; j < len(lines); j++ {
		for _, c := range lines[j] {
			switch c {
			case '{':
				depth++
				opened = true
			case '}':
				depth--
			}
		}
		if opened && depth <= 0 {
			return j
		}
		if !opened && j > i {
			break
		}
	}
	width := func(l []byte) int { return len(l) - len(bytes.TrimLeft(l, " \t")) }
	last := i
	for j := i + 1; j < len(lines); j++ {
		if len(bytes.TrimSpace(lines[j])) == 0 {
			continue
		}
		if width(lines[j]) <= width(lines[i]) {
			break
		}
		last = j
	}
	return last
}

// lexicalTokens are what is replaced; the longest that fits counts. Operators stand
// between blanks, so that a pointer or a type parameter is not taken for one.
var lexicalTokens = []struct {
	old, new, operator string
	word               bool
}{
	{" <= ", " < ", "boundary", false}, {" >= ", " > ", "boundary", false}, {" === ", " !== ", "comparison", false}, {" !== ", " === ", "comparison", false},
	{" == ", " != ", "comparison", false}, {" != ", " == ", "comparison", false}, {" < ", " <= ", "boundary", false}, {" > ", " >= ", "boundary", false},
	{" && ", " || ", "boolean", false}, {" || ", " && ", "boolean", false}, {" + ", " - ", "arithmetic", false}, {" - ", " + ", "arithmetic", false},
	{" * ", " / ", "arithmetic", false}, {" / ", " * ", "arithmetic", false}, {" % ", " / ", "arithmetic", false},
	{"true", "false", "constant", true}, {"false", "true", "constant", true}, {"-lt", "-le", "boundary", true}, {"-gt", "-ge", "boundary", true},
	{"-le", "-lt", "boundary", true}, {"-ge", "-gt", "boundary", true}, {"-eq", "-ne", "comparison", true}, {"-ne", "-eq", "comparison", true},
}

// lexicalEdits lists the edits of the bytes from start to end.
func lexicalEdits(data []byte, start, end int) []Edit {
	var out []Edit
	word := func(c byte) bool {
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for i := start; i < end; {
		c := data[i]
		switch {
		case c == '"' || c == '\'' || c == '`':
			i = stringEnd(data, i, end)
			continue
		case c == '#' && (i == 0 || data[i-1] == ' ' || data[i-1] == '\n'), bytes.HasPrefix(data[i:end], []byte("//")):
			for i < end && data[i] != '\n' {
				i++
			}
			continue
		case '0' <= c && c <= '9' && (i == 0 || !word(data[i-1]) && data[i-1] != '$' && data[i-1] != '.'):
			j := i
			for j < end && word(data[j]) {
				j++
			}
			if v, err := strconv.Atoi(string(data[i:j])); err == nil && v < 1e9 {
				out = append(out, Edit{i, j, strconv.Itoa(v + 1), "off by one"})
				if v > 0 {
					out = append(out, Edit{i, j, strconv.Itoa(v - 1), "off by one"})
				}
			}
			i = j
			continue
		}
		step := 1
		for _, t := range lexicalTokens {
			if !bytes.HasPrefix(data[i:end], []byte(t.old)) {
				continue
			}
			n := i + len(t.old)
			if t.word && (i > 0 && word(data[i-1]) || n < len(data) && word(data[n])) {
				continue
			}
			out = append(out, Edit{i, n, t.new, t.operator})
			step = max(1, len(t.old)-1) // the blank after may begin another
			break
		}
		i += step
	}
	return out
}

// stringEnd is where the string that begins at i is over; one without end is over at
// the end of its line.
func stringEnd(data []byte, i, end int) int {
	for j := i + 1; j < end; j++ {
		switch data[j] {
		case '\\':
			j++
		case data[i]:
			return j + 1
		case '\n':
			if data[i] != '`' {
				return i + 1
			}
		}
	}
	return i + 1
}
