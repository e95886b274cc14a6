package buffer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
)

func keys(skill string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s/%d", skill, i)
	}
	return out
}

func config(weights map[string]float64, tasks int) Config {
	c := Config{Seed: 7}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		c.Skills = append(c.Skills, Skill{Name: name, Weight: weights[name], Tasks: keys(name, tasks)})
	}
	return c
}

type fataler interface{ Fatal(...any) }

func newBuffer(t fataler, c Config) *Buffer {
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func done(t fataler, b *Buffer, d Draw, f Fate) {
	if err := b.Done(d, f); err != nil {
		t.Fatal(err)
	}
}

func stored(t fataler, b *Buffer) []byte {
	data, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNewRefuses(t *testing.T) {
	ok := Skill{Name: "a", Weight: 1, Tasks: []string{"x"}}
	for _, c := range []struct {
		name   string
		skills []Skill
		want   string
	}{
		{"nothing", nil, "no skill"},
		{"twice", []Skill{ok, ok}, "a: the skill is listed twice"},
		{"no tasks", []Skill{{Name: "a", Weight: 1}}, "a: weight 1, but no task"},
		{"task twice", []Skill{{Name: "a", Weight: 1, Tasks: []string{"x", "x"}}}, `task "x" is listed twice`},
		{"negative", []Skill{ok, {Name: "b", Weight: -1}}, "weight 2 is -1"},
		{"not a number", []Skill{{Name: "b", Weight: math.NaN()}}, "weight 1 is NaN"},
		{"all zero", []Skill{{Name: "b"}}, "all are 0"},
		{"window", []Skill{{Name: "a", Weight: 1, Tasks: []string{"x"}, Curriculum: Curriculum{Window: -1}}}, "window -1"},
		{"cooldown", []Skill{{Name: "a", Weight: 1, Tasks: []string{"x"}, Curriculum: Curriculum{Window: 1}}}, "cooldown 0"},
	} {
		_, err := New(Config{Skills: c.skills})
		if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The realised mix is the configured one at every prefix.
func TestMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 12).Draw(t, "weights")
		sum, active := 0.0, 0
		for _, w := range weights {
			sum += w
			if w > 0 {
				active++
			}
		}
		m, err := newMix(weights)
		if sum == 0 {
			if err == nil {
				t.Fatal("no weight was accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		bound := 1e-5
		if active > 1 {
			bound += 1 - 1/float64(2*active-2)
		}
		for n := 1; n <= 400; n++ {
			m.next()
			for i, w := range weights {
				if d := math.Abs(float64(m.counts[i]) - float64(n)*w/sum); d > bound {
					t.Fatalf("draw %d: skill %d was drawn %d times, off by %v", n, i, m.counts[i], d)
				}
			}
		}
	})
}

// Draws taken back are made up for: the counts come within one of the shares again.
func TestMixRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(.1, 1), 2, 8).Draw(t, "weights")
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		m, err := newMix(weights)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 60).Draw(t, "first") {
			m.next()
		}
		back := rapid.IntRange(0, 20).Draw(t, "back")
		for range back {
			if i := rapid.IntRange(0, len(weights)-1).Draw(t, "skill"); m.counts[i] > 0 {
				m.back(i)
			}
		}
		for range 200 * back {
			m.next()
		}
		for i, w := range weights {
			if d := math.Abs(float64(m.counts[i]) - float64(m.drawn)*w/sum); d >= 1 {
				t.Fatalf("skill %d is still off by %v", i, d)
			}
		}
	})
}

func TestEpochs(t *testing.T) {
	b := newBuffer(t, config(map[string]float64{"a": 2, "b": 1}, 10))
	seen := map[string]int{}
	var first, second []int
	for i := range 30 {
		d := b.Next()
		if d.Dispatch != int64(i) {
			t.Fatalf("dispatch %d, want %d", d.Dispatch, i)
		}
		if d.Key != fmt.Sprintf("%s/%d", d.Skill, d.Task) {
			t.Fatalf("key %s of %s %d", d.Key, d.Skill, d.Task)
		}
		seen[fmt.Sprint(d.Epoch, " ", d.Key)]++
		if d.Skill == "a" && d.Epoch == 0 {
			first = append(first, d.Task)
		}
		if d.Skill == "a" && d.Epoch == 1 {
			second = append(second, d.Task)
		}
	}
	// 20 of a are 2 epochs, 10 of b are 1.
	if len(seen) != 30 {
		t.Fatalf("%d different draws of 30: %v", len(seen), seen)
	}
	if cmp.Equal(first, second) {
		t.Errorf("epochs share an order: %v", first)
	}
	want := []Share{{Name: "a", Configured: 2. / 3, Realised: 2. / 3, Count: 20, Epoch: 1}, {Name: "b", Configured: 1. / 3, Realised: 1. / 3, Count: 10}}
	if d := cmp.Diff(want, b.Shares(), cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-9 })); d != "" {
		t.Error(d)
	}
}

