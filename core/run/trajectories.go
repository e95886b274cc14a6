package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/transcript"
	"github.com/valence-rl/valence/sdk"
)

// TrajectoryOptions say whose trajectories are gathered, and how many.
type TrajectoryOptions struct {
	Policy   policy.Policy
	Path     string   // what the policy was opened from; "": what the configuration names
	Out      string   // folder that keeps them
	PerSkill int      // trajectories of each skill
	Tries    int      // at most so many of each task
	Skills   []string // none: those that the configuration trains
	Budget   Budget

	// Drain, when closed, lets what is under way end and starts nothing more.
	Drain <-chan struct{}
	// Heard is told of each attempt that ended; nil: nobody is. It must return soon.
	Heard func(Gathering)
}

// Budget bounds what a policy may take, over all of a folder's tries, those that failed
// included. 0 is no bound.
type Budget struct {
	Tokens int64   // read and written
	Cost   float64 // in US dollars, at the prices of [server]
}

// Gathering is how far the work has come.
type Gathering struct {
	Episode *journal.Episode // that ended now
	State   string           // what it is: kept, duplicate, wrong, unfinished or failed
	Kept    int              // of all skills
	Want    int
	Tried   int
	Errors  map[string]int // attempts that failed, by kind
}

// Trajectories is what a folder holds.
type Trajectories struct {
	Out     string             `json:"out"`
	Policy  string             `json:"policy"`
	Skills  []*GatheredSkill   `json:"skills"`
	Tokens  int64              `json:"tokens"` // that the policy read and wrote
	Cost    float64            `json:"cost"`   // in US dollars, at the prices of [server]
	Stopped string             `json:"stopped,omitempty"`
	Server  *journal.ServerUse `json:"server,omitempty"` // what the policy took, if a server answered
	Model   *journal.ModelUse  `json:"model,omitempty"`  // what evaluators and judges asked of the model
}

// StoppedByBudget is Trajectories.Stopped where the budget was spent.
const StoppedByBudget = "budget"

// GatheredSkill counts a skill's tries, each as one thing.
type GatheredSkill struct {
	Name       string         `json:"name"`
	Want       int            `json:"want"`
	Tasks      int            `json:"tasks"` // that were tried
	Tried      int            `json:"tried"`
	Kept       int            `json:"kept"`
	Wrong      int            `json:"wrong"`      // scored below 1
	Unfinished int            `json:"unfinished"` // scored 1 and never submitted
	Duplicate  int            `json:"duplicate"`  // the same turns on the same task as one before
	Spare      int            `json:"spare"`      // would have been kept, beyond what was wanted
	Excluded   int            `json:"excluded"`   // the infrastructure failed, after retries
	Failed     map[string]int `json:"failed"`     // attempts that failed, by kind; those retried included
}

// Short says whether a skill has fewer than were wanted.
func (s *GatheredSkill) Short() bool { return s.Kept < s.Want }

// buildAhead is how many records are turned into tasks at once.
const buildAhead = 64

// Gather plays a policy on the training tasks of every skill and keeps what the skill's
// evaluator, with its judge, scores 1: at most o.PerSkill of each skill, none twice.
// Every task of a skill is tried once in the order of the records, then every task
// again, up to o.Tries times, until there are enough. Of recordings, the tasks that were
// recorded are played.
//
// Every attempt is on the disk in o.Out before the next is counted, so that a kill loses
// only what was under way; the same call goes on where it was. Which tries are kept
// depends on the tries and not on the order in which they ended. What the infrastructure
// failed is tried again as often as the configuration says, then excluded and counted,
// and tried anew by the next call. It gives up with the last failure when as many tries
// failed in a row as can be under way at once, and at least eight.
//
// It blocks until the last try has ended. After o.Drain closed it gives an error of
// diag.KindInterrupted.
func (s *Setup) Gather(ctx context.Context, o TrajectoryOptions) (*Trajectories, error) {
	if err := s.gatherable(&o); err != nil {
		return nil, err
	}
	unlock, err := lock(journal.Dir(o.Out))
	if err != nil {
		return nil, err
	}
	defer unlock()
	g := &gatherer{Setup: s, o: o, errs: map[string]int{}}
	defer g.close()
	for _, k := range s.Skills {
		if len(o.Skills) == 0 && k.Weight == 0 || len(o.Skills) > 0 && !slices.Contains(o.Skills, k.Name) {
			continue
		}
		if err := g.openSkill(k); err != nil {
			return nil, err
		}
	}
	worked := g.work(ctx)
	r, err := g.finish()
	if err := errors.Join(worked, err); err != nil {
		return r, err
	}
	return r, nil
}

