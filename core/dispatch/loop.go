package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/diag"
)

// loop is one call of Run. Its goroutine alone touches its fields; episodes and
// the trainer run in goroutines of their own and answer over the two channels.
type loop[E any] struct {
	*Dispatcher[E]
	ctx     context.Context
	cancel  context.CancelFunc
	step    int // being gathered or trained
	last    int
	results chan result[E]
	updates chan update

	open     []*flight[E] // with episodes to come, by dispatch number
	held     []*flight[E] // synchronous only: complete, until the whole wave is
	ready    []*flight[E] // complete, waiting for the trainer
	training []*flight[E] // in the trainer's hands; nil when it is idle
	queue    []job[E]     // episodes to start, in order
	running  int          // episodes under way
	replaced int          // groups screened out in this step
	failed   int          // groups in a row

	draining bool
	err      error // why the loop ends early

	ended  []Group[E]
	errors map[diag.Kind]int
	since  time.Time // the trainer is idle
	waited time.Duration
}

type job[E any] struct {
	flight *flight[E]
	index  int
}

type result[E any] struct {
	job[E]
	value E
	err   error
}

type update struct {
	version int
	fates   []buffer.Fate
	err     error
	took    time.Duration
}

func (l *loop[E]) run() error {
	done, drain := l.ctx.Done(), (<-chan struct{})(l.drain)
	for {
		select {
		case <-drain:
			l.draining, drain = true, nil
		default:
		}
		l.interrupted()
		if l.err == nil && !l.draining {
			l.train()
			l.draw()
			l.launch()
		}
		if l.running == 0 && l.training == nil {
			switch {
			case l.err != nil:
				return l.err
			case l.step > l.last:
				return nil
			case l.draining:
				return diag.Errorf(diag.KindInterrupted, "train", fmt.Sprintf("step %d", l.step), "stopped on request; everything under way was finished")
			}
		}
		select {
		case r := <-l.results:
			l.finish(r)
		case u := <-l.updates:
			l.updated(u)
		case <-drain:
			l.draining, drain = true, nil
		case <-done:
			done = nil
		}
	}
}

// interrupted notices that the caller cancelled, before its traces are taken for
// failures.
func (l *loop[E]) interrupted() {
	if l.err == nil && l.ctx.Err() != nil {
		l.fail(diag.Errorf(diag.KindInterrupted, "train", fmt.Sprintf("step %d", l.step), "%w", context.Cause(l.ctx)))
	}
}

// fail ends the loop as soon as nothing is running. The first reason counts.
func (l *loop[E]) fail(err error) {
	if l.err == nil && err != nil {
		l.err = err
		l.cancel()
	}
}

// draw opens groups up to the bound. Held groups count: in synchronous mode
// nothing is drawn before a whole wave has ended and been written down in
// dispatch order.
func (l *loop[E]) draw() {
	for {
		out := len(l.open) + len(l.held) + len(l.ready) + len(l.training)
		if out >= (l.config.MaxStaleness+1)*l.config.GroupsPerStep || out >= (l.last-l.step+1)*l.config.GroupsPerStep {
			return
		}
		f := &flight[E]{draw: l.parts.Source.Next(), step: l.step, slots: make([]slot[E], l.config.GroupSize), pending: l.config.GroupSize}
		f.ctx, f.cancel = context.WithCancel(l.ctx)
		l.open = append(l.open, f)
		for i := range f.slots {
			l.queue = append(l.queue, job[E]{f, i})
		}
	}
}

// launch starts episodes in order while there is room.
func (l *loop[E]) launch() {
	for len(l.queue) > 0 && l.running < l.config.Concurrency {
		j := l.queue[0]
		l.queue = l.queue[1:]
		s := &j.flight.slots[j.index]
		s.state = started
		s.version = l.parts.Version()
		l.running++
		j.flight.running++
		a := Assignment{Draw: j.flight.draw, Step: j.flight.step, Index: j.index, Attempt: s.attempt}
		go func() {
			v, err := l.parts.Run(j.flight.ctx, a)
			l.results <- result[E]{j, v, err}
		}()
	}
}

// finish takes an episode's result in.
func (l *loop[E]) finish(r result[E]) {
	l.interrupted()
	f, s := r.flight, &r.flight.slots[r.index]
	l.running--
	f.running--
	switch {
	case r.err == nil:
		s.state, s.value = survived, r.value
		f.pending--
	case l.err != nil || f.expired:
		s.state = waiting // it was cancelled: that is no failure
	default:
		last := s.attempt >= l.config.Retries
		f.failures = append(f.failures, Failure[E]{Index: r.index, Attempt: s.attempt, Last: last, Err: r.err, Value: r.value})
		l.errors[kindOf(r.err)]++
		if last {
			s.state = lost
			f.pending--
		} else {
			s.state = waiting
			s.attempt++
			l.queue = slices.Insert(l.queue, 0, r.job)
		}
	}
	if l.err != nil {
		return
	}
	switch {
	case f.expired && f.running == 0:
		l.close(f)
		l.end(f, buffer.Stale)
	case f.expired || f.pending > 0:
	case l.config.MaxStaleness > 0:
		l.close(f)
		l.settle(f)
	default:
		l.close(f)
		l.held = append(l.held, f)
		if len(l.open) == 0 {
			wave := l.held
			l.held = nil
			slices.SortFunc(wave, byDispatch[E])
			for _, f := range wave {
				l.settle(f)
			}
		}
	}
}

