package buffer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
)

func TestRestoreHandsLeasesOutFirst(t *testing.T) {
	c := config(map[string]float64{"a": 1, "b": 1}, 4)
	b := newBuffer(t, c)
	var draws []Draw
	for range 6 {
		draws = append(draws, b.Next())
	}
	done(t, b, draws[1], Trained)
	done(t, b, draws[4], Stale)
	data := stored(t, b)

	r, err := Restore(c, data)
	if err != nil {
		t.Fatal(err)
	}
	if string(stored(t, r)) != string(data) {
		t.Error("the state of the restored buffer differs")
	}
	if err := r.Done(draws[0], Trained); err == nil {
		t.Error("a lease was ended that nobody drew since")
	}
	for _, want := range []Draw{draws[0], draws[2], draws[3], draws[5]} {
		if got := r.Next(); got != want {
			t.Errorf("drawn %+v, want %+v", got, want)
		}
	}
	// From here on both are the same buffer.
	for range 20 {
		if d := cmp.Diff(b.Next(), r.Next()); d != "" {
			t.Fatal(d)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	c := config(map[string]float64{"a": 1, "b": 1}, 4)
	b := newBuffer(t, c)
	b.Next()
	data := string(stored(t, b))
	edit := func(f func(*Config)) Config {
		c := config(map[string]float64{"a": 1, "b": 1}, 4)
		f(&c)
		return c
	}
	same := edit(func(*Config) {})
	for _, x := range []struct {
		name   string
		config Config
		data   string
		kind   diag.Kind
		want   string
	}{
		{"seed", edit(func(c *Config) { c.Seed = 8 }), data, diag.KindConfig, "seed: it was 7, now 8"},
		{"skills", edit(func(c *Config) { c.Skills = c.Skills[:1] }), data, diag.KindConfig, "there were 2, now 1"},
		{"name", edit(func(c *Config) { c.Skills[1].Name = "z" }), data, diag.KindConfig, `called "b"`},
		{"weight", edit(func(c *Config) { c.Skills[0].Weight = 3 }), data, diag.KindConfig, "share was 0.5000 when the state was written, now 0.7500"},
		{"tasks", edit(func(c *Config) { c.Skills[0].Tasks[0] = "new" }), data, diag.KindConfig, "tasks are not those"},
		{"no json", same, "{", diag.KindData, ""},
		{"unknown key", same, `{"x":1}`, diag.KindData, "unknown field"},
		{"format", same, strings.Replace(data, `"format":1`, `"format":2`, 1), diag.KindData, "format 2"},
		{"ledger", same, strings.Replace(data, `"dispatched":1`, `"dispatched":2`, 1), diag.KindData, "ledger"},
		{"fate", same, strings.Replace(data, `"fates":{}`, `"fates":{"x":0}`, 1), diag.KindData, "fates"},
		{"cursor", same, strings.Replace(data, `"cursor":1`, `"cursor":9`, 1), diag.KindData, "cursor 9"},
		{"lease", same, strings.Replace(data, `"key":"`, `"key":"x`, 1), diag.KindData, "no such dispatch"},
	} {
		_, err := Restore(x.config, []byte(x.data))
		if err == nil || diag.KindOf(err) != x.kind || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// A random life with kills: the ledger balances after every call, every task of
// every finished epoch is drawn exactly once without being returned, and a
// restored buffer continues as the other would have.
func TestBufferLife(t *testing.T) {
	fates := []Fate{Trained, Stale, NoSignal, Filtered, Failed(diag.KindSandbox)}
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Seed: rapid.Uint64().Draw(t, "seed")}
		tasks := map[string]int{}
		for i := range rapid.IntRange(1, 4).Draw(t, "skills") {
			name := string(rune('a' + i))
			tasks[name] = rapid.IntRange(1, 6).Draw(t, "tasks")
			c.Skills = append(c.Skills, Skill{Name: name, Weight: rapid.Float64Range(.05, 1).Draw(t, "weight"), Tasks: keys(name, tasks[name])})
		}
		b := newBuffer(t, c)
		open := map[int64]Draw{}
		ended := map[Draw]Fate{}
		// What the world knew when the state was written, for kills.
		data, openThen, endedThen := stored(t, b), map[int64]Draw{}, map[Draw]Fate{}
		for range rapid.IntRange(1, 120).Draw(t, "calls") {
			switch rapid.IntRange(0, 9).Draw(t, "call") {
			default:
				d := b.Next()
				if was, ok := open[d.Dispatch]; ok {
					t.Fatalf("dispatch %d is open: %+v", d.Dispatch, was)
				}
				open[d.Dispatch] = d
			case 4, 5, 6, 7:
				if len(open) > 0 {
					d := open[rapid.SampledFrom(slices.Sorted(maps.Keys(open))).Draw(t, "which")]
					f := rapid.SampledFrom(fates).Draw(t, "fate")
					done(t, b, d, f)
					if b.Done(d, f) == nil {
						t.Fatal("a second end was accepted")
					}
					ended[d] = f
					delete(open, d.Dispatch)
				}
			case 8: // a checkpoint
				data = stored(t, b)
				openThen, endedThen = maps.Clone(open), maps.Clone(ended)
			case 9: // kill −9: everything since the checkpoint is forgotten
				r, err := Restore(c, data)
				if err != nil {
					t.Fatal(err)
				}
				b, ended = r, maps.Clone(endedThen)
				open = map[int64]Draw{}
				last := int64(-1)
				for range openThen {
					d := b.Next()
					if openThen[d.Dispatch] != d || d.Dispatch <= last {
						t.Fatalf("dispatched again: %+v, was %+v", d, openThen[d.Dispatch])
					}
					last = d.Dispatch
					open[d.Dispatch] = d
				}
				if l := b.Ledger(); l.Dispatched != int64(len(open)+len(ended)) {
					t.Fatalf("after the kill: %+v, %d open, %d ended", l, len(open), len(ended))
				}
			}
			l := b.Ledger()
			var sum int64
			for _, n := range l.Fates {
				sum += n
			}
			if l.Dispatched != l.Open+sum || l.Open != int64(len(open)) || sum != int64(len(ended)) {
				t.Fatalf("ledger %+v, %d open, %d ended", l, len(open), len(ended))
			}
		}
		// Drawn once an epoch.
		type draw struct {
			key   string
			epoch int
		}
		times := map[draw]int{}
		for _, d := range open {
			times[draw{d.Key, d.Epoch}]++
		}
		for d, f := range ended {
			if f != Stale {
				times[draw{d.Key, d.Epoch}]++
			}
		}
		waiting := map[draw]bool{}
		for _, s := range b.skills {
			for _, r := range s.returned {
				waiting[draw{s.tasks[r.Task], r.Epoch}] = true
			}
		}
		for d, n := range times {
			if n != 1 || waiting[d] {
				t.Fatalf("%s was drawn %d times in epoch %d, waiting: %v", d.key, n, d.epoch, waiting[d])
			}
		}
		for i, s := range b.Shares() {
			for e := range s.Epoch {
				for _, k := range c.Skills[i].Tasks {
					if d := (draw{k, e}); times[d] != 1 && !waiting[d] {
						t.Fatalf("%s was not drawn in epoch %d", k, e)
					}
				}
			}
		}
	})
}

// Whatever bytes a state holds, Restore answers, and what it accepts can go on.
func FuzzRestore(f *testing.F) {
	c := config(map[string]float64{"a": 1, "b": 2}, 3)
	b := newBuffer(f, c)
	f.Add(stored(f, b))
	d := b.Next()
	b.Next()
	f.Add(stored(f, b))
	done(f, b, d, Stale)
	f.Add(stored(f, b))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Restore(c, data)
		if err != nil {
			return
		}
		for range 5 {
			if err := b.Done(b.Next(), Trained); err != nil {
				t.Fatal(err)
			}
		}
	})
}