// gatherable refuses what cannot be gathered before anything is opened.
func (s *Setup) gatherable(o *TrajectoryOptions) error {
	var names []string
	for _, k := range s.Skills {
		if k.Binding().part.table != "suites" { // they are measured, never trained on
			names = append(names, k.Name)
		}
	}
	for _, name := range o.Skills {
		if !slices.Contains(names, name) {
			return diag.Errorf(diag.KindConfig, "gather trajectories", name, "no such skill to train; there are %s", strings.Join(names, ", "))
		}
	}
	if v := s.Config.Server; o.Budget.Cost > 0 && v.InputPrice == 0 && v.OutputPrice == 0 {
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C063", Summary: "a budget in money needs prices", Source: s.Config.Where("server"),
			Hint: "add input_price and output_price to [server], or give the budget in tokens"}
	}
	return nil
}

// gatherer is a call of Gather. All of it belongs to the goroutine of work.
type gatherer struct {
	*Setup
	o       TrajectoryOptions
	skills  []*gathered
	errs    map[string]int
	spent   Budget
	ended   int // episodes that spent counts
	flying  int // tries under way
	server  journal.ServerUse
	model   journal.ModelUse
	stopped string
}

// gathered is one skill's part.
type gathered struct {
	*Skill
	binding *Binding
	let     func()
	log     *journal.Log

	records []record // not built yet
	tasks   []*sdk.Task
	known   map[string]bool // tasks, by key
	round   int             // tries of each task before this one
	at      int             // the next task of the round

	tries   map[try]*outcome
	seen    map[[sha256.Size]byte]bool // conversations that are right
	started int                        // in this call
	flying  int
	scored  int
	failed  map[string]int
}

// try is one go at a task; it may take several attempts.
type try struct {
	task string
	n    int
}

// outcome is what became of a try, and where it is stored.
type outcome struct {
	place    journal.Place
	task     int64 // its number in the order of the records
	attempts int
	state    string
	turns    [sha256.Size]byte
}

// What a try came to.
const (
	tryKept       = "kept" // scored 1 and submitted
	tryDuplicate  = "duplicate"
	tryWrong      = "wrong"
	tryUnfinished = "unfinished"
	tryFailed     = "failed"
)

// circumstances are what must be the same when work goes on.
type circumstances struct {
	Policy      string            `json:"policy"`
	Path        string            `json:"path,omitempty"`
	Version     int               `json:"version"`
	Temperature float64           `json:"temperature"`
	Seed        uint64            `json:"seed"`
	Plugins     map[string]string `json:"plugins"` // role → digest
}

func (g *gatherer) openSkill(k *Skill) error {
	b, let := k.hold()
	x := &gathered{
		Skill: k, binding: b, let: let, records: k.records,
		known: map[string]bool{}, tries: map[try]*outcome{}, seen: map[[sha256.Size]byte]bool{}, failed: map[string]int{},
	}
	g.skills = append(g.skills, x)
	if err := g.sameAsBefore(x); err != nil {
		return err
	}
	var err error
	x.log, err = journal.OpenLog(filepath.Join(g.o.Out, "tries", k.Name+".episodes.jsonl.zst"), func(p journal.Place, e *journal.Episode) error {
		g.count(x, try{e.Task, e.Index}, p, e)
		return nil
	})
	return err
}

