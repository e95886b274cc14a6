package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/sdk"
)

// candidate is a binding that may become a skill's.
type candidate struct {
	skill *Skill
	*Binding
	rows []journal.Swap
}

// candidate makes the binding that is wanted for a skill, and tries it; none if the
// current one is what is wanted. On an error its rows say what was refused.
func (w *swapper) candidate(ctx context.Context, wanted wish, name string) (candidate, error) {
	k := w.skill(name)
	old, let := k.hold()
	defer let()
	p, ok := partOf(wanted.want, name)
	if !ok {
		return candidate{}, nil // its section is gone: that holds from the next start
	}
	c := candidate{skill: k, rows: w.rows(wanted, p, old)}
	b, err := w.bind(ctx, p, wanted.want)
	if err != nil {
		return c, err
	}
	anew := b.Plugin != old.Plugin || !slices.Equal(b.Scorer.Config, old.Scorer.Config)
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
// differ, or one without a role.
func (w *swapper) rows(wanted wish, p part, old *Binding) []journal.Swap {
	values := config.Values(wanted.want)
	of := map[string]*journal.Swap{}
	for _, k := range config.Changed(w.force, wanted.want) {
		skill, role := w.roleOf(k)
		if skill != p.name || role == "" {
			continue
		}
		r := of[role]
		if r == nil {
			r = p.row(wanted.by, role, old.Scorer.Digests()[role])
			r.Set, r.File = map[string]string{}, map[string]string{}
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
		out = []journal.Swap{{By: wanted.by, Skill: p.name}}
	}
	return out
}

// row is a swap of one role, before it is known what comes of it.
func (p part) row(by, role, from string) *journal.Swap {
	r := &journal.Swap{By: by, Skill: p.name, Role: role, From: from, Ref: p.plugin}
	if role == "judge" {
		r.Ref = p.judge
	}
	return r
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
		r := p.row(wanted.by, role, from[role])
		if i >= 0 {
			r = &rows[i]
		}
		r.To = to[role]
		out = append(out, *r)
	}
	return out
}
