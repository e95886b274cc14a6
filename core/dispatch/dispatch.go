// Package dispatch is the bounded scheduler between the buffer, the rollouts with
// their evaluation, and the trainer (ALGORITHMS 4; arXiv 2604.05013 section 2.3). It
// knows nothing of tokens or scores: an episode is a value of type E.
//
// One step: draw groups from the buffer, run GroupSize episodes of each, hand
// GroupsPerStep complete groups to the trainer, write down what became of every
// group that ended, report. With MaxStaleness 0 these happen in turn, and in
// dispatch order, so that a run depends on nothing but its seed. With more,
// rollouts run ahead while the trainer works, at most (MaxStaleness+1) steps'
// worth of groups, and a group whose oldest policy version has fallen behind by
// more than MaxStaleness is dropped, its task returned to the buffer.
//
// A slow skill neither loses its share nor holds the others up: whatever is
// complete is trained on, and what goes stale is drawn again before anything
// else of its skill.
package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/diag"
)

// DefaultRetries is what a run uses when its configuration does not say.
const DefaultRetries = 2

// Config bounds the scheduler. Counts are of groups or of episodes, never bytes.
type Config struct {
	GroupsPerStep int // that the trainer takes at once; at least 1
	GroupSize     int // episodes of a group; at least 1
	Concurrency   int // episodes at once; 0: as many as there are
	MaxStaleness  int // versions that a group may lag behind when it is trained on; 0: synchronous
	Retries       int // further attempts at an episode after an infrastructure failure; 0: none
	// Resample is how many groups a step may replace because Screen found
	// nothing to learn from in them; after that they are handed to the trainer as
	// they are. 0: none is replaced.
	Resample int
	// GiveUp ends the run after so many groups in a row failed. 0: two steps' worth.
	GiveUp int
}

func (c Config) validate() error {
	for _, k := range []struct {
		key        string
		value, min int
	}{
		{"groups_per_step", c.GroupsPerStep, 1}, {"group_size", c.GroupSize, 1}, {"concurrency", c.Concurrency, 0},
		{"max_staleness", c.MaxStaleness, 0}, {"retries", c.Retries, 0}, {"resample", c.Resample, 0}, {"give_up", c.GiveUp, 0},
	} {
		if k.value < k.min {
			return diag.Errorf(diag.KindConfig, "make dispatcher", k.key, "%d is below %d", k.value, k.min)
		}
	}
	return nil
}

// Source is where tasks come from; *buffer.Buffer is one. It is called by one
// goroutine.
type Source interface {
	Next() buffer.Draw
	Done(buffer.Draw, buffer.Fate) error
	Return(buffer.Draw) error
}

// Assignment is one episode to run.
type Assignment struct {
	Draw    buffer.Draw
	Step    int // the step that was being gathered when the group was drawn
	Index   int // within the group, from 0
	Attempt int // from 0
}

// Parts are what a dispatcher is wired to.
type Parts[E any] struct {
	Source Source
	// Version of the policy now. It is called while Train runs and must be safe
	// for that.
	Version func() int
	// Run rolls one episode out and evaluates it. It is called from many
	// goroutines and must honour the context. An error is an infrastructure
	// failure, by its diag kind; the value beside it is kept for the report.
	Run func(context.Context, Assignment) (E, error)
	// Screen, when set, looks at a complete group before it waits for the
	// trainer: buffer.NoSignal or buffer.Filtered drops it and draws another in
	// its place, as long as Config.Resample allows; anything else keeps it. It is
	// called by one goroutine.
	Screen func(Group[E]) buffer.Fate
	// Train makes one update from the groups, sorted by dispatch number, and
	// returns the new version and each group's fate. It is called by one
	// goroutine at a time. An error ends the run.
	Train func(ctx context.Context, step int, groups []Group[E]) (version int, fates []buffer.Fate, err error)
	// OnStep, when set, is called after each step, before anything else is drawn
	// or ends, so that the source can be stored with the step. An error ends the run.
	OnStep func(StepReport[E]) error
}

// Group is the episodes of one draw.
type Group[E any] struct {
	Draw     buffer.Draw
	Step     int          // as in Assignment
	Version  int          // the oldest policy version that any of its episodes started under; −1 without episodes
	Episodes []Episode[E] // those that survived, by index
	Failures []Failure[E] // attempts that failed, by index and attempt
	Fate     buffer.Fate  // set in reports
}

// Episode is one that was run and evaluated.
type Episode[E any] struct {
	Index   int
	Attempt int
	Version int // of the policy when it started
	Value   E
}

// Failure is one attempt lost to the infrastructure.
type Failure[E any] struct {
	Index   int
	Attempt int
	Last    bool // no attempt followed: the episode is excluded
	Err     error
	Value   E // what Run returned beside the error
}

// StepReport is what happened since the report before.
type StepReport[E any] struct {
	Step    int
	Version int        // after the step
	Groups  []Group[E] // every group that ended, by dispatch number
	Errors  map[diag.Kind]int
	Ahead   int           // groups in flight or waiting, for later steps
	Waited  time.Duration // the trainer, for groups
	Trained time.Duration // the call of Train
}

// Run trains the steps first to last, both included, and returns nil when they
// are done. Cancelling ctx stops everything that is under way; [Dispatcher.Drain]
// stops gently. Both give an error of kind interrupted; a step that the trainer
// had made by then is still reported. Groups that had not ended stay leased in
// the source, to be dispatched again after a restore. The state to resume from is
// the one stored in OnStep: what ended since is in no report.
//
// An error of Source, Train or OnStep ends the run and is returned as it is. A run
// of failed groups (Config.GiveUp) gives an error of the last failure's kind.
// Run returns only when nothing of it is running any more; it may be called once
// at a time.
func (d *Dispatcher[E]) Run(ctx context.Context, first, last int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop[E]{
		Dispatcher: d, ctx: ctx, cancel: cancel, step: first, last: last,
		results: make(chan result[E]), updates: make(chan update), errors: map[diag.Kind]int{}, since: time.Now(),
	}
	return l.run()
}

// Dispatcher schedules. Make one with [New].
type Dispatcher[E any] struct {
	config Config
	parts  Parts[E]
	once   sync.Once
	drain  chan struct{} // closed by Drain
}

// New checks the configuration; an error is of kind config and names the key.
func New[E any](c Config, p Parts[E]) (*Dispatcher[E], error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Resample > 0 && p.Screen == nil {
		return nil, diag.Errorf(diag.KindConfig, "make dispatcher", "resample", "no Screen decides what to replace")
	}
	if c.Concurrency == 0 {
		c.Concurrency = (c.MaxStaleness + 1) * c.GroupsPerStep * c.GroupSize
	}
	if c.GiveUp == 0 {
		c.GiveUp = 2 * c.GroupsPerStep
	}
	return &Dispatcher[E]{config: c, parts: p, drain: make(chan struct{})}, nil
}

// Drain asks Run to stop gently: the episodes under way and a training step under
// way are finished, nothing new begins, and the dispatcher stays so. It does not
// block and may be called at any time, from any goroutine, more than once.
func (d *Dispatcher[E]) Drain() { d.once.Do(func() { close(d.drain) }) }