// close takes a group off the open ones.
func (l *loop[E]) close(f *flight[E]) {
	f.cancel()
	l.open = slices.DeleteFunc(l.open, func(x *flight[E]) bool { return x == f })
}

// settle decides what becomes of a complete group.
func (l *loop[E]) settle(f *flight[E]) {
	if x, short := f.short(); short {
		l.end(f, buffer.Failed(kindOf(x.Err)))
		if l.failed++; l.failed >= l.config.GiveUp {
			l.fail(diag.Wrap(diag.KindUnknown, "train", fmt.Sprintf("%d groups in a row failed", l.failed), x.Err))
		}
		return
	}
	l.failed = 0
	if l.stale(f) {
		l.end(f, buffer.Stale)
		return
	}
	if l.replaced < l.config.Resample {
		switch fate := l.parts.Screen(f.group("")); fate {
		case buffer.NoSignal, buffer.Filtered:
			l.replaced++
			l.end(f, fate)
			return
		}
	}
	l.ready = append(l.ready, f)
}

func (l *loop[E]) stale(f *flight[E]) bool {
	v := f.version()
	return v >= 0 && l.parts.Version()-v > l.config.MaxStaleness
}

// end writes a group's fate down.
func (l *loop[E]) end(f *flight[E], fate buffer.Fate) {
	var err error
	if fate == buffer.Stale {
		err = l.parts.Source.Return(f.draw)
	} else {
		err = l.parts.Source.Done(f.draw, fate)
	}
	l.ended = append(l.ended, f.group(fate))
	l.fail(err)
}

// train hands the oldest complete groups to the trainer if there are enough.
func (l *loop[E]) train() {
	if l.training != nil || l.step > l.last || len(l.ready) < l.config.GroupsPerStep {
		return
	}
	slices.SortFunc(l.ready, byDispatch[E])
	l.training = slices.Clone(l.ready[:l.config.GroupsPerStep])
	l.ready = slices.Clone(l.ready[l.config.GroupsPerStep:])
	groups := make([]Group[E], len(l.training))
	for i, f := range l.training {
		groups[i] = f.group("")
	}
	step := l.step
	start := time.Now()
	l.waited = start.Sub(l.since)
	go func() {
		v, fates, err := l.parts.Train(l.ctx, step, groups)
		l.updates <- update{v, fates, err, time.Since(start)}
	}()
}

// updated takes the trainer's answer in, drops what is stale now, and reports.
func (l *loop[E]) updated(u update) {
	l.interrupted()
	trained := l.training
	l.training = nil
	l.since = time.Now()
	if u.err == nil && len(u.fates) != len(trained) {
		u.err = fmt.Errorf("train: step %d: %d fates for %d groups", l.step, len(u.fates), len(trained))
	}
	if u.err != nil {
		l.fail(u.err)
		return
	}
	// A step that was made is written down even when the run is being stopped.
	stopped := l.err
	l.err = nil
	for i, f := range trained {
		l.end(f, u.fates[i])
	}
	if stopped == nil {
		l.expire()
	}
	slices.SortFunc(l.ended, func(a, b Group[E]) int { return cmp.Compare(a.Draw.Dispatch, b.Draw.Dispatch) })
	report := StepReport[E]{
		Step: l.step, Version: u.version, Groups: l.ended, Errors: maps.Clone(l.errors),
		Ahead: len(l.open) + len(l.ready), Waited: l.waited, Trained: u.took,
	}
	l.ended = nil
	clear(l.errors)
	l.replaced = 0
	if l.err == nil && l.parts.OnStep != nil {
		l.fail(l.parts.OnStep(report))
	}
	l.step++
	if l.err == nil {
		l.err = stopped
	}
}

// expire drops the groups that can no longer be trained on, complete or not.
func (l *loop[E]) expire() {
	keep := l.ready[:0]
	for _, f := range l.ready {
		if l.stale(f) {
			l.end(f, buffer.Stale)
		} else {
			keep = append(keep, f)
		}
	}
	l.ready = keep
	for _, f := range slices.Clone(l.open) {
		if f.expired || !l.stale(f) {
			continue
		}
		f.expired = true
		f.cancel()
		l.queue = slices.DeleteFunc(l.queue, func(j job[E]) bool { return j.flight == f })
		if f.running == 0 {
			l.close(f)
			l.end(f, buffer.Stale)
		}
	}
}

func byDispatch[E any](a, b *flight[E]) int { return cmp.Compare(a.draw.Dispatch, b.draw.Dispatch) }
