package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/transcript"
	"github.com/valence-rl/valence/sdk"
)

// still is a driver whose sandboxes do nothing and refuse the tries that fails names.
type still struct {
	fails func(name string) bool
}

func (d *still) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if d.fails != nil && d.fails(spec.Name) {
		return nil, diag.Errorf(diag.KindSandbox, "create sandbox", spec.Name, "no room")
	}
	return stillBox{}, nil
}
func (*still) Isolation() sandbox.Isolation { return sandbox.Isolation{} }
func (*still) Close() error                 { return nil }

type stillBox struct{}

func (stillBox) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{Output: []byte("ok")}, nil
}
func (stillBox) Read(context.Context, string, int64) ([]byte, error) { return nil, os.ErrNotExist }
func (stillBox) Write(context.Context, ...sdk.Change) error          { return nil }
func (stillBox) Diff(context.Context, int64) ([]sdk.Change, error)   { return nil, nil }
func (stillBox) Close() error                                        { return nil }

// byMessage is an evaluator that takes the agent's last word for it, and no last word
// for right.
type byMessage struct{}

func (byMessage) Digest() string { return "sha256:by-message" }

func (byMessage) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	v := &sdk.Verdict{Reason: r.Output.Message}
	if r.Output.Message == "" || strings.HasPrefix(r.Output.Message, "right") {
		v.Score = 1
	}
	return v, nil
}

// gathering is a set-up with two skills of so many records. The policy's word depends on
// the try's seed: right in one way or in another, wrong, or none.
func gathering(t *testing.T, d sandbox.Driver, records, width int) (*Setup, TrajectoryOptions) {
	t.Helper()
	var skills []*Skill
	for _, name := range []string{"editing", "repro"} {
		k := skillOn(t, d, name)
		k.Weight = 1
		k.Binding().Scorer.Evaluator = byMessage{}
		for i := range records {
			r := recordOf(clamp)
			r.ID = fmt.Sprintf("r%02d", i)
			k.records = append(k.records, record{&r, 1})
		}
		skills = append(skills, k)
	}
	s := setup(d, 1, nil, skills...)
	s.Config.Rollout.Concurrency = width
	s.Config.Rollout.Prompt = "full"
	s.Config.Policy = config.Policy{Temperature: 1}
	s.Player.Rollout.MaxSteps = 3
	p := policy.NewExpert("dicer", func(_ *sdk.Task, seed uint64) (policy.Script, error) {
		usage := &policy.Usage{Prompt: 90, Completion: 10, Cost: 0.5, Attempts: 1}
		turns := []policy.Turn{{Call: &policy.Call{ID: "c", Tool: "bash", Arguments: map[string]string{"command": "true"}}, Usage: usage}}
		switch seed % 4 {
		case 0:
			turns = append(turns, policy.Turn{Text: "right", Usage: usage})
		case 1:
			turns = append(turns, policy.Turn{Text: "right too", Usage: usage})
		case 2:
			turns = append(turns, policy.Turn{Text: "wrong", Usage: usage})
		case 3:
			turns = append(turns, turns[0], turns[0]) // three turns, and no last word
		}
		next := -1
		return func(string) (policy.Turn, error) { next++; return turns[next], nil }, nil
	})
	return s, TrajectoryOptions{Policy: p, Out: filepath.Join(t.TempDir(), "out"), PerSkill: 11, Tries: 8}
}

