package report

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/valence-rl/valence/core/journal"
)

// mark is a vertical line in a chart over steps, with a label at its head.
type mark struct {
	x     float64
	label string
	title string
}

// pageSwap is a row of the page's table of swaps.
type pageSwap struct {
	Number, Step, Group, Skill, Role, From, To, Ref, By, Reason string
	Refused                                                     bool
}

// marks are the accepted swaps of a skill, or of all with "", one for each step.
// Their labels are the numbers of the table.
func (r *Report) marks(skill string) []mark {
	var out []mark
	n := 0
	for _, s := range r.Swaps {
		if s.Outcome != journal.Accepted {
			continue
		}
		n++
		if skill != "" && s.Skill != skill {
			continue
		}
		label, title := fmt.Sprint(n), fmt.Sprintf("%s %s, from group %d", s.Skill, part(s.Role), s.Dispatch)
		if k := len(out) - 1; k >= 0 && out[k].x == float64(s.Step) {
			out[k].label += "," + label
			out[k].title += "; " + title
			continue
		}
		out = append(out, mark{float64(s.Step), label, title})
	}
	return out
}

func (r *Report) pageSwaps() []pageSwap {
	var out []pageSwap
	n := 0
	for _, s := range r.Swaps {
		p := pageSwap{Step: fmt.Sprint(s.Step), Skill: s.Skill, Role: part(s.Role), From: digest(s.From), To: digest(s.To), Ref: s.Ref, By: s.By, Reason: firstLine(s.Reason)}
		if s.Outcome == journal.Accepted {
			n++
			p.Number, p.Group = fmt.Sprint(n), fmt.Sprint(s.Dispatch)
		} else {
			p.Refused = true
		}
		out = append(out, p)
	}
	return out
}

// swapTable writes the swaps for a terminal.
func (r *Report) swapTable(b *strings.Builder) {
	if len(r.Swaps) == 0 {
		return
	}
	b.WriteString("\nswaps\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tGROUP\tSKILL\tROLE\tFROM\tTO\tBY\tOUTCOME")
	for _, s := range r.pageSwaps() {
		outcome := journal.Accepted
		if s.Refused {
			outcome = journal.Refused + ": " + s.Reason
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Step, dash(s.Group), dash(s.Skill), dash(s.Role), dash(s.From), dash(cmp.Or(s.To, s.Ref)), s.By, outcome)
	}
	w.Flush()
}

// part calls a role as the TOML does.
func part(role string) string {
	if role == "evaluate" {
		return "plugin"
	}
	return role
}

// digest shows the beginning of one.
func digest(d string) string {
	_, hex, ok := strings.Cut(d, ":")
	if !ok || len(hex) < 12 {
		return d
	}
	return hex[:12]
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
