package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table shows the rows, and how many times the first's figure each is.
func table(w io.Writer, rows []*result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SANDBOX\tLIMITS\tFIRST\t\tEXEC\t\tEND\t\tCYCLE\t\tRATE\tMEMORY\t")
	first := rows[0]
	for _, r := range rows {
		if r.LeftOut != "" {
			continue
		}
		limits := "no"
		if r.Limits {
			limits = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t", r.Name, limits)
		for _, f := range [][2]figure{{r.First, first.First}, {r.Exec, first.Exec}, {r.End, first.End}, {r.Cycle, first.Cycle}} {
			fmt.Fprintf(t, "%.3g (%.3g–%.3g) ms\t%.2gx\t", f[0].P50, f[0].P10, f[0].P90, f[0].P50/f[1].P50)
		}
		fmt.Fprintf(t, "%.0f/s\t%.1f MiB\t\n", r.Rate, float64(r.KiB)/1024)
	}
	t.Flush()
	for _, r := range rows {
		if r.LeftOut != "" {
			fmt.Fprintf(w, "%s was left out: %s\n", r.Name, r.LeftOut)
		}
	}
}

// crowdTable shows what many at once are like.
func crowdTable(w io.Writer, all []*crowd) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nALIVE\tLEVEL\tMADE\tALL ANSWER\tOWN MEMORY\tOF THE MACHINE\tGONE AFTER KILL\tLEFT\t")
	for _, c := range all {
		fmt.Fprintf(t, "%d\t%s\t%.1f s, %.0f/s\t%.2f s\t%.1f MiB each\t%.1f MiB each\t%.2f s\t%s\t\n", c.Alive, c.Level, c.Made, float64(c.Alive)/c.Made,
			c.Answered, float64(c.KiB)/1024, float64(c.MachineKiB)/1024, c.Gone, c.Left)
	}
	t.Flush()
}
