package diag

import (
	"fmt"
	"strings"
)

// Diagnostic is an error that a person can act on. [Diagnostic.Error] renders it
// without colour:
//
//	error[C014]: unknown key "wieght"
//	  --> run.toml:4:1
//	 4 | wieght = 0.2
//	   | ^^^^^^ did you mean "weight"?
//	[skills.localization] accepts: plugin, weight, judge, limits
type Diagnostic struct {
	Kind    Kind
	Code    string // stable, e.g. "C014"; the letter is the boundary's
	Summary string // one line
	Source  Source // where; the zero Source prints no location
	Hint    string // beside the marker: the remedy in a few words
	Detail  []string
}

// Source points into a text file. Line and Column count from 1; Column counts
// bytes. Text is the line itself, Width the number of characters to underline. Line
// 0 with a Text is a text without line numbers, such as a command-line flag.
type Source struct {
	File   string
	Line   int
	Column int
	Text   string
	Width  int
}

// Error renders the diagnostic over several lines, without a trailing newline.
func (d *Diagnostic) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "error[%s]: %s", d.Code, d.Summary)
	if d.Source.File != "" {
		fmt.Fprintf(&b, "\n  --> %s", d.Source.File)
		if d.Source.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", d.Source.Line, d.Source.Column)
		}
	}
	if d.Source.Text != "" {
		n := " "
		if d.Source.Line > 0 {
			n = fmt.Sprint(d.Source.Line)
		}
		pad := strings.Repeat(" ", len(n))
		fmt.Fprintf(&b, "\n %s | %s", n, d.Source.Text)
		fmt.Fprintf(&b, "\n %s | %s%s", pad, indent(d.Source.Text, d.Source.Column-1), strings.Repeat("^", max(1, d.Source.Width)))
		if d.Hint != "" {
			b.WriteString(" " + d.Hint)
		}
	} else if d.Hint != "" {
		b.WriteString("\n  " + d.Hint)
	}
	for _, l := range d.Detail {
		b.WriteString("\n" + l)
	}
	return b.String()
}

// indent is a blank for each character in the first n bytes of text, keeping its
// tabs so that markers line up.
func indent(text string, n int) string {
	var b strings.Builder
	for i := 0; i < n; i++ {
		switch {
		case i < len(text) && text[i] == '\t':
			b.WriteByte('\t')
		case i < len(text) && text[i]&0xc0 == 0x80: // inside a character
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// List is several diagnostics of one check, in source order.
type List []*Diagnostic

func (l List) Error() string {
	s := make([]string, len(l))
	for i, d := range l {
		s[i] = d.Error()
	}
	return strings.Join(s, "\n\n")
}

// Err is nil for an empty list, so that a check can end with `return l.Err()`.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}
