package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maker makes the sandboxes of one subject.
type maker interface {
	make() (box, error)
	close() error
}

// box is one of them.
type box interface {
	// run runs a command line by bash and gives its output.
	run(line string) ([]byte, error)
	// roots are the processes of the machine whose trees the sandbox is; none where
	// they are the maker's own children.
	roots() ([]int, error)
	// end returns when nothing of it is left.
	end() error
}

// order is what a subject is asked to do.
type order struct {
	Do     string
	Count  int
	Beside int // at a time
}

// What an order may say.
const (
	doCycles = "cycles" // Count lives, one after the other, each with its times
	doRate   = "rate"   // Count lives, Beside at a time
	doHold   = "hold"   // make Count sandboxes and keep them
	doAnswer = "answer" // have each one that is kept answer
	doDrop   = "drop"   // end them
)

// report is how it went.
type report struct {
	Times     times
	Took      time.Duration
	Processes []int
	Error     string
}

// times are those of lives and their commands.
type times struct{ First, Exec, End []time.Duration }

func (t *times) add(o times) {
	t.First, t.Exec, t.End = append(t.First, o.First...), append(t.Exec, o.Exec...), append(t.End, o.End...)
}

// cycles are whole lives: first command and end.
func (t *times) cycles() []time.Duration {
	out := make([]time.Duration, len(t.First))
	for i := range out {
		out[i] = t.First[i] + t.End[i]
	}
	return out
}

// crew carries orders out.
type crew struct {
	maker maker
	held  []box
}

func (c *crew) do(o order) (report, error) {
	var r report
	began := time.Now()
	err := c.carry(o, &r)
	r.Took = time.Since(began)
	return r, err
}

func (c *crew) carry(o order, r *report) error {
	switch o.Do {
	case doCycles:
		for range o.Count {
			if err := c.live(&r.Times); err != nil {
				return err
			}
		}
		return nil
	case doRate:
		return each(o.Count, o.Beside, func(int) error {
			b, err := c.fresh()
			if err != nil {
				return err
			}
			return b.end()
		})
	case doHold:
		c.held = make([]box, o.Count)
		err := each(o.Count, o.Beside, func(i int) (err error) {
			c.held[i], err = c.fresh()
			return err
		})
		for _, b := range c.held {
			if b != nil && err == nil {
				var pids []int
				pids, err = b.roots()
				r.Processes = append(r.Processes, pids...)
			}
		}
		return err
	case doAnswer:
		return each(len(c.held), o.Beside, func(i int) error { return ready(c.held[i]) })
	case doDrop:
		err := each(len(c.held), 1, func(i int) error { return c.held[i].end() })
		c.held = nil
		return err
	}
	return fmt.Errorf("no such order: %q", o.Do)
}

// fresh makes a sandbox that has answered.
func (c *crew) fresh() (box, error) {
	b, err := c.maker.make()
	if err != nil {
		return nil, err
	}
	if err := ready(b); err != nil {
		return nil, errors.Join(err, b.end())
	}
	return b, nil
}

func ready(b box) error {
	out, err := b.run("echo ready")
	if err == nil && string(bytes.TrimSpace(out)) != "ready" {
		err = fmt.Errorf("it answers %q", out)
	}
	return err
}

func (c *crew) live(t *times) error {
	timed := func(to *[]time.Duration, f func() error) error {
		began := time.Now()
		err := f()
		*to = append(*to, time.Since(began))
		return err
	}
	var b box
	if err := timed(&t.First, func() (err error) { b, err = c.fresh(); return err }); err != nil {
		return err
	}
	for range execs {
		if err := timed(&t.Exec, func() error { _, err := b.run("true"); return err }); err != nil {
			return errors.Join(err, b.end())
		}
	}
	return timed(&t.End, b.end)
}

// each calls f for 0 to n-1, beside at a time, and gives the first error.
func each(n, beside int, f func(int) error) error {
	var all sync.WaitGroup
	var once sync.Once
	var first error
	next := make(chan int)
	for range max(1, beside) {
		all.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return first
}
