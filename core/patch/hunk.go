package patch

import (
	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// hunks applies the fragments of one file to src, each exactly where it says and
// in ascending order. The parser's own applier is not used because it misplaces
// insertions without context, as `diff -U0` writes them.
func hunks(path string, src []byte, fs []*gitdiff.TextFragment) ([]byte, error) {
	lines := split(string(src))
	out := make([]byte, 0, len(src)+256)
	next := 0 // lines before it are done
	for i, f := range fs {
		at := func(format string, args ...any) error {
			args = append([]any{i + 1, len(fs)}, args...)
			return fail(path, "hunk %d of %d: "+format, args...)
		}
		if err := f.Validate(); err != nil {
			return nil, at("%w", err)
		}
		// A range of no lines names the line that it follows, any other its first.
		start := f.OldPosition - 1
		if f.OldLines == 0 {
			start = f.OldPosition
		}
		if start < int64(next) {
			return nil, at("it starts at line %d, within or before the hunk above", f.OldPosition)
		}
		if start > int64(len(lines)) || f.OldLines > int64(len(lines))-start {
			return nil, at("it covers lines %d to %d, the file has %d", start+1, start+f.OldLines, len(lines))
		}
		for _, l := range lines[next:start] {
			out = append(out, l...)
		}
		next = int(start)
		for _, l := range f.Lines {
			if l.Old() {
				if lines[next] != l.Line {
					return nil, at("line %d of the file is %q, the diff expects %q", next+1, clip(lines[next]), clip(l.Line))
				}
				next++
			}
			if l.New() {
				if len(out) > 0 && out[len(out)-1] != '\n' {
					return nil, at("lines follow one that has no newline")
				}
				out = append(out, l.Line...)
			}
		}
	}
	for _, l := range lines[next:] {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			return nil, fail(path, "the diff takes the newline from a line that others follow")
		}
		out = append(out, l...)
	}
	return out, nil
}

// split cuts s after each newline; the last line may have none.
func split(s string) []string {
	var out []string
	start := 0
	for i := range len(s) {
		if s[i] == '\n' {
			out = append(out, s[start:i+1])
			start = i + 1
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// clip keeps an error message readable when a line is very long.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
