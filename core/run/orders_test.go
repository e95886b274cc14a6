package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

func TestOrdersStandUntilTheFileChanges(t *testing.T) {
	const judge, mutants = "skills.repro.judge", "skills.unittest.config.mutants"
	command := func(key, value, file string) journal.Swap {
		return journal.Swap{By: journal.ByCommand, Outcome: journal.Accepted, Set: map[string]string{key: value}, File: map[string]string{key: file}}
	}
	refused := command(judge, "broken", "rules")
	refused.Outcome = journal.Refused
	unset := command(mutants, "6", "")
	delete(unset.File, mutants)
	byFile := func(key, value string) journal.Swap {
		return journal.Swap{By: journal.ByFile, Outcome: journal.Accepted, Set: map[string]string{key: value}}
	}
	for _, c := range []struct {
		name  string
		swaps []journal.Swap
		file  map[string]string
		want  []string
	}{
		{"none", nil, nil, nil},
		{"one", []journal.Swap{command(judge, `a "b"`, "rules")}, map[string]string{judge: "rules"}, []string{judge + `="a \"b\""`}},
		{"the file has changed", []journal.Swap{command(judge, "strict", "rules")}, map[string]string{judge: "other"}, nil},
		{"the key is gone from the file", []journal.Swap{command(judge, "strict", "rules")}, nil, nil},
		{"the key never was in the file", []journal.Swap{unset}, map[string]string{judge: "rules"}, []string{mutants + `="6"`}},
		{"the later one", []journal.Swap{command(judge, "a", "rules"), command(judge, "b", "rules")}, map[string]string{judge: "rules"}, []string{judge + `="b"`}},
		{"refused", []journal.Swap{command(judge, "a", "rules"), refused}, map[string]string{judge: "rules"}, []string{judge + `="a"`}},
		{"the file has changed and changed back", []journal.Swap{command(judge, "a", "rules"), byFile(judge, "other"), byFile(judge, "rules")}, map[string]string{judge: "rules"}, nil},
		{"the file has changed elsewhere", []journal.Swap{command(judge, "a", "rules"), byFile(mutants, "3")}, map[string]string{judge: "rules", mutants: "3"}, []string{judge + `="a"`}},
	} {
		if got := settings(stand(ordersOf(c.swaps), c.file)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// named is an evaluator and a judge that is nothing but its digest.
type named string

func (n named) Digest() string { return string(n) }

func (named) Evaluate(context.Context, sdk.Host, *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	return nil, errors.New("not for use")
}

func (named) Judge(context.Context, sdk.Host, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return nil, errors.New("not for use")
}

// What changed between two processes of a run is written down once.
func TestChangesWhileNobodyWorked(t *testing.T) {
	b, err := buffer.New(buffer.Config{Seed: 1, Skills: []buffer.Skill{{Name: "a", Weight: 1, Tasks: []string{"a/1", "a/2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.Next()
	}
	k := newSkill(&Binding{Skill: "a", Scorer: &scoring.Scorer{Evaluator: named("sha256:e2"), Judge: named("sha256:j3")}}, 1)
	s := setup(nil, 0, nil, k)
	s.Config.Skills = []config.Skill{{Name: "a", Plugin: "plugins/a", Judge: "judges/j"}}
	tr := &trainer{Setup: s, dir: journal.Dir(t.TempDir()), buffer: b}
	if err := tr.noteResumed(2); err != nil {
		t.Fatal(err)
	}
	if got, err := tr.dir.Swaps(); got != nil || err != nil {
		t.Fatalf("a new run: %v, %v", got, err)
	}
	// The evaluator was rebuilt in between. The judge's last swap held from group 9 on;
	// the process ended before group 5, and this one begins with group 4.
	if err := tr.dir.WriteFile("plugins.lock", []byte("a.evaluate sha256:e1\na.judge sha256:j3\n")); err != nil {
		t.Fatal(err)
	}
	accepted := journal.Swap{Skill: "a", Role: "judge", By: journal.ByCommand, Outcome: journal.Accepted}
	first, second := accepted, accepted
	first.Dispatch, first.From, first.To = 3, "sha256:j1", "sha256:j2"
	second.Dispatch, second.From, second.To = 9, "sha256:j2", "sha256:j3"
	if err := tr.dir.AddSwaps(first, second); err != nil {
		t.Fatal(err)
	}
	if err := tr.noteResumed(2); err != nil {
		t.Fatal(err)
	}
	if err := tr.noteResumed(2); err != nil { // killed before the lock was written
		t.Fatal(err)
	}
	if err := tr.dir.WriteFile("plugins.lock", tr.Lock()); err != nil {
		t.Fatal(err)
	}
	if err := tr.noteResumed(2); err != nil {
		t.Fatal(err)
	}
	got, err := tr.dir.Swaps()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range got[2:] {
		rows = append(rows, strings.Join([]string{r.Skill, r.Role, r.From, r.To, r.Ref, r.By, r.Outcome}, " "))
		if r.Dispatch != 4 || r.Step != 2 || r.Time.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	if d := cmp.Diff([]string{
		"a evaluate sha256:e1 sha256:e2 plugins/a resume accepted",
		"a judge sha256:j2 sha256:j3 judges/j resume accepted",
	}, rows); d != "" {
		t.Error(d)
	}
}

// A process that is killed after it stored a swap and before it wrote the lock leaves
// the old one; the swap is not written down again.
func TestSwapBeforeItsLock(t *testing.T) {
	b, err := buffer.New(buffer.Config{Seed: 1, Skills: []buffer.Skill{{Name: "a", Weight: 1, Tasks: []string{"a/1", "a/2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.Next()
	}
	k := newSkill(&Binding{Skill: "a", Scorer: &scoring.Scorer{Evaluator: named("sha256:e2")}}, 1)
	tr := &trainer{Setup: setup(nil, 0, nil, k), dir: journal.Dir(t.TempDir()), buffer: b}
	if err := tr.dir.WriteFile("plugins.lock", []byte("a.evaluate sha256:e1\n")); err != nil {
		t.Fatal(err)
	}
	if err := tr.dir.AddSwaps(journal.Swap{Skill: "a", Role: "evaluate", By: journal.ByCommand, Outcome: journal.Accepted,
		Dispatch: 2, From: "sha256:e1", To: "sha256:e2"}); err != nil {
		t.Fatal(err)
	}
	if err := tr.noteResumed(2); err != nil {
		t.Fatal(err)
	}
	if got, err := tr.dir.Swaps(); len(got) != 1 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A TOML that cannot be read for a moment, as the run begins, costs no order.
func TestOrdersOutliveAnUnreadableFile(t *testing.T) {
	dir := journal.Dir(t.TempDir())
	if err := dir.AddSwaps(journal.Swap{By: journal.ByCommand, Outcome: journal.Accepted, Set: map[string]string{"skills.a.judge": "strict"}, File: map[string]string{"skills.a.judge": "rules"}}); err != nil {
		t.Fatal(err)
	}
	s := setup(nil, 0, nil)
	s.Config.Skills = []config.Skill{{Name: "a", Plugin: "plugins/a", Judge: "strict"}}
	w, err := newSwapper(s, dir, func(...string) (*config.Config, error) { return nil, errors.New("half-written") }, func() int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	if got := settings(w.orders); !slices.Equal(got, []string{`skills.a.judge="strict"`}) {
		t.Errorf("%v", got)
	}
}
