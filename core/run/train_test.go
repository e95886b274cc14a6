package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/buffer"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// tinyPolicy writes the smallest policy there can be and gives its folder.
func tinyPolicy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tok, err := chat.Train(slices.Values([]string{"def f(x):\n    return x\n"}), 300, 128)
	if err != nil {
		t.Fatal(err)
	}
	if err := gorgonia.Create(dir, gorgonia.Config{
		Vocab: tok.Size(), Hidden: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 8, Intermediate: 8, MaxContext: 128,
		RopeTheta: 10000, RMSEps: 1e-6, BOS: -1, EOS: -1, Pad: -1,
	}, 1); err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inTurn is an evaluator that scores 1 and 0 in turn.
type inTurn struct {
	mu sync.Mutex
	n  int
}

func (*inTurn) Digest() string { return "sha256:in-turn" }

func (v *inTurn) Evaluate(context.Context, sdk.Host, *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	return &sdk.Verdict{Score: float64(v.n % 2)}, nil
}

// dying is a driver that refuses the sandboxes of the episodes named, so often.
type dying struct {
	sandbox.Driver
	mu    sync.Mutex
	times map[string]int
}

func (d *dying) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.times[spec.Name] > 0 {
		d.times[spec.Name]--
		return nil, diag.Errorf(diag.KindSandbox, "create sandbox", spec.Name, "no room")
	}
	return d.Driver.Create(ctx, spec)
}

// training is a Setup that trains on one task with an evaluator of its own.
func training(t *testing.T, d sandbox.Driver, steps, size int) *Setup {
	t.Helper()
	k := skillOn(t, d, "editing")
	k.Weight = 1
	b := k.Binding()
	b.Scorer.Evaluator = &inTurn{}
	b.Train = []*sdk.Task{{Key: "editing/one", Skill: "editing", Prompt: "go", Workspace: recordOf(clamp).Workspace}}
	s := setup(d, 1, nil, k)
	s.Config.Run = config.Run{Name: "tiny", Seed: 1, Steps: steps, Dir: t.TempDir()}
	s.Config.Policy = config.Policy{Path: tinyPolicy(t), MaxContext: 128, Threads: 1, Temperature: 1, MaxTurnTokens: 8}
	s.Config.GRPO = config.GRPO{Preset: "grpo++", GroupSize: size, GroupsPerStep: 1, LearningRate: 0.01, InnerEpochs: 1, Filter: []string{}}
	s.Player.Rollout.MaxSteps, s.Player.Rollout.MaxTurnTokens, s.Player.Rollout.Temperature = 2, 8, 1
	b.Eval["eval"] = b.Train
	s.Config.Eval.Runs = 1
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// An episode that the infrastructure loses leaves its group; the others are
// compared as if it had never been, and it is told of as lost.
func TestTrainingExcludesLostEpisodes(t *testing.T) {
	// Episode 1 of the first group fails for good, episode 2 once.
	d := &dying{Driver: sandboxes(t), times: map[string]int{"000000-1": 2, "000000-2": 1}}
	s := training(t, d, 1, 3)
	lost, err := s.Train(t.Context(), TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := journal.Dir(filepath.Join(s.Config.Run.Dir, "tiny"))
	steps, err := dir.Steps()
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps: %v", len(steps), err)
	}
	m := steps[0]
	k := m.Skills["editing"]
	if lost != 1 || k.Excluded != 1 || k.Episodes != 2 || k.Groups != 1 || m.Errors["sandbox"] != 3 || m.Fates["trained"] != 1 || m.Version != 1 {
		t.Errorf("lost %d, step %+v, skill %+v", lost, m, k)
	}
	type row struct {
		Outcome           string
		Attempt           int
		Score             float64
		Advantage, Reward float64
	}
	got := map[int][]row{}
	for e, err := range dir.Episodes(1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Fate != "trained" {
			t.Errorf("%s: fate %q", e.ID, e.Fate)
		}
		got[e.Index] = append(got[e.Index], row{e.Outcome, e.Attempt, e.Score, e.Advantage, e.Reward})
	}
	for i := range got {
		slices.SortFunc(got[i], func(a, b row) int { return a.Attempt - b.Attempt })
	}
	// The two that are left are compared with each other: ±2.
	first, third := got[0][0].Score, got[2][len(got[2])-1].Score
	if first+third != 1 {
		t.Fatalf("scores %g and %g", first, third)
	}
	side := func(score float64) row { return row{journal.Scored, 0, score, 4*score - 2, 2*score - 1} }
	retried := side(third)
	retried.Attempt = 1
	if diff := cmp.Diff(map[int][]row{
		0: {side(first)},
		1: {{Outcome: "sandbox"}, {Outcome: "sandbox", Attempt: 1}},
		2: {{Outcome: "sandbox"}, retried},
	}, got); diff != "" {
		t.Errorf("episodes (-want +got):\n%s", diff)
	}
	state, ok, err := dir.State()
	if err != nil || !ok || !state.Done || state.Step != 1 || state.Fates["trained"] != 1 {
		t.Errorf("state %+v, %v", state, err)
	}
}

// A group with fewer than two scores is dropped with the kind of what failed, and
// the step trains on another.
func TestTrainingDropsGroupsThatFailed(t *testing.T) {
	d := &dying{Driver: sandboxes(t), times: map[string]int{"000000-1": 2}}
	s := training(t, d, 1, 2)
	lost, err := s.Train(t.Context(), TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := journal.Dir(filepath.Join(s.Config.Run.Dir, "tiny"))
	steps, err := dir.Steps()
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps: %v", len(steps), err)
	}
	m := steps[0]
	failed := string(buffer.Failed(diag.KindSandbox))
	if lost != 1 || m.Fates[failed] != 1 || m.Fates["trained"] != 1 || m.Skills["editing"].Excluded != 1 {
		t.Errorf("lost %d, fates %v, skill %+v", lost, m.Fates, m.Skills["editing"])
	}
}

// When nothing but failures comes, the run ends with their kind.
func TestTrainingGivesUp(t *testing.T) {
	always := map[string]int{}
	for dispatch := range 8 {
		for i := range 2 {
			always[fmt.Sprintf("%06d-%d", dispatch, i)] = 99
		}
	}
	s := training(t, &dying{Driver: sandboxes(t), times: always}, 1, 2)
	if _, err := s.Train(t.Context(), TrainOptions{}); diag.KindOf(err) != diag.KindSandbox {
		t.Errorf("got %v", err)
	}
}

// What a step's sum of lost episodes is made of.
func TestStaleEpisodesAreNotLost(t *testing.T) {
	m := journal.Step{Skills: map[string]*journal.SkillStep{"a": {Ends: map[string]int{}}}}
	describe(&m, []group{{nil, nil}}, func(int) string { return "a" })
	if k := m.Skills["a"]; k.Excluded != 0 || k.Groups != 1 {
		t.Errorf("%+v", k)
	}
}

func TestRunDirectoryIsLocked(t *testing.T) {
	dir := journal.Dir(filepath.Join(t.TempDir(), "a", "run"))
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); diag.KindOf(err) != diag.KindConfig {
		t.Errorf("a second holder: %v", err)
	}
	unlock()
	again, err := lock(dir)
	if err != nil {
		t.Fatalf("after it was let go of: %v", err)
	}
	again()
}

