package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// The tests of this package play whole episodes: real sandboxes, the plugins as
// WASM, real test runs. Only the policy is scripted.

func TestMain(m *testing.M) {
	if local.Init() {
		return
	}
	code := m.Run()
	if err := stage.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// theatre is what all tests share, opened by the first that needs it: making a
// driver and loading plugins takes longer than most tests.
type theatre struct {
	mu      sync.Mutex
	dir     string
	driver  *local.Driver
	pids    pids
	plugins map[string]*host.Plugin
}

var stage = &theatre{plugins: map[string]*host.Plugin{}, pids: pids{of: map[string]int{}}}

func (th *theatre) close() error {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, p := range th.plugins {
		if err := p.Close(); err != nil {
			return err
		}
	}
	if th.driver == nil {
		return nil
	}
	if err := th.driver.Close(); err != nil {
		return err
	}
	return os.RemoveAll(th.dir)
}

// limits are small enough for a busy machine, and deadlines long enough for it.
var limits = sandbox.Limits{Memory: 256 << 20, Disk: 64 << 20, Command: time.Minute, Create: time.Minute}

func sandboxes(t testing.TB) *local.Driver {
	t.Helper()
	stage.mu.Lock()
	defer stage.mu.Unlock()
	if stage.driver == nil {
		dir, err := os.MkdirTemp("", "valence-run-*")
		if err != nil {
			t.Fatal(err)
		}
		d, err := local.New(local.Options{Dir: dir, Defaults: limits, Log: slog.New(&stage.pids)})
		if err != nil {
			t.Fatal(err)
		}
		stage.dir, stage.driver = dir, d
	}
	return stage.driver
}

// plugin loads a plugin from its folder.
func plugin(t testing.TB, folder string, grants ...string) *host.Plugin {
	t.Helper()
	stage.mu.Lock()
	defer stage.mu.Unlock()
	if p := stage.plugins[folder]; p != nil {
		return p
	}
	m, err := registry.Resolve(context.Background(), filepath.Join("..", "..", folder), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if grants == nil {
		grants = m.Manifest.Capabilities
	}
	p, err := host.Load(context.Background(), m, host.Options{Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	stage.plugins[folder] = p
	return p
}

// skillOn is a skill of the repository whose evaluator uses driver.
func skillOn(t testing.TB, driver sandbox.Driver, name string) *Skill {
	t.Helper()
	p := plugin(t, "plugins/"+name)
	return newSkill(&Binding{Skill: name, Plugin: p, Eval: map[string][]*sdk.Task{}, Scorer: &scoring.Scorer{
		Skill: name, Evaluator: p, Judge: plugin(t, "plugins/judges/rules"),
		Runner: scoring.Sandboxes{Driver: driver, Limits: limits}, Timeout: 5 * time.Minute,
	}}, 0)
}

func playerOn(driver sandbox.Driver) *Player {
	return &Player{Driver: driver, Limits: limits, Rollout: rollout.Options{MaxSteps: 20, Timeout: 2 * time.Minute}}
}

// The hand-made records.
const (
	clamp  = iota // one function wrong; shop.py
	cart          // two files wrong; store/cart.py and store/price.py
	lookup        // an exception, and a test that is visible; names.py
)

func recordOf(n int) sdk.Record { return sdktest.Records()[n] }

// task builds the task of a hand-made record. Seeds only matter to a review,
// whose label they draw.
func task(t testing.TB, k *Skill, n int, seed uint64) *sdk.Task {
	t.Helper()
	res, err := k.Binding().Plugin.Build(t.Context(), nil, &sdk.BuildRequest{Record: recordOf(n), Template: "full", Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Tasks) != 1 {
		t.Fatalf("%s of record %d: %d tasks, skipped: %s", k.Name, n, len(res.Tasks), res.Skipped)
	}
	return &res.Tasks[0]
}

// labelled is a review whose candidate has the label given.
func labelled(t testing.TB, k *Skill, n int, correct bool) *sdk.Task {
	t.Helper()
	for seed := range uint64(64) {
		tk := task(t, k, n, seed)
		rec, err := grade.Reveal(tk)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Candidates[0].Correct == correct {
			return tk
		}
	}
	t.Fatal("no seed draws the label")
	return nil
}

// scripted is a policy that plays turns.
func scripted(turns ...policy.Turn) policy.Policy {
	return policy.NewScripted("scripted", func(*sdk.Task, uint64) []policy.Turn { return turns })
}

func bash(command string) policy.Turn {
	return policy.Turn{Call: &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": command}}}
}

func create(path, text string) policy.Turn {
	return edit(map[string]string{"command": "create", "path": path, "file_text": text})
}

func replace(path, old, new string) policy.Turn {
	return edit(map[string]string{"command": "replace", "path": path, "old_str": old, "new_str": new})
}

func edit(arguments map[string]string) policy.Turn {
	return policy.Turn{Call: &policy.Call{Tool: policy.ToolStrReplace, Arguments: arguments}}
}

func say(text string) policy.Turn { return policy.Turn{Text: text} }

// play plays one episode that the infrastructure must carry to its verdict.
func play(t testing.TB, k *Skill, tk *sdk.Task, turns ...policy.Turn) *Played {
	t.Helper()
	e, err := playerOn(sandboxes(t)).Play(t.Context(), scripted(turns...), k.Binding(), tk, t.Name(), 1)
	if err != nil {
		t.Fatalf("an episode must end in a score whatever the policy does: %v", err)
	}
	if e.Outcome != journal.Scored {
		t.Fatalf("outcome %q", e.Outcome)
	}
	return e
}

// said gives the answers to an episode's calls.
func said(e *Played) string {
	var b strings.Builder
	for _, turn := range e.Trajectory.Turns {
		b.WriteString(turn.Observation + "\n")
	}
	return b.String()
}

// pids reads the process ids of sandboxes from the driver's log.
type pids struct {
	mu sync.Mutex
	of map[string]int // newest sandbox of a name → its first process
}

func (p *pids) Enabled(context.Context, slog.Level) bool { return true }

func (p *pids) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "sandbox made" {
		return nil
	}
	name, pid := "", 0
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "sandbox":
			name = a.Value.String()
		case "pid":
			pid = int(a.Value.Int64())
		}
		return true
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[name] = pid
	return nil
}

func (p *pids) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p *pids) WithGroup(string) slog.Handler      { return p }

func (p *pids) get(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[name]
}
