// Command plugins measures the ways to run a plugin side by side: Valence's two
// transports, and what a program in Go would use instead.
//
//	bench/plugins/run [-repeats 20] [-json FILE]
//
// All plugins do the same: they decode an evaluation of 1 or 100 KB, in the same
// protobuf messages, and answer with the number of files in it. Each figure is the
// median of all repeats, in which the subjects take turns; the ratios, to Valence's
// own WASM, are what to compare between machines.
//
//	CALL    one call to a plugin that serves many
//	FRESH   one call to an instance or process made for it and freed afterwards; with
//	        Valence's modules it asks the host once more than the others
//	LOOP    a tight loop in the plugin: what being interruptible costs at most
//	MEMORY  what one more instance or process, which has served a call, takes for itself
//	GC      the longest pause of the host's garbage collector while plugins compute
//	        on all cores, each call as long as LOOP says
//
// "Isolated" means that no call can see what an earlier one left. Calls to Valence's
// modules have a deadline and are stopped when it passes, even if they compute. Those
// of knqyf263 and extism run without that: their runtime's option for it costs more
// the more a plugin computes, and both leave it off unless asked. Of the plugins in
// processes only Valence's are stopped, by killing the process.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/valence-rl/valence/bench/plugins/work"
)

// Sizes of the requests, in bytes.
var sizes = [...]int{1 << 10, 100 << 10}

const (
	batch  = 25       // calls of a subject at a stretch
	starts = 2        // fresh instances of it after them
	held   = 10       // instances whose memory is measured
	rounds = 25 << 20 // of the loop
)

// result is a subject's row.
type result struct {
	Name       string    `json:"name"`
	Isolated   bool      `json:"isolated"`
	CallMicros []float64 `json:"call_us,omitempty"`  // by size
	FreshMicro []float64 `json:"fresh_us,omitempty"` // by size
	LoopMicros float64   `json:"loop_us,omitempty"`
	MemoryKiB  int       `json:"memory_kib,omitempty"`
	PauseMicro float64   `json:"gc_pause_us,omitempty"` // 0: the plugin computes elsewhere
	Waiting    *crowd    `json:"waiting,omitempty"`     // nil: the plugin cannot ask the host
	LeftOut    string    `json:"left_out,omitempty"`    // why it was not measured

	subject subject
	plugin  plugin
	calls   [len(sizes)][]time.Duration
	fresh   [len(sizes)][]time.Duration
	loops   []time.Duration
}

// questions are what all subjects are asked.
type questions struct {
	ask, hold [len(sizes)]question
	loop      question
}

func main() {
	repeats := flag.Int("repeats", 20, "turns of each subject; the median is shown")
	out := flag.String("json", "", "file for the figures; \"\" means none")
	flag.Parse()
	if err := run(os.Stdout, *repeats, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench plugins:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, repeats int, out string) error {
	if repeats < 1 {
		return fmt.Errorf("%d repeats, want 1 or more", repeats)
	}
	dir, err := os.MkdirTemp("", "bench-plugins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g, err := build(context.Background(), dir)
	if err != nil {
		return err
	}
	q, err := newQuestions()
	if err != nil {
		return err
	}
	var rows, measured []*result
	for _, s := range subjects {
		r := &result{Name: s.name, Isolated: s.isolated, subject: s}
		rows = append(rows, r)
		if r.plugin, err = s.open(g); err != nil {
			r.LeftOut = err.Error()
			continue
		}
		defer r.plugin.close()
		measured = append(measured, r)
	}
	for range repeats {
		for _, r := range measured {
			if err := r.turn(q); err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
		}
	}
	for _, r := range measured {
		if err := r.once(q); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for i := range sizes {
			r.CallMicros = append(r.CallMicros, median(r.calls[i]))
			r.FreshMicro = append(r.FreshMicro, median(r.fresh[i]))
		}
		r.LoopMicros = median(r.loops)
	}
	table(w, rows)
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

func newQuestions() (q questions, err error) {
	for i, size := range sizes {
		if q.ask[i], err = newQuestion("bench/1", size, 1); err != nil {
			return q, err
		}
		if q.hold[i], err = newQuestion(work.Hold, size, 1); err != nil {
			return q, err
		}
	}
	q.loop, err = newQuestion(work.Compute, 0, rounds)
	return q, err
}

// turn measures what a subject shares the machine's ups and downs with the others in.
func (r *result) turn(q questions) error {
	for i := range sizes {
		for n := range batch {
			begin := time.Now()
			if err := r.plugin.call(q.ask[i]); err != nil {
				return err
			}
			if n > 0 { // the first one finds the caches full of another subject
				r.calls[i] = append(r.calls[i], time.Since(begin))
			}
		}
		for range starts {
			took, err := fresh(r.plugin, q.ask[i], q.hold[i])
			if err != nil {
				return err
			}
			r.fresh[i] = append(r.fresh[i], took)
		}
	}
	if !r.subject.works {
		return nil
	}
	begin := time.Now()
	err := r.plugin.call(q.loop)
	r.loops = append(r.loops, time.Since(begin))
	return err
}

// once measures what does not vary with the machine's load.
func (r *result) once(q questions) error {
	before, err := memory()
	if err != nil {
		return err
	}
	var releases []func() error
	for range held + runtime.GOMAXPROCS(0) {
		release, err := keep(r.plugin, q.ask[0], q.hold[0])
		if err != nil {
			return err
		}
		releases = append(releases, release)
		// The first may be instances that are kept in any case.
		if len(releases) == runtime.GOMAXPROCS(0) {
			if before, err = memory(); err != nil {
				return err
			}
		}
	}
	after, err := memory()
	if err != nil {
		return err
	}
	r.MemoryKiB = (after - before) / held
	for _, release := range releases {
		if err := release(); err != nil {
			return err
		}
	}
	if r.subject.embedded {
		pause, err := longestPause(r.plugin, q.loop)
		if err != nil {
			return err
		}
		r.PauseMicro = float64(pause) / float64(time.Microsecond)
	}
	if p, ok := r.plugin.(waiting); ok && r.subject.works {
		r.Waiting, err = gather(p, q.hold[0])
	}
	return err
}

func median(d []time.Duration) float64 {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	n := len(d)
	return float64(d[n/2]+d[(n-1)/2]) / 2 / float64(time.Microsecond)
}
