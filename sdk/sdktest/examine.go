package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Options say how [Examine] examines. The zero Options is usable.
type Options struct {
	// Host answers the capability calls; nil is a new [Host].
	Host sdk.Host
	// Declared are the capabilities of the manifest. Others are denied, and asking
	// for one is a fault. nil: not known; everything is let through.
	Declared []string
	// Records are what tasks are built from; nil: [Records].
	Records []sdk.Record
	// Config are the settings of the skill, as a run passes them.
	Config []sdk.Pair
	// Tasks bounds how many tasks are evaluated; 0: all.
	Tasks int
	// Repeats is how often one output is evaluated to see whether its verdict
	// stays; 0: 3.
	Repeats int
	// Timeout is the limit of one call; 0: one minute.
	Timeout time.Duration
	// Visible lists every file that an agent could read in the sandbox of a
	// workspace, and the environment as one more file. nil: there is no sandbox to
	// look into.
	Visible func(context.Context, *sdk.Workspace) ([]sdk.File, error)
	// Heard is told the name of each check as it begins; nil: nobody is.
	Heard func(check string)
}

// ErrNotOffered is what a Host wraps for a capability that an examination goes
// without on purpose, such as a model. A check that cannot be made for want of it
// is skipped; any other error of the host is a fault.
var ErrNotOffered = errors.New("not offered to this examination")

// Bounds of what an evaluator may say.
const (
	maxVerdict = 64 << 10 // bytes of a verdict: a reason names what the agent wrote, it does not repeat it
	unending   = 10 * time.Second
)

// Examine finds out whether s may train anything. It builds tasks in the forms
// "full" and "brief" and puts to s what agents leave: the reference, nothing, what
// makes no sense, and what is made to deceive. It needs no model. The findings come
// in a fixed order, one a check; package documentation lists them.
//
// It blocks until all checks are made. When ctx ends, or a call does not end, the
// checks that remain are skipped and say so.
func Examine(ctx context.Context, s Subject, o Options) []Finding {
	x := newExamination(ctx, s, o)
	var roles []string
	x.call(func(ctx context.Context) (err error) {
		x.name, roles, err = s.Describe(ctx)
		return err
	}, func(err error) { x.tally("describe", "").fail("", "%v", err) })
	switch builds, evaluates := slices.Contains(roles, "build"), slices.Contains(roles, "evaluate"); {
	case builds && evaluates:
		x.checkTasks()
		x.checkVerdicts()
	case builds:
		x.checkTasks()
	case evaluates:
		x.tally("gold", "").Why = "the plugin evaluates and builds no tasks, so that there is nothing to evaluate"
	}
	if slices.Contains(roles, "judge") {
		x.checkOpinions()
	}
	x.checkCapabilities()
	out := make([]Finding, len(x.tallies))
	for i, t := range x.tallies {
		out[i] = t.close(x.stopped)
	}
	return out
}

// examination is one run of Examine or Compare.
type examination struct {
	Options
	ctx     context.Context
	subject Subject
	host    *witness
	name    string
	samples []*sample
	taken   map[string]bool // what samples has, prompts apart
	tallies []*tally
	stopped string // why nothing more is asked; "" while the examination goes on
}

