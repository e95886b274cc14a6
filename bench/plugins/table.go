package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table shows the rows, and how many times the figure of the first, which is
// Valence's WASM, each is.
func table(w io.Writer, rows []*result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "PLUGIN\tISOLATED\t")
	for _, what := range []string{"CALL", "FRESH"} {
		for _, s := range sizes {
			fmt.Fprintf(t, "%s %d KB\t\t", what, s>>10)
		}
	}
	fmt.Fprintln(t, "LOOP\t\tMEMORY\tGC\t")
	first := rows[0]
	for _, r := range rows {
		if r.LeftOut != "" {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t", r.Name, yes(r.Isolated))
		for i := range sizes {
			fmt.Fprint(t, compared(r.CallMicros[i], first.CallMicros[i]))
		}
		for i := range sizes {
			fmt.Fprint(t, compared(r.FreshMicro[i], first.FreshMicro[i]))
		}
		fmt.Fprint(t, compared(r.LoopMicros, first.LoopMicros))
		fmt.Fprintf(t, "%d KiB\t%s\t\n", r.MemoryKiB, duration(r.PauseMicro))
		if r == first {
			// The same figures once more where a call is looked for.
			fmt.Fprint(t, "a new instance each\tyes\t")
			for i := range sizes {
				fmt.Fprint(t, compared(r.FreshMicro[i], r.CallMicros[i]))
			}
			fmt.Fprintln(t, strings.Repeat("\t", 2*len(sizes)+4))
		}
	}
	t.Flush()
	for _, r := range rows {
		if r.LeftOut != "" {
			fmt.Fprintf(w, "%s was left out: %s\n", r.Name, r.LeftOut)
		}
	}
	for _, r := range rows {
		if c := r.Waiting; c != nil {
			fmt.Fprintf(w, "%s: %d evaluations that wait for the host: %d threads, %d KiB each\n", r.Name, c.Evaluations, c.Threads, c.KiB)
		}
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// compared are two cells: the figure, and how many times base it is.
func compared(us, base float64) string {
	if us == 0 || base == 0 {
		return "-\t\t"
	}
	return fmt.Sprintf("%s\t%.2fx\t", duration(us), us/base)
}

func duration(us float64) string {
	switch {
	case us == 0:
		return "-"
	case us >= 1e4:
		return fmt.Sprintf("%.0f ms", us/1e3)
	case us >= 1e3:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f µs", us)
}
