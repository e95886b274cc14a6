package run

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// A model of a skill: which binding each group has, and which bindings may be
// released. The moves are those of a run under way.
func TestGroupsKeepTheirBinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := &Binding{Skill: "a"}
		k := newSkill(first, 1)
		upcoming := rapid.Int64Range(0, 5).Draw(t, "upcoming")
		k.begin(upcoming)
		var open []int64            // drawn, not ended
		has := map[int64]*Binding{} // begun
		since := map[*Binding]int64{first: upcoming}
		var holds []func()
		held := map[*Binding]int{}
		current := first
		pick := func() int64 { return open[rapid.IntRange(0, len(open)-1).Draw(t, "which")] }
		t.Repeat(map[string]func(*rapid.T){
			"draw": func(t *rapid.T) {
				upcoming += rapid.Int64Range(0, 2).Draw(t, "of other skills")
				k.drawn(upcoming)
				open = append(open, upcoming)
				upcoming++
			},
			"episode": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no group")
				}
				n := pick()
				b := k.of(n)
				if was := has[n]; was != nil && was != b {
					t.Fatalf("group %d has changed its binding", n)
				}
				has[n] = b
				if n < since[b] && b != first {
					t.Fatalf("group %d has a binding that serves from %d on", n, since[b])
				}
				for m, other := range has {
					if m < n && since[other] > since[b] {
						t.Fatalf("group %d has a newer binding than group %d", m, n)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no group")
				}
				n := pick()
				k.ended(n)
				open = slices.DeleteFunc(open, func(m int64) bool { return m == n })
			},
			"install": func(t *rapid.T) {
				b := &Binding{Skill: "a"}
				if err := k.install(b, func(first int64, _ bool) error { since[b] = first; return nil }); err != nil {
					t.Fatal(err)
				}
				for n := range has {
					if n >= since[b] {
						t.Fatalf("group %d has begun, the new binding serves from %d on", n, since[b])
					}
				}
				current = b
			},
			"install in vain": func(t *rapid.T) {
				if err := k.install(&Binding{}, func(int64, bool) error { return errors.New("disk full") }); err == nil {
					t.Fatal("no error")
				}
			},
			"hold": func(t *rapid.T) {
				b, let := k.hold()
				if b != current {
					t.Fatal("not the current binding")
				}
				held[b]++
				holds = append(holds, func() { held[b]--; let() })
			},
			"let": func(t *rapid.T) {
				if len(holds) == 0 {
					t.Skip("none held")
				}
				holds[0]()
				holds = holds[1:]
			},
			"": func(t *rapid.T) {
				if k.Binding() != current {
					t.Fatal("not the current binding")
				}
				alive := map[*Binding]bool{}
				for _, x := range k.terms {
					alive[x.Binding] = true
				}
				for _, n := range open {
					if b := has[n]; b != nil && !alive[b] {
						t.Fatalf("the binding of group %d is gone", n)
					}
				}
				for b, n := range held {
					if n > 0 && !alive[b] {
						t.Fatal("a binding is gone that is held")
					}
				}
				if len(open) == 0 && len(holds) == 0 && len(k.terms) != 1 {
					t.Fatalf("%d bindings are kept for nobody", len(k.terms))
				}
			},
		})
	})
}

// Episodes of one group that begin at the same time as a swap all get one binding.
func TestBindingsUnderConcurrency(t *testing.T) {
	k := newSkill(&Binding{Skill: "0"}, 1)
	const groups, episodes = 200, 8
	for n := range int64(groups) {
		k.drawn(n)
	}
	var wg sync.WaitGroup
	got := make([][episodes]*Binding, groups)
	for n := range groups {
		for i := range episodes {
			wg.Go(func() { got[n][i] = k.of(int64(n)) })
		}
	}
	firsts := []int64{0}
	for i := range 50 {
		err := k.install(&Binding{Skill: fmt.Sprint(i + 1)}, func(first int64, _ bool) error { firsts = append(firsts, first); return nil })
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if !slices.IsSorted(firsts) {
		t.Errorf("swaps hold from %v", firsts)
	}
	for n := range got {
		for _, b := range got[n] {
			var serves string
			for i, first := range firsts {
				if first <= int64(n) {
					serves = fmt.Sprint(i)
				}
			}
			if b != got[n][0] || b.Skill != serves {
				t.Fatalf("group %d: binding %s, want %s", n, b.Skill, serves)
			}
		}
		k.ended(int64(n))
	}
	if len(k.terms) != 1 {
		t.Errorf("%d bindings are kept", len(k.terms))
	}
}

// A swap is told whether its first group has been drawn already.
func TestInstallTellsWhetherItsGroupIsDrawn(t *testing.T) {
	k := newSkill(&Binding{Skill: "a"}, 1)
	told := func() (is bool) {
		if err := k.install(&Binding{Skill: "a"}, func(_ int64, drawn bool) error { is = drawn; return nil }); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if told() {
		t.Error("nothing has been drawn")
	}
	k.drawn(3)
	k.drawn(4)
	k.of(3)
	if !told() {
		t.Error("group 4 waits")
	}
	k.of(4)
	if told() {
		t.Error("every group has begun")
	}
}