// newExamination fills in what the options leave open.
func newExamination(ctx context.Context, s Subject, o Options) *examination {
	if o.Host == nil {
		o.Host = &Host{}
	}
	if o.Records == nil {
		o.Records = Records()
	}
	if o.Repeats <= 0 {
		o.Repeats = 3
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Heard == nil {
		o.Heard = func(string) {}
	}
	return &examination{ctx: ctx, subject: s, Options: o, taken: map[string]bool{}, host: &witness{of: o.Host, declared: o.Declared}}
}

// sample is one task with what it was made of.
type sample struct {
	task   *sdk.Task
	record *sdk.Record
	paths  []string // where its output is collected
}

func (x *examination) tally(name, claim string) *tally {
	t := &tally{Finding: Finding{Check: name, Claim: claim}}
	x.tallies = append(x.tallies, t)
	x.Heard(name)
	return t
}

// grace is what a call gets to come back by itself after its time is over.
const grace = 2 * time.Second

// call calls f with the time limit of one call. It reports false, with failed
// called for an error, unless f gave none. A call that does not end stops the
// examination.
func (x *examination) call(f func(context.Context) error, failed func(error)) bool {
	if x.stopped == "" && x.ctx.Err() != nil {
		x.stopped = "interrupted"
	}
	if x.stopped != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(grace):
			err = ctx.Err()
		}
	}
	switch {
	case err == nil:
		return true
	case x.ctx.Err() != nil:
		x.stopped = "interrupted"
		return false
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		x.stopped = "a call did not end"
		err = fmt.Errorf("no answer within %s", x.Timeout)
	}
	failed(err)
	return false
}

// forms of a skill's prompt that every skill has.
var forms = []string{"full", "brief"}

// checkTasks has the tasks of every record built and looks at each.
func (x *examination) checkTasks() {
	same := x.tally("tasks", "requests give the same tasks again")
	keys := x.tally("keys", "tasks have a key of their own under the skill's name")
	prompts := x.tally("prompts", "prompts are filled in")
	collect := x.tally("collect", "tasks name what is collected")
	hidden := x.tally("hidden", "tasks keep hidden part and reference to themselves")
	for _, form := range forms {
		built := 0
		known := map[string]bool{}
		for i := range x.Records {
			rec := &x.Records[i]
			tasks := x.build(same, rec, form)
			built += len(tasks)
			for j := range tasks {
				t := &tasks[j]
				x.checkKey(keys, known, rec, t)
				checkPrompt(prompts, form, rec, t)
				checkCollect(collect, t)
				search(hidden, t.Key, secretsOf(t, rec), shown(t))
				x.take(t, rec)
			}
		}
		if built == 0 && x.stopped == "" && len(same.Faults) == 0 {
			same.fail("", "no record makes a task in the form %q", form)
		}
	}
	x.lookInside()
}

// take keeps a task for evaluation, unless one that differs in its prompts alone is
// kept already.
func (x *examination) take(task *sdk.Task, rec *sdk.Record) {
	bare := *task
	bare.System, bare.Prompt = "", ""
	if id := string(wire.Marshal(&bare)); !x.taken[id] && (x.Tasks == 0 || len(x.samples) < x.Tasks) {
		x.taken[id] = true
		x.samples = append(x.samples, &sample{task: task, record: rec, paths: pathsOf(task)})
	}
}

func (x *examination) request(rec *sdk.Record, form string) *sdk.BuildRequest {
	return &sdk.BuildRequest{Record: *rec, Template: form, Config: x.Config, Seed: 7}
}

// build asks for the tasks of a record twice.
func (x *examination) build(t *tally, rec *sdk.Record, form string) []sdk.Task {
	where := rec.ID + " (" + form + ")"
	request := x.request(rec, form)
	var answers [2]*sdk.BuildResponse
	for i := range answers {
		if !x.call(func(ctx context.Context) (err error) {
			answers[i], err = x.subject.Build(ctx, x.host, request)
			return err
		}, func(err error) { t.fail(where, "build: %v", err) }) {
			t.cut = x.stopped != ""
			return nil
		}
	}
	first := answers[0]
	switch {
	case !bytes.Equal(wire.Marshal(first), wire.Marshal(answers[1])):
		t.fail(where, "the same request gives other tasks")
	case len(first.Tasks) == 0 && first.Skipped == "":
		t.fail(where, "neither a task nor a reason why there is none")
	case len(first.Tasks) > 0 && first.Skipped != "":
		t.fail(where, "%d tasks, and a reason why there is none: %s", len(first.Tasks), first.Skipped)
	default:
		t.pass()
	}
	return first.Tasks
}
