package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// fail shows an error: on standard error for people and, when results are JSON, on
// standard output too: as the one value if there is no other, or as the last line.
func (a *app) fail(err error) {
	var s exitStatus
	if errors.As(err, &s) {
		return
	}
	renderError(a.stderr, err, a.paint(a.stderr))
	if a.began {
		a.out.failure(failure(err))
	}
}

// failure is the machine's form of an error.
func failure(err error) map[string]any {
	return map[string]any{"kind": diag.KindOf(err), "exit_code": exitCode(err), "message": err.Error()}
}

// renderError writes err for a person, its diagnostics in full.
func renderError(w io.Writer, err error, p palette) {
	for i, e := range flatten(err) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, paintError(errorText(e), p))
	}
}

// flatten splits joined errors.
func flatten(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, flatten(e)...)
		}
		return out
	}
	return []error{err}
}

// errorText puts diagnostics first and what was being done behind them.
func errorText(err error) string {
	var text string
	var l diag.List
	var d *diag.Diagnostic
	switch {
	case errors.As(err, &l):
		text = l.Error()
	case errors.As(err, &d):
		text = d.Error()
	default:
		kind := ""
		if k := diag.KindOf(err); k != diag.KindUnknown {
			kind = "[" + string(k) + "]"
		}
		return "error" + kind + ": " + err.Error()
	}
	if context := strings.TrimSuffix(strings.TrimSuffix(err.Error(), text), ": "); context != "" {
		text += "\n  while: " + context
	}
	return text
}

var (
	headLine   = regexp.MustCompile(`^error(\[\w+\])?:`)
	placeLine  = regexp.MustCompile(`^  -->`)
	gutterLine = regexp.MustCompile(`^( *\d* \|)(.*)$`)
	markerLine = regexp.MustCompile(`^(\s*)(\^+)(.*)$`)
)

// paintError colours the lines of a rendered diagnostic.
func paintError(text string, p palette) string {
	if p == (palette{}) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		switch {
		case headLine.MatchString(l):
			head := headLine.FindString(l)
			lines[i] = p.in(p.bold+p.red, head) + p.in(p.bold, l[len(head):])
		case placeLine.MatchString(l):
			lines[i] = p.in(p.blue, "  -->") + l[len("  -->"):]
		case gutterLine.MatchString(l):
			m := gutterLine.FindStringSubmatch(l)
			rest := m[2]
			if k := markerLine.FindStringSubmatch(rest); k != nil {
				rest = k[1] + p.in(p.red, k[2]) + p.in(p.yellow, k[3])
			}
			lines[i] = p.in(p.blue, m[1]) + rest
		}
	}
	return strings.Join(lines, "\n")
}
