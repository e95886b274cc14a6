package run

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// order is a value that a command gave to a key of the run's TOML. It stands until
// the TOML's own value changes.
type order struct{ value, file string }

// ordersOf reads from a run's swaps what commands set last, by key.
func ordersOf(swaps []journal.Swap) map[string]order {
	out := map[string]order{}
	for _, s := range swaps {
		if s.Outcome != journal.Accepted {
			continue
		}
		for k, v := range s.Set {
			delete(out, k)
			if s.By == journal.ByCommand {
				out[k] = order{v, s.File[k]}
			}
		}
	}
	return out
}

// stand gives the orders whose keys have the values in the TOML that they had.
func stand(orders map[string]order, values map[string]string) map[string]order {
	out := maps.Clone(orders)
	maps.DeleteFunc(out, func(k string, o order) bool { return values[k] != o.file })
	return out
}

// settings writes orders as --set takes them, sorted.
func settings(orders map[string]order) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(orders)) {
		out = append(out, k+"="+strconv.Quote(orders[k].value))
	}
	return out
}

// Ordered gives, as values of --set, the keys that commands set while the run of c
// was under way and that still stand, so that a resumed run goes on with them.
func Ordered(c *config.Config) ([]string, error) {
	swaps, err := journal.Dir(filepath.Join(c.Run.Dir, c.Run.Name)).Swaps()
	if err != nil {
		return nil, err
	}
	return settings(stand(ordersOf(swaps), config.Values(c))), nil
}

// noteResumed stores what changed between two processes of a run: plugins that were
// changed while nobody worked on it, and swaps whose groups were lost with the
// process before, which hold from the first group of this one.
func (t *trainer) noteResumed(step int) error {
	was, err := os.ReadFile(t.dir.Path("plugins.lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diag.Wrap(diag.KindData, "resume", string(t.dir), err)
	}
	swaps, err := t.dir.Swaps()
	if err != nil {
		return err
	}
	first := t.buffer.Upcoming()
	// A process that was killed between a swap and its lock file leaves the latter old,
	// so the swaps decide: those that groups are left of say what served last, and the
	// first of the others what served before them.
	before := digestsIn(was)
	lost := map[string]string{}
	for _, s := range swaps {
		key := s.Skill + "." + s.Role
		switch {
		case s.Outcome != journal.Accepted:
		case s.Dispatch <= first:
			before[key] = s.To
			delete(lost, key)
		case lost[key] == "":
			lost[key] = s.From
		}
	}
	maps.Copy(before, lost)
	var rows []journal.Swap
	now := digestsIn(t.Lock())
	for _, key := range sortedKeys(now) {
		if from := before[key]; from != "" && from != now[key] {
			dot := strings.LastIndexByte(key, '.')
			p, _ := partOf(t.Config, key[:dot])
			r := p.row(journal.ByResume, key[dot+1:], from)
			r.Time, r.Step, r.Dispatch, r.To, r.Outcome = time.Now().UTC(), step, first, now[key], journal.Accepted
			rows = append(rows, *r)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return t.dir.AddSwaps(rows...)
}

// digestsIn reads plugins.lock: skill.role → digest.
func digestsIn(lock []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(lock)) {
		if key, digest, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			out[key] = digest
		}
	}
	return out
}
