// Command sandbox measures sandboxes side by side: the levels of Valence's local
// driver, and what a program would use instead.
//
//	bench/sandbox/run [-repeats 30] [-alive 512,2000] [-json FILE]
//
// Every subject does the same, in turns: it makes a sandbox with a writable workspace
// of two files and runs `bash -c 'echo ready'` in it, runs `bash -c true` a few times,
// and ends it. Each figure is the median of all repeats with the 10th and the 90th
// percentile; the ratios, to the first row, are what to compare between machines.
//
//	FIRST   making a sandbox, and its first command
//	EXEC    one more command
//	END     ending it, until nothing of it is left
//	CYCLE   first command and end together
//	RATE    cycles a second with four at a time
//	MEMORY  what one more idle sandbox and what serves it take for themselves
//
// The subjects with limits bound memory, CPUs and processes by control groups. bwrap
// has no limits, and one bash in each of its sandboxes takes the commands; runc's and
// bwrap's workspaces are copies, those of the others lie on an overlay.
//
// After that, -alive sandboxes at once are made by the local driver, all of them
// answer, their host is killed, and what is then left is counted.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/sandbox/local"
)

const (
	execs  = 5   // commands of a sandbox after its first
	beside = 4   // sandboxes at a time for the rate
	cycles = 200 // for the rate of a fast subject
	few    = 16  // for that of one that needs tenths of a second
	idle   = 20  // sandboxes whose memory is measured
)

// result is a subject's row.
type result struct {
	Name    string  `json:"name"`
	Limits  bool    `json:"limits"`
	First   figure  `json:"first"`
	Exec    figure  `json:"exec"`
	End     figure  `json:"end"`
	Cycle   figure  `json:"cycle"`
	Rate    float64 `json:"cycles_per_second,omitempty"`
	KiB     int     `json:"memory_kib,omitempty"`
	LeftOut string  `json:"left_out,omitempty"` // why it was not measured

	subject subject
	times   times
}

// figure is a distribution in milliseconds.
type figure struct {
	P10 float64 `json:"p10_ms"`
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
}

func main() {
	if local.Init() {
		return
	}
	if len(os.Args) == 3 && os.Args[1] == workerWord {
		if err := work(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench sandbox: worker:", err)
			os.Exit(1)
		}
		return
	}
	repeats := flag.Int("repeats", 30, "turns of each subject")
	alive := flag.String("alive", "512,2000", "numbers of sandboxes alive at once; \"\" means none")
	out := flag.String("json", "", "file for the figures; \"\" means none")
	flag.Parse()
	if err := run(os.Stdout, *repeats, *alive, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench sandbox:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, repeats int, alive, out string) (err error) {
	if repeats < 1 {
		return fmt.Errorf("%d repeats, want 1 or more", repeats)
	}
	var crowds []int
	for _, f := range strings.FieldsFunc(alive, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return fmt.Errorf("-alive: %q is no number of sandboxes", f)
		}
		crowds = append(crowds, n)
	}
	p, err := newPlace()
	if err != nil {
		return err
	}
	defer p.remove()
	rows, err := compare(p, repeats)
	if err != nil {
		return err
	}
	table(w, rows)
	var all []*crowd
	for _, n := range crowds {
		for _, l := range levels() {
			c, err := gather(p, l, n)
			if err != nil {
				return fmt.Errorf("%d alive, %s: %w", n, l.name, err)
			}
			all = append(all, c)
		}
	}
	crowdTable(w, all)
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(struct {
		Subjects []*result `json:"subjects"`
		Alive    []*crowd  `json:"alive"`
	}{rows, all}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

// compare has the subjects take turns.
func compare(p *place, repeats int) ([]*result, error) {
	var rows, measured []*result
	for _, k := range kinds() {
		r := &result{Name: k.name, Limits: k.limits}
		rows = append(rows, r)
		var err error
		if r.subject, err = k.open(p); err != nil {
			r.LeftOut = err.Error()
			continue
		}
		defer r.subject.close()
		if _, err := r.subject.do(order{Do: doCycles, Count: 1}); err != nil { // what is done only once
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		measured = append(measured, r)
	}
	for range repeats {
		for _, r := range measured {
			a, err := r.subject.do(order{Do: doCycles, Count: 1})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			r.times.add(a.Times)
		}
	}
	for _, r := range measured {
		if err := r.once(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return rows, nil
}

// once measures what there are no turns for.
func (r *result) once() error {
	t := r.times
	r.First, r.Exec, r.End, r.Cycle = spread(t.First), spread(t.Exec), spread(t.End), spread(t.cycles())
	n := cycles
	if r.Cycle.P50 > 50 {
		n = few
	}
	a, err := r.subject.do(order{Do: doRate, Count: n, Beside: beside})
	if err != nil {
		return err
	}
	r.Rate = float64(n) / a.Took.Seconds()
	before, err := r.subject.memory(nil)
	if err != nil {
		return err
	}
	held, err := r.subject.do(order{Do: doHold, Count: idle, Beside: 1})
	if err != nil {
		return err
	}
	after, err := r.subject.memory(held.Processes)
	if err != nil {
		return err
	}
	r.KiB = (after - before) / idle
	_, err = r.subject.do(order{Do: doDrop})
	return err
}

func spread(d []time.Duration) figure {
	d = slices.Sorted(slices.Values(d))
	at := func(q float64) float64 {
		return float64(d[int(q*float64(len(d)-1)+0.5)]) / float64(time.Millisecond)
	}
	return figure{at(0.1), at(0.5), at(0.9)}
}