func keptIDs(t *testing.T, out string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "*.episodes.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range files {
		for e, err := range journal.ReadEpisodes(f) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Score != 1 || e.End != "submitted" {
				t.Errorf("kept: %+v", e)
			}
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// What is kept does not depend on how many are under way at once, nor on how often the
// work was killed; and each try is counted as one thing.
func TestGatheringRepeats(t *testing.T) {
	s, o := gathering(t, &still{}, 9, 1)
	want, err := s.Gather(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ids := keptIDs(t, o.Out)
	for _, k := range want.Skills {
		if k.Kept != 11 || k.Short() || k.Wrong == 0 || k.Unfinished == 0 || k.Duplicate == 0 || k.Tasks != 9 ||
			k.Kept+k.Wrong+k.Unfinished+k.Duplicate+k.Spare+k.Excluded != k.Tried {
			t.Errorf("%+v", k)
		}
	}
	if len(ids) != 22 {
		t.Fatal(ids)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 4 {
		width := 1 + rng.IntN(8)
		s, o := gathering(t, &still{}, 9, width)
		kills := 0
		for {
			ctx, kill := context.WithCancel(t.Context())
			after := 1 + rng.IntN(12)
			o.Heard = func(Gathering) {
				if after--; after == 0 {
					kill()
				}
			}
			_, err := s.Gather(ctx, o)
			kill()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			kills++
			truncate(t, rng, o.Out)
		}
		if d := cmp.Diff(ids, keptIDs(t, o.Out)); d != "" {
			t.Errorf("width %d, %d kills: %s", width, kills, d)
		}
		seen := map[string]bool{}
		for _, k := range s.Skills {
			for e, err := range journal.ReadEpisodes(filepath.Join(o.Out, "tries", k.Name+".episodes.jsonl.zst")) {
				if err != nil || seen[e.ID] {
					t.Fatalf("%s: a second time %t, %v", e.ID, seen[e.ID], err)
				}
				seen[e.ID] = true
			}
		}
		if round == 0 && kills == 0 {
			t.Error("nothing was killed")
		}
	}
}

// truncate takes some of the last bytes of a log away, as a kill in a write does.
func truncate(t *testing.T, rng *rand.Rand, out string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "tries", "*.zst"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	path := files[rng.IntN(len(files))]
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, max(0, info.Size()-int64(rng.IntN(40)))); err != nil {
		t.Fatal(err)
	}
}

// What the infrastructure fails is tried again, counted, excluded at last, and tried anew
// by the next call; it is never a wrong answer.
func TestGatheringExcludesLostTries(t *testing.T) {
	const once, always = "trajectory-editing/r00-0", "trajectory-repro/r01-0"
	var mu sync.Mutex
	broken, asked := true, map[string]int{}
	d := &still{fails: func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[name]++
		return name == once && asked[name] == 1 || name == always && broken
	}}
	s, o := gathering(t, d, 4, 2)
	o.PerSkill, o.Tries = 100, 1
	var states []string
	o.Heard = func(g Gathering) { states = append(states, g.State) }
	got, err := s.Gather(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e, r := got.Skills[0], got.Skills[1]
	if e.Excluded != 0 || e.Failed["sandbox"] != 1 || e.Tried != 4 || !e.Short() {
		t.Errorf("%+v", e)
	}
	if r.Excluded != 1 || r.Failed["sandbox"] != 2 || r.Tried != 4 || r.Kept+r.Wrong+r.Unfinished+r.Duplicate != 3 {
		t.Errorf("%+v", r)
	}
	if n := len(slices.DeleteFunc(states, func(s string) bool { return s != "failed" })); n != 3 {
		t.Errorf("told of %d failures", n)
	}
	mu.Lock()
	broken = false
	before := asked["trajectory-editing/r01-0"]
	mu.Unlock()
	if got, err = s.Gather(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if r := got.Skills[1]; r.Excluded != 0 || r.Failed["sandbox"] != 2 || r.Tried != 4 {
		t.Errorf("%+v", r)
	}
	if asked["trajectory-editing/r01-0"] != before {
		t.Error("a try that has a verdict was played again")
	}
}

// Where everything fails, it does not go through all tasks.
func TestGatheringGivesUp(t *testing.T) {
	n := 0
	var mu sync.Mutex
	s, o := gathering(t, &still{fails: func(string) bool { mu.Lock(); defer mu.Unlock(); n++; return true }}, 60, 2)
	_, err := s.Gather(t.Context(), o)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "8 tries failed in a row") && !strings.Contains(err.Error(), "9 tries failed in a row") {
		t.Error(err)
	}
	if n > 2*10 {
		t.Errorf("%d attempts", n)
	}
}

func TestBudget(t *testing.T) {
	for _, b := range []Budget{{Tokens: 5000}, {Cost: 25}} { // an episode takes 200 or 300 tokens, 1 or 1.5 dollars
		s, o := gathering(t, &still{}, 40, 4)
		s.Config.Server.OutputPrice = 1
		o.Budget = b
		got, err := s.Gather(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Stopped != StoppedByBudget || got.Tokens > 5000+400 || got.Tokens < 4000 || got.Cost*200 != float64(got.Tokens) {
			t.Errorf("%v: %+v", b, got)
		}
		// What was spent counts when it goes on.
		again, err := s.Gather(t.Context(), o)
		if err != nil || again.Tokens != got.Tokens || again.Stopped == "" {
			t.Errorf("%v: %+v, %v", b, again, err)
		}
		o.Budget = Budget{}
		if more, err := s.Gather(t.Context(), o); err != nil || more.Stopped != "" || more.Skills[0].Short() {
			t.Errorf("%v: %+v, %v", b, more, err)
		}
	}
	s, o := gathering(t, &still{}, 1, 1)
	o.Budget.Cost = 1
	if _, err := s.Gather(t.Context(), o); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "a budget in money needs prices") {
		t.Error(err)
	}
}

// A folder holds tries of one policy under one set of circumstances.
func TestGatheringDoesNotMix(t *testing.T) {
	s, o := gathering(t, &still{}, 3, 1)
	o.Skills, o.Tries = []string{"repro"}, 1
	got, err := s.Gather(t.Context(), o)
	if err != nil || len(got.Skills) != 1 || got.Skills[0].Name != "repro" {
		t.Fatalf("%+v, %v", got, err)
	}
	s.Config.Policy.Temperature = 0.5
	_, err = s.Gather(t.Context(), o)
	if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "policy.temperature: was 1, is 0.5") || strings.Contains(err.Error(), "seed") {
		t.Error(err)
	}
	o.Skills = []string{"repo"}
	if _, err := s.Gather(t.Context(), o); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "repo: no such skill to train; there are editing, repro") {
		t.Error(err)
	}
}

