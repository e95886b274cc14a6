package main

import (
	"fmt"
	"strings"
)

// around is how many lines of context a hunk has on each side.
const around = 3

// diff gives the change of a file as a unified diff of one hunk: from the first line
// that differs to the last.
func diff(path, old, new string) string {
	a, b := split(old), split(new)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, to := max(0, head-around), min(tail, around)
	gone, come := a[head:len(a)-tail], b[head:len(b)-tail]
	before, after := a[from:head], a[len(a)-tail:len(a)-tail+to]

	var s strings.Builder
	fmt.Fprintf(&s, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n", path, path, path, path)
	fmt.Fprintf(&s, "@@ -%s +%s @@\n", span(from, len(before)+len(gone)+len(after)), span(from, len(before)+len(come)+len(after)))
	for _, part := range []struct {
		sign  string
		lines []string
	}{{" ", before}, {"-", gone}, {"+", come}, {" ", after}} {
		for _, l := range part.lines {
			s.WriteString(part.sign + l)
			if !strings.HasSuffix(l, "\n") {
				s.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	return s.String()
}

// split gives the lines of a text with their line breaks.
func split(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// span is how a hunk's header names n lines that follow the first from.
func span(from, n int) string {
	if n > 0 {
		from++
	}
	return fmt.Sprintf("%d,%d", from, n)
}