// sameAsBefore refuses to mix tries of different circumstances.
func (g *gatherer) sameAsBefore(x *gathered) error {
	p := g.o.Policy
	now := circumstances{p.Name(), g.o.Path, p.Version(), g.Config.Policy.Temperature, g.Config.Run.Seed, x.binding.Scorer.Digests()}
	name := filepath.Join("tries", x.Name+".json")
	path := filepath.Join(g.o.Out, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return journal.Dir(g.o.Out).WriteJSON(name, now)
	}
	var then circumstances
	if err == nil {
		err = json.Unmarshal(data, &then)
	}
	if err != nil {
		return diag.Wrap(diag.KindData, "read folder of trajectories", path, err)
	}
	var differ []string
	note := func(what string, was, is any) {
		if a, b := fmt.Sprint(was), fmt.Sprint(is); a != b {
			differ = append(differ, fmt.Sprintf("%s: was %s, is %s", what, cmp.Or(a, "none"), cmp.Or(b, "none")))
		}
	}
	note("policy", then.Policy, now.Policy)
	note("path of the policy", then.Path, now.Path)
	note("version of the policy", then.Version, now.Version)
	note("policy.temperature", then.Temperature, now.Temperature)
	note("run.seed", then.Seed, now.Seed)
	for _, role := range []string{"evaluate", "judge"} {
		note("plugin that "+role+"s", then.Plugins[role], now.Plugins[role])
	}
	if differ == nil {
		return nil
	}
	return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C062",
		Summary: fmt.Sprintf("%s has trajectories of %s that were made otherwise", g.o.Out, x.Name),
		Detail:  differ, Hint: "name another folder with --out, or remove this one"}
}

func (g *gatherer) close() {
	for _, x := range g.skills {
		if x.log != nil {
			x.log.Close()
		}
		x.let()
	}
}

// count enters an attempt that is stored at p into the books and says what it came to.
func (g *gatherer) count(x *gathered, t try, p journal.Place, e *journal.Episode) string {
	o := x.tries[t]
	if o == nil {
		o = &outcome{}
		x.tries[t] = o
	}
	o.place, o.task = p, e.Dispatch
	o.attempts++
	o.state = tryFailed
	if e.Outcome != journal.Scored {
		x.failed[e.Outcome]++
		g.errs[e.Outcome]++
	} else {
		x.scored++
		o.state = worth(e)
	}
	if o.state == tryKept {
		o.turns = conversation(e)
		if x.seen[o.turns] {
			o.state = tryDuplicate
		}
		x.seen[o.turns] = true
	}
	g.ended++
	g.model.Add(e.Model)
	g.server.Add(e.Server)
	if u := e.Server; u != nil {
		g.spent.Tokens += u.PromptTokens + u.CompletionTokens
		g.spent.Cost += u.Cost
	} else {
		g.spent.Tokens += int64(e.PromptTokens + e.SampledTokens)
	}
	return o.state
}

func worth(e *journal.Episode) string {
	switch {
	case e.Score < 1:
		return tryWrong
	case e.End != string(rollout.Submitted) || e.Trajectory == nil:
		return tryUnfinished
	}
	return tryKept
}

// conversation is what tells an episode from a duplicate.
func conversation(e *journal.Episode) [sha256.Size]byte {
	t, err := transcript.FromEpisode(e)
	if err != nil { // a rollout made it, so that it can be read
		return sha256.Sum256([]byte(e.ID))
	}
	return t.Deeds()
}

// attempt is one go at a try, and over.
type attempt struct {
	skill *gathered
	try   try
	e     *Played
	err   error
	last  bool // no further attempt at the try follows
}