// The first interrupt lets what is under way end, and keeps it.
func TestGatheringDrains(t *testing.T) {
	s, o := gathering(t, &still{}, 9, 3)
	drain := make(chan struct{})
	o.Drain = drain
	n := 0
	o.Heard = func(Gathering) {
		if n++; n == 5 {
			close(drain)
		}
	}
	_, err := s.Gather(t.Context(), o)
	if diag.KindOf(err) != diag.KindInterrupted {
		t.Fatal(err)
	}
	stored := 0
	for _, k := range s.Skills {
		for _, err := range journal.ReadEpisodes(filepath.Join(o.Out, "tries", k.Name+".episodes.jsonl.zst")) {
			if err != nil {
				t.Fatal(err)
			}
			stored++
		}
	}
	if stored != n || n < 5 || n > 7 {
		t.Errorf("%d heard of, %d stored", n, stored)
	}
	files, err := transcript.Files(o.Out)
	if err != nil || len(files) == 0 {
		t.Errorf("what is kept so far: %v, %v", files, err)
	}
}

// some is a policy that plays some tasks only, as recordings do.
type some struct {
	policy.Policy
	key string
}

func (p some) Has(t *sdk.Task) bool { return t.Key == p.key }

func TestGatheringRecordings(t *testing.T) {
	s, o := gathering(t, &still{}, 30, 2)
	o.Policy = some{o.Policy, "repro/r17"}
	got, err := s.Gather(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if e, r := got.Skills[0], got.Skills[1]; e.Tried != 0 || r.Tasks != 1 || r.Tried != o.Tries {
		t.Errorf("%+v, %+v", e, r)
	}
}
