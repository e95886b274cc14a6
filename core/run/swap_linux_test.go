package run

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/scoring/modeltest"
	"github.com/valence-rl/valence/sdk"
)

// world is a run of one skill whose TOML a test writes, without rollouts.
type world struct {
	*swapper
	text string // of [skills.repro], below the plugin
	told []string
}

func swapWorld(t *testing.T, sections string) *world {
	t.Helper()
	w := &world{text: `judge = "../../plugins/judges/rules"`}
	reload := func(sets ...string) (*config.Config, error) {
		return config.Parse("run.toml", fmt.Appendf(nil, `
[run]
name = "swapped"
[policy]
path = "none"
[async]
retries = 1
[[source]]
kind = "pocket"
count = 1
[skills.repro]
plugin = "../../plugins/repro"
%s
%s`, w.text, sections), sets)
	}
	cfg, err := reload()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg, Options{Observe: func(e Event) {
		if e.Kind == Warned || e.Kind == Swapped {
			w.told = append(w.told, e.Text)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.swapper, err = newSwapper(s, journal.Dir(t.TempDir()), reload, func() int { return 1 }); err != nil {
		t.Fatal(err)
	}
	return w
}

// rows are the outcomes written down so far.
func (w *world) rows(t *testing.T) []string {
	t.Helper()
	swaps, err := w.dir.Swaps()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range swaps {
		out = append(out, s.Role+" "+s.Outcome)
	}
	return out
}

// What is asked for together is stored and installed together, or not at all.
func TestSwapOfTwoSkills(t *testing.T) {
	a, b := newSkill(&Binding{Skill: "a"}, 1), newSkill(&Binding{Skill: "b"}, 1)
	w := &swapper{Setup: setup(nil, 0, nil, a, b), dir: journal.Dir(t.TempDir()), step: func() int { return 3 }}
	first, second := &Binding{Skill: "a"}, &Binding{Skill: "b"}
	ready := []candidate{{a, first, []journal.Swap{{Skill: "a"}}}, {b, second, []journal.Swap{{Skill: "b"}}}}
	b.begin(7)
	full := w.dir.Path("swaps.jsonl") // a folder in its place
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.install(ready, nil); err == nil || a.Binding() == first || b.Binding() == second {
		t.Errorf("installed what is not stored: %v", err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if err := w.install(ready, nil); err != nil || a.Binding() != first || b.Binding() != second {
		t.Error(err)
	}
	swaps, err := w.dir.Swaps()
	if err != nil || len(swaps) != 2 || swaps[0].Skill != "a" || swaps[0].Dispatch != 0 || swaps[1].Dispatch != 7 || swaps[1].Step != 4 {
		t.Errorf("%+v, %v", swaps, err)
	}
}

// A swap that takes capabilities from a plugin, which stays the same by digest, is
// refused, and the run keeps what it has.
func TestSwapOfGrants(t *testing.T) {
	w := swapWorld(t, "")
	before := w.Skills[0].Binding()
	w.text += "\ngrants = [\"log\"]"
	w.fromFile(t.Context(), journal.ByFile)
	if w.Skills[0].Binding() != before {
		t.Error("the plugin serves without its capabilities")
	}
	if got := w.rows(t); !slices.Equal(got, []string{"evaluate refused"}) || len(w.told) != 1 || !strings.Contains(w.told[0], "capability") {
		t.Errorf("%v: %q", got, w.told)
	}
	if n := len(w.plugins.loaded); n != 2 {
		t.Errorf("%d plugins are loaded, want the old one and its judge", n)
	}
}

// A trial does not fail over what another attempt mends: the judge's model is asked
// again.
func TestTrialAsksAgain(t *testing.T) {
	for _, c := range []struct {
		failures int
		want     string
	}{{1, "judge accepted"}, {9, "judge refused"}} {
		server := modeltest.Recorded(t, func(n int, w http.ResponseWriter, _ map[string]any) {
			if n <= c.failures {
				http.Error(w, "no such model", http.StatusNotFound)
				return
			}
			modeltest.Says(w, verdict(true, 1))
		})
		w := swapWorld(t, at(server, ""))
		w.text = `judge = "../../plugins/judges/llm"`
		w.fromFile(t.Context(), journal.ByFile)
		if got := w.rows(t); !slices.Equal(got, []string{c.want}) || len(server.Requests()) != 2 {
			t.Errorf("%q after %d questions, want %s: %q", got, len(server.Requests()), c.want, w.told)
		}
	}
}

// What several load at once is loaded for all of them, and closed after the last.
func TestPluginsAreShared(t *testing.T) {
	w := swapWorld(t, "")
	bs := make([]*Binding, 4)
	var wg sync.WaitGroup
	for i := range bs {
		bs[i] = &Binding{}
		wg.Go(func() {
			if _, err := w.load(t.Context(), bs[i], "../../plugins/editing", "", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l := bs[0].plugins[0]
	if len(w.plugins.loaded) != 3 || l.users != len(bs) {
		t.Errorf("%d plugins are loaded, one of them for %d users", len(w.plugins.loaded), l.users)
	}
	for _, b := range bs {
		if b.plugins[0] != l {
			t.Error("a plugin is loaded twice")
		}
		b.release()
	}
	if len(w.plugins.loaded) != 2 {
		t.Errorf("%d plugins are left", len(w.plugins.loaded))
	}
}

// Swaps back and forth close the plugin before, and leave no process.
func TestSwapsLeaveNothingOpen(t *testing.T) {
	w := swapWorld(t, "")
	judge := w.text
	var children []int
	for range 3 {
		for _, transport := range []string{"process", "wasm"} {
			old := w.Skills[0].Binding().Plugin
			w.text = judge + fmt.Sprintf("\ntransport = %q", transport)
			w.fromFile(t.Context(), journal.ByFile)
			if got := w.Skills[0].Binding().Plugin.Transport(); got != transport {
				t.Fatalf("the plugin is a %s: %q", got, w.told)
			}
			w.plugins.closing.Wait()
			if _, err := old.Build(t.Context(), nil, &sdk.BuildRequest{}); err == nil {
				t.Error("the plugin before still serves")
			}
			if n := len(w.plugins.loaded); n != 2 || len(w.Skills[0].terms) != 1 {
				t.Errorf("%d plugins are loaded for %d bindings", n, len(w.Skills[0].terms))
			}
		}
		children = append(children, descendants(t))
	}
	if children[2] > children[0] {
		t.Errorf("%v processes after each round", children)
	}
	if got := w.rows(t); len(got) != 6 || slices.ContainsFunc(got, func(r string) bool { return r != "evaluate accepted" }) {
		t.Errorf("%q", got)
	}
}

// descendants counts this process's children that have not ended.
func descendants(t *testing.T) int {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range lists {
		b, _ := os.ReadFile(l) // of a thread that may have ended
		n += len(strings.Fields(string(b)))
	}
	return n
}
