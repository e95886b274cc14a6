package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

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
		err = w.dir.WriteJSON(name+answer, answerTo(swaps, err))
		if gone := os.Remove(w.dir.Path(name + question)); !errors.Is(gone, os.ErrNotExist) { // who asked may have given up
			err = errors.Join(err, gone)
		}
		if err != nil {
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
