package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
)

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
		w.log.Info("keys changed that hold from the next start", "keys", text)
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
