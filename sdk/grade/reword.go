package grade

import (
	"strings"
)

// Reword gives the same program in other bytes: comments at the end of the file
// and after the head of each function named, and one more first line. A test that
// compares the source's text instead of its behaviour fails on it. Python only;
// other files come back as they are.
func Reword(path string, data []byte, functions ...string) []byte {
	if !strings.HasSuffix(path, ".py") {
		return data
	}
	text := string(data)
	var b strings.Builder
	if !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "\ufeff") { // keep an encoding line in its place
		b.WriteString("# checked\n")
	}
	for line := range strings.SplitAfterSeq(text, "\n") {
		body := strings.TrimRight(line, "\r\n")
		name, ok := pythonDefinition(body)
		if ok && strings.HasSuffix(body, ":") && contains(functions, name) {
			b.WriteString(body + "  # checked" + line[len(body):])
			continue
		}
		b.WriteString(line)
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString("# checked\n")
	return []byte(b.String())
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
