package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes the comparison for a terminal: a block for each split, then what the
// model was asked, the swaps and the warnings.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Name)
	if n := len(r.Steps); n > 0 {
		fmt.Fprintf(&b, "  step %d", r.Steps[n-1].Step)
		if r.Planned > 0 {
			fmt.Fprintf(&b, "/%d", r.Planned)
		}
		secs := 0.0
		for _, s := range r.Steps {
			secs += s.Seconds
		}
		fmt.Fprintf(&b, "  policy v%d  %s", r.Steps[n-1].Version, hours(secs))
	}
	b.WriteByte('\n')
	for _, s := range r.Splits {
		fmt.Fprintf(&b, "\n%s, Avg@%d with 95%% intervals", s.Name, s.After.Runs)
		if s.Before != nil {
			fmt.Fprintf(&b, ": step %d before, step %d after", s.Before.Step, s.After.Step)
		} else {
			fmt.Fprintf(&b, ", step %d", s.After.Step)
		}
		b.WriteByte('\n')
		s.table(&b)
	}
	if u := ModelUse(r.model()); u != "" {
		fmt.Fprintf(&b, "\nmodel: %s\n", u)
	}
	r.swapTable(&b)
	for _, t := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", t)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Split) table(b *strings.Builder) {
	head := []string{"SKILL", "TASKS", "SCORE", ""}
	if s.Before != nil {
		head = []string{"SKILL", "TASKS", "BEFORE", "", "AFTER", "", "DIFFERENCE", ""}
	}
	rows := [][]string{head}
	for i, k := range append(append([]row(nil), s.rows...), s.mean) {
		if i == len(s.rows) && i == 1 {
			break
		}
		tasks := ""
		if k.tasks > 0 {
			tasks = fmt.Sprint(k.tasks)
		}
		line := []string{k.name, tasks}
		if s.Before != nil {
			line = append(line, number3(k.before)...)
		}
		line = append(line, number3(k.after)...)
		if s.Before != nil {
			if k.delta.ok {
				line = append(line, fmt.Sprintf("%+.3f", k.delta.mean), fmt.Sprintf("[%+.3f, %+.3f]", k.delta.low, k.delta.high))
			} else {
				line = append(line, "-", "")
			}
		}
		rows = append(rows, line)
	}
	width := make([]int, len(head))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		var l strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			switch {
			case i == 0:
				l.WriteString(c + pad)
			case c != "" && c[0] == '[' || i > 1 && head[i] == "":
				l.WriteString(" " + c + pad)
			default:
				l.WriteString("  " + pad + c)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
}

func number3(v interval) []string {
	if !v.ok {
		return []string{"-", ""}
	}
	return []string{fmt.Sprintf("%.3f", v.mean), fmt.Sprintf("[%.3f, %.3f]", v.low, v.high)}
}
