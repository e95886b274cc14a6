package run

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
)

// Reload reads a run's TOML anew, as the command line did, with further values of
// --set.
type Reload func(sets ...string) (*config.Config, error)

// swapper changes the bindings of a run under way. Wishes come from three sides: the
// run's TOML was written, a signal asks to look everything up anew, a command sets
// keys. All go one way: make the bindings that are wanted, try them, store the swap,
// install them. Until the last step nothing of the run has changed. One goroutine
// serves the wishes in turn, beside the rollouts.
type swapper struct {
	*Setup
	dir    journal.Dir
	step   func() int     // under way
	reload Reload         // nil: the run has no TOML
	force  *config.Config // what is in force
	own    *config.Config // the TOML as it was read last
	orders map[string]order
	told   string // of keys that cannot be swapped
}

// wish is what is wanted and by whom.
type wish struct {
	by     string
	want   *config.Config
	skills []string          // whose bindings are to be made anew
	file   map[string]string // the TOML's own values
}

func newSwapper(s *Setup, dir journal.Dir, reload Reload, step func() int) (*swapper, error) {
	w := &swapper{Setup: s, dir: dir, reload: reload, step: step, force: s.Config, own: s.Config}
	swaps, err := dir.Swaps()
	if err != nil {
		return nil, err
	}
	w.orders = ordersOf(swaps)
	if reload != nil {
		if own, err := reload(); err == nil { // else the next change will tell
			w.own, w.orders = own, stand(w.orders, config.Values(own))
		}
	}
	return w, nil
}

// serve answers wishes until ctx ends. It begins with what was written, or asked, while
// the run was being opened.
func (w *swapper) serve(ctx context.Context, renew <-chan struct{}) {
	written := w.watchFile(ctx)
	if err := os.MkdirAll(w.dir.Path(askFolder), 0o755); err != nil {
		w.warn("commands are not heard", err)
	}
	asks, err := watch(ctx, w.dir.Path(askFolder))
	if err != nil {
		w.warn("commands are not heard", err)
	}
	text := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-written:
			if now := w.text(); now != "" && now != text {
				text = now
				w.fromFile(ctx, journal.ByFile)
			}
		case <-renew:
			text = cmp.Or(w.text(), text)
			w.fromFile(ctx, journal.BySignal)
		case <-asks:
			w.answer(ctx)
		}
	}
}

func (w *swapper) warn(what string, err error) {
	w.log.Info(what, "error", err)
	w.observe(Event{Kind: Warned, Text: what + ": " + err.Error()})
}

// swap is the one way of all wishes. It gives the swaps made, and none when nothing
// differs.
func (w *swapper) swap(ctx context.Context, wanted wish) ([]journal.Swap, error) {
	var ready []candidate
	drop := func() {
		for _, c := range ready {
			c.release()
		}
	}
	for _, name := range wanted.skills {
		c, err := w.candidate(ctx, wanted, name)
		if err != nil {
			drop()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, w.refuse(c.rows, err)
		}
		if c.Binding != nil {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return nil, nil
	}
	if err := w.install(ready, nil); err != nil {
		drop()
		w.warn("a swap cannot be stored and is left", err)
		return nil, err
	}
	var made []journal.Swap
	for _, c := range ready {
		w.inForce(wanted, c)
		made = append(made, c.rows...)
	}
	if err := errors.Join(w.dir.WriteFile("config.toml", config.Resolved(w.force)), w.dir.WriteFile("plugins.lock", w.Lock())); err != nil {
		w.warn("the swap holds, but its description is old", err) // and is brought up to date by the next start
	}
	for _, r := range made {
		w.log.Info("swapped", "skill", r.Skill, "role", r.Role, "from", r.From, "to", r.To, "group", r.Dispatch)
		w.observe(Event{Kind: Swapped, Swap: &r})
	}
	return made, nil
}

// install stores the swaps of all that is ready, behind rows, and makes them current;
// if they cannot be stored, none of them. Groups of these skills that begin meanwhile
// wait.
func (w *swapper) install(ready []candidate, rows []journal.Swap) error {
	if len(ready) == 0 {
		return w.dir.AddSwaps(rows...)
	}
	c := ready[0]
	return c.skill.install(c.Binding, func(first int64, drawn bool) error {
		step := w.step()
		if !drawn {
			step++
		}
		for i := range c.rows {
			r := &c.rows[i]
			r.Time, r.Step, r.Dispatch, r.Outcome = time.Now().UTC(), step, first, journal.Accepted
		}
		return w.install(ready[1:], append(rows, c.rows...))
	})
}

// inForce writes down what holds now.
func (w *swapper) inForce(wanted wish, c candidate) {
	w.force = graft(w.force, c.part)
	for _, r := range c.rows {
		for k, v := range r.Set {
			delete(w.orders, k)
			if wanted.by == journal.ByCommand {
				w.orders[k] = order{v, r.File[k]}
			}
		}
	}
}

// graft gives c with p in the place of the part of that name.
func graft(c *config.Config, p part) *config.Config {
	out := *c
	out.Skills, out.Suites = slices.Clone(c.Skills), slices.Clone(c.Suites)
	for i := range out.Skills {
		if k := &out.Skills[i]; k.Name == p.name {
			k.Plugin, k.Transport, k.Config, k.Grants, k.Judge, k.JudgeConfig = p.plugin, p.transport, p.config, p.grants, p.judge, p.judgeConfig
		}
	}
	for i := range out.Suites {
		if k := &out.Suites[i]; k.Name == p.name {
			k.Plugin, k.Transport, k.Config, k.Grants, k.Judge, k.JudgeConfig = p.plugin, p.transport, p.config, p.grants, p.judge, p.judgeConfig
		}
	}
	return &out
}

// refuse tells of a wish that changes nothing, and gives err.
func (w *swapper) refuse(rows []journal.Swap, err error) error {
	for i := range rows {
		r := &rows[i]
		r.Time, r.Step, r.Dispatch, r.Outcome, r.Reason = time.Now().UTC(), w.step(), -1, journal.Refused, err.Error()
		what := "the TOML's change"
		if r.Skill != "" {
			what = strings.TrimRight("the swap of "+r.Skill+" "+r.Role, " ")
		}
		w.log.Info("swap refused", "skill", r.Skill, "role", r.Role, "by", r.By, "error", err)
		w.observe(Event{Kind: Warned, Text: what + " is refused: " + err.Error(), Swap: r})
	}
	if e := w.dir.AddSwaps(rows...); e != nil {
		w.warn("a refused swap is not written down", e)
	}
	return err
}