// work plays until there is nothing left to play.
func (g *gatherer) work(ctx context.Context) error {
	width := g.Concurrency()
	done := make(chan attempt)
	drain := g.o.Drain
	row, draining := 0, false
	var lost, broken error
	for {
		select {
		case <-drain: // before anything else is begun
			draining, drain = true, nil
		default:
		}
		for !draining && broken == nil && ctx.Err() == nil && row < max(8, width) && g.flying < width {
			x, t, task, err := g.next(ctx)
			if err != nil {
				broken = err
			}
			if task == nil {
				break
			}
			g.flying++
			x.flying++
			x.started++
			first := 0
			if o := x.tries[t]; o != nil {
				first = o.attempts
			}
			go g.play(ctx, x, t, task, int64(x.at-1), first, done)
		}
		if g.flying == 0 {
			break
		}
		select {
		case <-drain:
			draining, drain = true, nil
		case r := <-done:
			if r.last {
				g.flying--
				r.skill.flying--
			}
			if r.err != nil && ctx.Err() != nil {
				continue // not the infrastructure's doing
			}
			p, err := r.skill.log.Append(&r.e.Episode)
			if err != nil {
				broken = err
				continue
			}
			state := g.count(r.skill, r.try, p, &r.e.Episode)
			g.tell(&r.e.Episode, state)
			switch {
			case r.err == nil:
				row = 0
			case r.last:
				row++
				lost = r.err
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case broken != nil:
		return broken
	case draining:
		return diag.Errorf(diag.KindInterrupted, "gather trajectories", g.o.Out, "interrupted; the same command goes on")
	case lost != nil && row >= max(8, width):
		return diag.Wrap(diag.KindOf(lost), "gather trajectories", fmt.Sprintf("%d tries failed in a row, the last of them", row), lost)
	}
	return nil
}

func (g *gatherer) play(ctx context.Context, x *gathered, t try, task *sdk.Task, place int64, first int, done chan<- attempt) {
	id := fmt.Sprintf("trajectory-%s-%d", t.task, t.n)
	seed := seedOf(g.Config.Run.Seed, "expert", t.task)
	if t.n > 0 {
		seed = seedOf(g.Config.Run.Seed, "expert", t.task, t.n)
	}
	for n := 0; ; n++ {
		e, err := g.Player.Play(ctx, g.o.Policy, x.binding, task, id, seed)
		e.Step, e.Dispatch, e.Index, e.Attempt = -1, place, t.n, first+n
		last := err == nil || n >= g.Config.Async.Retries || ctx.Err() != nil
		if err != nil && !last {
			g.log.Warn("try failed, trying again", "episode", id, "attempt", first+n, "error", err)
		}
		done <- attempt{x, t, e, err, last}
		if last {
			return
		}
	}
}

func (g *gatherer) tell(e *journal.Episode, state string) {
	if g.o.Heard == nil {
		return
	}
	h := Gathering{Episode: e, State: state, Errors: maps.Clone(g.errs)}
	for _, x := range g.skills {
		h.Kept += min(len(x.seen), g.o.PerSkill)
		h.Want += g.o.PerSkill
		h.Tried += len(x.tries)
	}
	g.o.Heard(h)
}

// next gives the try that is to be begun now, and a nil task if there is none: that of
// the skill which has begun the fewest, if it needs one.
func (g *gatherer) next(ctx context.Context) (x *gathered, t try, task *sdk.Task, err error) {
	order := slices.Clone(g.skills)
	slices.SortStableFunc(order, func(a, b *gathered) int { return cmp.Compare(a.started, b.started) })
	for _, x := range order {
		if !g.needs(x) {
			continue
		}
		t, task, err := g.peek(ctx, x)
		if err != nil {
			return nil, try{}, nil, err
		}
		if task == nil {
			continue
		}
		if !g.affords() {
			return nil, try{}, nil, nil
		}
		x.at++
		return x, t, task, nil
	}
	return nil, try{}, nil, nil
}

// needs says whether what is under way may not be enough for a skill, as often as its
// tries have been right so far.
func (g *gatherer) needs(x *gathered) bool {
	right := len(x.seen)
	rate := min(1, float64(right+1)/float64(x.scored+1))
	return float64(right)+float64(x.flying)*rate < float64(g.o.PerSkill)
}

// affords says whether another try fits the budget, taking for each that is under way
// what those before took. The first is played alone, to find out.
func (g *gatherer) affords() bool {
	b := g.o.Budget
	if b == (Budget{}) {
		return true
	}
	if g.ended == 0 {
		return g.flying == 0
	}
	ahead := float64(g.flying+1) / float64(g.ended)
	tokens, cost := float64(g.spent.Tokens), g.spent.Cost
	if b.Tokens > 0 && tokens*(1+ahead) > float64(b.Tokens) || b.Cost > 0 && cost*(1+ahead) > b.Cost {
		if g.flying == 0 {
			g.stopped = StoppedByBudget
		}
		return false
	}
	return true
}

// peek gives the skill's next try in the order of the plan, and a nil task after the
// last. It builds tasks as they are needed.
func (g *gatherer) peek(ctx context.Context, x *gathered) (try, *sdk.Task, error) {
	for x.round < g.o.Tries {
		if x.at < len(x.tasks) {
			task := x.tasks[x.at]
			t := try{task.Key, x.round}
			if o := x.tries[t]; o == nil || o.state == tryFailed {
				return t, task, nil
			}
			x.at++
			continue
		}
		if len(x.records) == 0 {
			x.round, x.at = x.round+1, 0
			continue
		}
		n := min(buildAhead, len(x.records))
		tasks, err := g.build(ctx, x.binding, x.records[:n])
		if err != nil {
			return try{}, nil, err
		}
		x.records = x.records[n:]
		some, chosen := g.o.Policy.(interface{ Has(*sdk.Task) bool })
		for _, t := range tasks {
			if chosen && !some.Has(t) {
				continue // it was not recorded
			}
			if !x.known[t.Key] {
				x.known[t.Key] = true
				x.tasks = append(x.tasks, t)
			}
		}
	}
	return try{}, nil, nil
}

// finish writes what is kept of each skill, and the summary.
func (g *gatherer) finish() (*Trajectories, error) {
	r := &Trajectories{Out: g.o.Out, Policy: g.o.Policy.Name(), Tokens: g.spent.Tokens, Cost: g.spent.Cost, Stopped: g.stopped, Model: used(g.model)}
	if g.server.Turns > 0 {
		r.Server = &g.server
	}
	for _, x := range g.skills {
		s, places := x.settle(g.o.PerSkill)
		r.Skills = append(r.Skills, s)
		path := filepath.Join(g.o.Out, x.Name+".episodes.jsonl.zst")
		if len(places) == 0 {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return r, diag.Wrap(diag.KindData, "write trajectories", path, err)
			}
			continue
		}
		if err := journal.WriteEpisodes(path, x.episodes(places)); err != nil {
			return r, err
		}
	}
	return r, journal.Dir(g.o.Out).WriteJSON("summary.json", r)
}

// settle says what each try came to, in the order of the plan, and where those are that
// are kept.
func (x *gathered) settle(want int) (*GatheredSkill, []journal.Place) {
	s := &GatheredSkill{Name: x.Name, Want: want, Tried: len(x.tries), Failed: x.failed}
	order := slices.SortedFunc(maps.Keys(x.tries), func(a, b try) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(x.tries[a].task, x.tries[b].task), cmp.Compare(a.task, b.task))
	})
	var places []journal.Place
	tasks, seen := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for _, t := range order {
		o := x.tries[t]
		tasks[t.task] = true
		switch o.state {
		case tryFailed:
			s.Excluded++
		case tryWrong:
			s.Wrong++
		case tryUnfinished:
			s.Unfinished++
		default:
			switch {
			case seen[o.turns]:
				s.Duplicate++
			case s.Kept == want:
				s.Spare++
			default:
				s.Kept++
				places = append(places, o.place)
			}
			seen[o.turns] = true
		}
	}
	s.Tasks = len(tasks)
	return s, places
}

func (x *gathered) episodes(places []journal.Place) iter.Seq2[*journal.Episode, error] {
	return func(yield func(*journal.Episode, error) bool) {
		for _, p := range places {
			e, err := x.log.At(p)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
