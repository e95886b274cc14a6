package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/sdk"
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
	if reload != nil {
		if own, err := reload(); err == nil { // else the next change will tell
			w.own = own
		}
	}
	swaps, err := dir.Swaps()
	if err != nil {
		return nil, err
	}
	w.orders = ordersOf(swaps, config.Values(w.own))
	return w, os.RemoveAll(dir.Path(askFolder)) // asked of a process that is no more
}

// serve answers wishes until ctx ends.
func (w *swapper) serve(ctx context.Context, renew <-chan struct{}) {
	written := w.watchFile(ctx)
	if err := os.MkdirAll(w.dir.Path(askFolder), 0o755); err != nil {
		w.warn("commands are not heard", err)
	}
	asks, err := watch(ctx, w.dir.Path(askFolder))
	if err != nil {
		w.warn("commands are not heard", err)
	}
	text := w.text()
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

// watchFile watches the folder of the TOML: editors put another file in its place.
func (w *swapper) watchFile(ctx context.Context) <-chan struct{} {
	if w.reload == nil || w.own.File == "" {
		return nil
	}
	written, err := watch(ctx, filepath.Dir(w.own.File))
	if err != nil {
		w.warn("changes of the TOML are not noticed", err)
	}
	return written
}

// text is what the TOML says; "" while it is not there.
func (w *swapper) text() string {
	b, err := os.ReadFile(w.own.File)
	if err != nil {
		return ""
	}
	return string(b)
}

func (w *swapper) warn(what string, err error) {
	w.log.Warn(what, "error", err)
	w.observe(Event{Kind: Warned, Text: what + ": " + err.Error()})
}

// fromFile takes up what the TOML says now. A signal also has everything looked up
// anew that the TOML names as before.
func (w *swapper) fromFile(ctx context.Context, by string) {
	want, err := w.read()
	if err != nil {
		w.refuse([]journal.Swap{{By: by}}, err)
		return
	}
	w.tellOthers(want)
	wanted := wish{by: by, want: want, file: config.Values(w.own)}
	for _, k := range w.Skills {
		if by == journal.BySignal || w.differs(k.Name, want) {
			wanted.skills = append(wanted.skills, k.Name)
		}
	}
	w.swap(ctx, wanted)
}

// read reads the TOML, with the orders that stand.
func (w *swapper) read() (*config.Config, error) {
	if w.reload == nil {
		return w.force, nil
	}
	own, err := w.reload()
	if err != nil {
		return nil, err
	}
	w.own = own
	if standing := stand(w.orders, config.Values(own)); len(standing) > 0 {
		return w.reload(settings(standing)...)
	}
	return own, nil
}

// differs says whether want has other words for a skill's plugin or judge than what is
// in force.
func (w *swapper) differs(name string, want *config.Config) bool {
	a, ok := partOf(w.force, name)
	b, there := partOf(want, name)
	return ok && there && !(a.samePlugin(b) && a.sameJudge(b))
}

// tellOthers warns, once, of keys that have changed and cannot be swapped.
func (w *swapper) tellOthers(want *config.Config) {
	var keys []string
	for _, k := range config.Changed(w.force, want) {
		if name, role := w.roleOf(k); role == "" || !w.differs(name, want) {
			keys = append(keys, k)
		}
	}
	text := strings.Join(keys, ", ")
	if text != "" && text != w.told {
		w.observe(Event{Kind: Warned, Text: fmt.Sprintf("%s: %s changed; what is no plugin, judge or setting of one holds from the next start", want.File, text)})
		w.log.Warn("keys changed that hold from the next start", "keys", text)
	}
	w.told = text
}

// roleOf says which skill and which of its roles a key of the TOML belongs to; role
// "" means that the key cannot be swapped.
func (w *swapper) roleOf(key string) (skill, role string) {
	parts := strings.SplitN(key, ".", 3)
	if len(parts) < 3 || parts[0] != "skills" && parts[0] != "suites" || w.skill(parts[1]) == nil {
		return "", ""
	}
	head, _, deep := strings.Cut(parts[2], ".")
	switch {
	case head == "judge", head == "judge_config" && deep:
		return parts[1], "judge"
	case head == "plugin", head == "transport", head == "grants", head == "config" && deep:
		return parts[1], "evaluate"
	}
	return parts[1], ""
}

func (w *swapper) skill(name string) *Skill {
	i := slices.IndexFunc(w.Skills, func(k *Skill) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return w.Skills[i]
}

func partOf(c *config.Config, name string) (part, bool) {
	for _, p := range parts(c) {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

// answer serves what commands have asked.
func (w *swapper) answer(ctx context.Context) {
	names, err := questions(w.dir)
	if err != nil {
		w.warn("commands are not heard", err)
		return
	}
	for _, name := range names {
		swaps, err := w.fromCommand(ctx, name)
		if ctx.Err() != nil {
			return
		}
		a := answered{Swaps: swaps}
		if err != nil {
			a.Kind, a.Error = diag.KindOf(err), err.Error()
		}
		if err := errors.Join(w.dir.WriteJSON(name+answer, a), os.Remove(w.dir.Path(name+question))); err != nil {
			w.warn("a command cannot be answered", err)
		}
	}
}

// fromCommand serves one question.
func (w *swapper) fromCommand(ctx context.Context, name string) ([]journal.Swap, error) {
	var q asked
	b, err := os.ReadFile(w.dir.Path(name + question))
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read question", name, err)
	}
	wanted := wish{by: journal.ByCommand, file: config.Values(w.own)}
	var sets []string
	for _, s := range q.Set {
		skill, set, err := w.setting(s, q.Dir)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
		if !slices.Contains(wanted.skills, skill) {
			wanted.skills = append(wanted.skills, skill)
		}
	}
	wanted.want, err = config.Parse(w.dir.Path("config.toml"), config.Resolved(w.force), sets)
	if err != nil {
		rows := []journal.Swap{}
		for _, s := range wanted.skills {
			rows = append(rows, journal.Swap{By: journal.ByCommand, Skill: s})
		}
		return nil, w.refuse(rows, err)
	}
	return w.swap(ctx, wanted)
}

// setting turns "skill.key=value" into what --set takes.
func (w *swapper) setting(text, dir string) (skill, set string, err error) {
	fail := func(format string, args ...any) (string, string, error) {
		return "", "", diag.Errorf(diag.KindConfig, "swap plugin", text, format, args...)
	}
	key, value, ok := strings.Cut(text, "=")
	skill, key, deep := strings.Cut(strings.TrimSpace(key), ".")
	if !ok || !deep {
		return fail("want skill.key=value, e.g. repro.judge=plugins/judges/rules")
	}
	p, there := partOf(w.force, skill)
	if !there {
		var names []string
		for _, k := range w.Skills {
			names = append(names, k.Name)
		}
		return fail("the run has no skill or suite %q; it has %s", skill, strings.Join(names, ", "))
	}
	if _, role := w.roleOf(p.key() + "." + key); role == "" || key == "grants" {
		return fail("%q cannot be swapped; plugin, judge, transport, config.KEY and judge_config.KEY can", key)
	}
	if key == "plugin" || key == "judge" {
		value = fromHere(strings.TrimSpace(value), dir)
	}
	return skill, p.key() + "." + key + "=" + value, nil
}

// fromHere makes a path that starts at the folder dir start at this process's own.
// What names nothing there is left as it is: a reference of the registry.
func fromHere(ref, dir string) string {
	wd, err := os.Getwd()
	if err != nil || filepath.IsAbs(ref) || wd == dir {
		return ref
	}
	full := filepath.Join(dir, ref)
	if _, err := os.Stat(full); err != nil {
		return ref
	}
	if rel, err := filepath.Rel(wd, full); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return full
}

// candidate is a binding that may become a skill's.
type candidate struct {
	skill *Skill
	*Binding
	rows []journal.Swap
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
	var made []journal.Swap
	for i, c := range ready {
		err := c.skill.install(c.Binding, func(first int64) error {
			for j := range c.rows {
				r := &c.rows[j]
				r.Time, r.Step, r.Dispatch, r.Outcome = time.Now().UTC(), w.step(), first, journal.Accepted
			}
			return w.dir.AddSwaps(c.rows...)
		})
		if err != nil {
			ready = ready[i:]
			drop()
			return made, err
		}
		w.inForce(wanted, c)
		made = append(made, c.rows...)
	}
	if len(ready) > 0 {
		if err := errors.Join(w.dir.WriteFile("config.toml", config.Resolved(w.force)), w.dir.WriteFile("plugins.lock", w.Lock())); err != nil {
			w.warn("the swap holds, but its description is old", err) // and is brought up to date by the next start
		}
	}
	for _, r := range made {
		w.log.Info("swapped", "skill", r.Skill, "role", r.Role, "from", r.From, "to", r.To, "group", r.Dispatch)
		w.observe(Event{Kind: Swapped, Swap: &r})
	}
	return made, nil
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

// candidate makes the binding that is wanted for a skill, and tries it; none if the
// current one is what is wanted. On an error its rows say what was refused.
func (w *swapper) candidate(ctx context.Context, wanted wish, name string) (candidate, error) {
	k := w.skill(name)
	old, let := k.hold()
	defer let()
	c := candidate{skill: k, rows: w.rows(wanted, name)}
	p, ok := partOf(wanted.want, name)
	if !ok {
		return c, nil // its section is gone: that holds from the next start
	}
	b, err := w.bind(ctx, p, wanted.want)
	if err != nil {
		return c, err
	}
	anew := b.Plugin.Digest() != old.Plugin.Digest() || b.Plugin.Transport() != old.Plugin.Transport() || !slices.Equal(b.Scorer.Config, old.Scorer.Config)
	if err := w.prove(ctx, k, b, old, anew); err != nil {
		c.rows = w.digests(wanted, p, c.rows, old, b)
		b.release()
		return c, err
	}
	if c.rows = w.digests(wanted, p, c.rows, old, b); len(c.rows) == 0 {
		b.release()
		return c, nil
	}
	c.Binding = b
	return c, nil
}

// prove gives b its tasks, which must be those of old, and tries it, as far as it
// differs from old.
func (w *swapper) prove(ctx context.Context, k *Skill, b, old *Binding, anew bool) (err error) {
	b.Train, b.Eval = old.Train, old.Eval
	if anew {
		if b.Train, err = w.build(ctx, b, k.records); err != nil {
			return err
		}
		if b.Eval, err = w.measured(ctx, b, k.held); err != nil {
			return err
		}
		if err := sameTasks(b.Skill, "training", old.Train, b.Train); err != nil {
			return err
		}
		for _, split := range sortedKeys(old.Eval) {
			if err := sameTasks(b.Skill, split, old.Eval[split], b.Eval[split]); err != nil {
				return err
			}
		}
	}
	if !anew && maps.Equal(b.Scorer.Digests(), old.Scorer.Digests()) {
		return nil
	}
	return w.try(ctx, b)
}

// sameTasks compares keys and their order: what the buffer counts by, and what
// measurements compare, must not change within a run.
func sameTasks(skill, which string, old, now []*sdk.Task) error {
	fail := func(format string, args ...any) error {
		return diag.Errorf(diag.KindPlugin, "swap plugin", skill, "it builds other %s tasks: %s; start a new run", which, fmt.Sprintf(format, args...))
	}
	for i := range min(len(old), len(now)) {
		if old[i].Key != now[i].Key {
			return fail("number %d is %s, was %s", i+1, now[i].Key, old[i].Key)
		}
	}
	if len(old) != len(now) {
		return fail("%d, were %d", len(now), len(old))
	}
	return nil
}

// rows says what a wish changes of a skill, in words: a row for each role whose keys
// differ.
func (w *swapper) rows(wanted wish, name string) []journal.Swap {
	values := config.Values(wanted.want)
	of := map[string]*journal.Swap{}
	for _, k := range config.Changed(w.force, wanted.want) {
		skill, role := w.roleOf(k)
		if skill != name || role == "" {
			continue
		}
		r := of[role]
		if r == nil {
			r = &journal.Swap{By: wanted.by, Skill: name, Role: role, Set: map[string]string{}, File: map[string]string{}}
			of[role] = r
		}
		r.Set[k] = values[k]
		if v, ok := wanted.file[k]; ok {
			r.File[k] = v
		}
	}
	var out []journal.Swap
	for _, role := range sortedKeys(of) {
		out = append(out, *of[role])
	}
	if out == nil {
		out = []journal.Swap{{By: wanted.by, Skill: name}}
	}
	return out
}

// digests completes rows with what was found: a row for each role whose words or
// digest differ.
func (w *swapper) digests(wanted wish, p part, rows []journal.Swap, old, now *Binding) []journal.Swap {
	var out []journal.Swap
	from, to := old.Scorer.Digests(), now.Scorer.Digests()
	for _, role := range []string{"evaluate", "judge"} {
		i := slices.IndexFunc(rows, func(r journal.Swap) bool { return r.Role == role })
		if i < 0 && from[role] == to[role] {
			continue
		}
		r := journal.Swap{By: wanted.by, Skill: p.name, Role: role}
		if i >= 0 {
			r = rows[i]
		}
		r.From, r.To, r.Ref = from[role], to[role], p.plugin
		if role == "judge" {
			r.Ref = p.judge
		}
		out = append(out, r)
	}
	return out
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
		w.log.Warn("swap refused", "skill", r.Skill, "role", r.Role, "by", r.By, "error", err)
		w.observe(Event{Kind: Warned, Text: what + " is refused: " + err.Error(), Swap: r})
	}
	if e := w.dir.AddSwaps(rows...); e != nil {
		w.warn("a refused swap is not written down", e)
	}
	return err
}