// The shuffle is part of every stored run: it may not change.
func TestShuffleIsFixed(t *testing.T) {
	if d := cmp.Diff([]int{1, 4, 5, 2, 6, 0, 3, 7}, shuffle(8, 7, 0)); d != "" {
		t.Error(d)
	}
}

func TestReturn(t *testing.T) {
	b := newBuffer(t, config(map[string]float64{"a": 1}, 3))
	first := b.Next()
	b.Next()
	if err := b.Return(first); err != nil {
		t.Fatal(err)
	}
	again := b.Next()
	if again.Key != first.Key || again.Epoch != first.Epoch || again.Dispatch != 2 {
		t.Errorf("drawn %+v after the return of %+v", again, first)
	}
	if third := b.Next(); third.Key == first.Key || third.Epoch != 0 {
		t.Errorf("drawn twice in an epoch: %+v", third)
	}
	want := Ledger{Dispatched: 4, Open: 3, Fates: map[Fate]int64{Stale: 1}}
	if d := cmp.Diff(want, b.Ledger()); d != "" {
		t.Error(d)
	}
}

func TestLedgerRefuses(t *testing.T) {
	b := newBuffer(t, config(map[string]float64{"a": 1}, 3))
	d, e := b.Next(), b.Next()
	for _, c := range []struct {
		draw Draw
		fate Fate
		want string
	}{
		{Draw{Dispatch: 9}, Trained, "never dispatched"},
		{Draw{Dispatch: -1}, Trained, "never dispatched"},
		{Draw{Dispatch: d.Dispatch, Skill: "a", Task: d.Task + 1, Key: "other"}, Trained, "belongs to " + d.Key},
		{d, "lost", `"lost" is no fate`},
		{d, "failed:", `"failed:" is no fate`},
		{d, Failed(diag.KindSandbox), ""},
		{d, Trained, "ended before"},
		{d, Stale, "ended before"},
		{e, NoSignal, ""},
	} {
		err := b.Done(c.draw, c.fate)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %s: %v, want %q", c.draw, c.fate, err, c.want)
		}
	}
	want := Ledger{Dispatched: 2, Fates: map[Fate]int64{"failed:sandbox": 1, NoSignal: 1}}
	if d := cmp.Diff(want, b.Ledger()); d != "" {
		t.Error(d)
	}
	if k, ok := Failed(diag.KindJudge).Kind(); k != diag.KindJudge || !ok {
		t.Error(k, ok)
	}
	if err := b.Observe(d, 1); err == nil {
		t.Error("a lease that ended was observed")
	}
}

func TestCurriculum(t *testing.T) {
	c := config(map[string]float64{"a": 1}, 4)
	c.Skills[0].Curriculum = Curriculum{Window: 2, Cooldown: 6}
	b := newBuffer(t, c)
	counts := make([]int, 4)
	var order []int
	for i := range 40 {
		d := b.Next()
		if err := b.Observe(d, map[bool]float64{true: 0, false: .5}[d.Task == 2]); err != nil {
			t.Fatal(err)
		}
		done(t, b, d, Trained)
		counts[d.Task]++
		order = append(order, d.Task)
		if i == 7 && b.Shares()[0].Benched != 1 {
			t.Errorf("after two epochs at 0%%: %+v", b.Shares())
		}
	}
	// Two groups, then six of the others, and again.
	if counts[2] >= counts[0]-3 || counts[2] < 4 {
		t.Errorf("draws %v in %v", counts, order)
	}
	// When all tasks are held back, the skill still draws.
	for range 40 {
		d := b.Next()
		if err := b.Observe(d, 1); err != nil {
			t.Fatal(err)
		}
		done(t, b, d, NoSignal)
	}
}

func TestCurriculumOffByDefault(t *testing.T) {
	b := newBuffer(t, config(map[string]float64{"a": 1}, 2))
	for range 20 {
		d := b.Next()
		if err := b.Observe(d, 0); err != nil {
			t.Fatal(err)
		}
		done(t, b, d, NoSignal)
	}
	if s := b.Shares()[0]; s.Benched != 0 || s.Epoch != 9 {
		t.Errorf("%+v", s)
	}
}