// checkpointed is a trainer that can write checkpoints and nothing else.
func checkpointed(t *testing.T, every int) *trainer {
	t.Helper()
	s := setup(nil, 0, nil)
	s.Config.Policy = config.Policy{Path: tinyPolicy(t), MaxContext: 128, Threads: 1}
	s.Config.Eval.Every = every
	m, err := s.OpenModel("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b, err := buffer.New(buffer.Config{Seed: 1, Skills: []buffer.Skill{{Name: "a", Weight: 1, Tasks: []string{"a/1", "a/2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &trainer{Setup: s, dir: journal.Dir(t.TempDir()), model: m, buffer: b}
}

func TestCheckpoints(t *testing.T) {
	tr := checkpointed(t, 2)
	if _, ok, err := newest(tr.dir); ok || err != nil {
		t.Errorf("an empty run has a state: %t, %v", ok, err)
	}
	for step := 1; step <= 5; step++ {
		if err := tr.checkpoint(step); err != nil {
			t.Fatal(err)
		}
		s, ok, err := newest(tr.dir)
		if err != nil || !ok || s.Step != step || s.Checkpoint != step || len(s.Buffer) == 0 {
			t.Fatalf("step %d: %+v, %t, %v", step, s, ok, err)
		}
		if sum, err := fileDigest(filepath.Join(tr.dir.CheckpointDir(step), "model.safetensors")); err != nil || sum != s.Weights {
			t.Errorf("step %d: weights %s, noted %s, %v", step, sum, s.Weights, err)
		}
	}
	// The two newest, and those that were measured.
	if ns, err := checkpoints(tr.dir); err != nil || !slices.Equal(ns, []int{2, 4, 5}) {
		t.Errorf("kept %v, %v", ns, err)
	}
	if _, err := tr.OpenModel(tr.dir.CheckpointDir(5)); err != nil {
		t.Errorf("a checkpoint is no policy: %v", err)
	}
	// A checkpoint of the same step takes the place of the one before.
	if err := tr.checkpoint(5); err != nil {
		t.Error(err)
	}
	names, err := os.ReadDir(tr.dir.Path("checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			t.Errorf("left behind: %s", n.Name())
		}
	}
}

func TestPruneWithoutMeasuring(t *testing.T) {
	tr := checkpointed(t, 0)
	for step := 1; step <= 3; step++ {
		if err := tr.checkpoint(step); err != nil {
			t.Fatal(err)
		}
	}
	if ns, err := checkpoints(tr.dir); err != nil || !slices.Equal(ns, []int{2, 3}) {
		t.Errorf("kept %v, %v", ns, err)
	}
}

// What a kill leaves behind is no checkpoint.
func TestHalfCheckpointsDoNotCount(t *testing.T) {
	dir := journal.Dir(t.TempDir())
	for name, file := range map[string]string{"000003": "model.safetensors", ".new-12": "state.json", "notes": "state.json"} {
		at := dir.Path("checkpoints", name)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, file), []byte("{}"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if ns, err := checkpoints(dir); err != nil || len(ns) != 0 {
		t.Errorf("got %v, %v", ns, err)
	}
	if err := journal.Dir(dir.CheckpointDir(2)).WriteJSON("state.json", journal.State{Step: 2, Checkpoint: 2}); err != nil {
		t.Fatal(err)
	}
	if s, ok, err := newest(dir); err != nil || !ok || s.Step != 2 {
		t.Errorf("got %+v, %t, %v", s, ok, err)
	}
	if err := os.WriteFile(filepath.Join(dir.CheckpointDir(2), "state.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newest(dir); diag.KindOf(err) != diag.KindData {
		t.Errorf("a state that cannot be read: %v", err)
	}
}
