package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/valence-rl/valence/core/data/pocket"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
	"github.com/valence-rl/valence/sdk/wire"
)

// TestTransportsAgree builds and scores tasks of every skill as a WASM module and
// as a process, and compares the answers byte by byte. Each task's output is once
// its reference and once nothing, that of every fourth also what another task wants.
//
// The module's commands are run; the process is given the same answers to the same
// questions, and must ask no others: what a sandbox prints, such as the time that
// tests took, may differ from run to run.
func TestTransportsAgree(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here, which the records' tests are written in")
	}
	agreed := 50 // tasks of each skill
	if testing.Short() {
		agreed = 4
	}
	for _, skill := range []struct {
		name, shape string
		settings    map[string]string
	}{
		{"localization", pocket.ShapeRepository, nil},
		{"editing", pocket.ShapeModule, nil},
		{"unittest", pocket.ShapeModule, map[string]string{"mutants": "3"}}, // each is a start of Python
		{"review", pocket.ShapeModule, nil},
		{"repro", pocket.ShapeModule, nil},
	} {
		t.Run(skill.name, func(t *testing.T) {
			items, err := pocket.Generate(t.Context(), python, pocket.Options{Seed: 7, Count: agreed, Split: pocket.SplitEval, Shape: skill.shape})
			if err != nil {
				t.Fatal(err)
			}
			module := &side{plugin: production(t, "../../plugins/"+skill.name, registry.WASM), answers: new(answers)}
			process := &side{plugin: production(t, "../../plugins/"+skill.name, registry.Process), answers: module.answers, replay: true}
			if skill.name == "repro" {
				module.judge = production(t, "../../plugins/judges/rules", registry.WASM)
				process.judge = production(t, "../../plugins/judges/rules", registry.Process)
			}
			config, err := module.plugin.source.Manifest.Settings(skill.settings)
			if err != nil {
				t.Fatal(err)
			}
			both := func(op string, method uint32, m wire.Message) []byte {
				in := wire.Marshal(m)
				a, aErr := module.call(t.Context(), op, method, in)
				b, bErr := process.call(t.Context(), op, method, in)
				if aErr != nil || bErr != nil {
					t.Errorf("%s: as WASM %v, as a process %v", op, aErr, bErr)
				} else if !bytes.Equal(a, b) {
					t.Errorf("%s: the answers differ\n%q\n%q", op, a, b)
				}
				return a
			}
			var tasks []sdk.Task
			for n, item := range items {
				var r sdk.BuildResponse
				out := both("build", wire.MethodBuild, &sdk.BuildRequest{Record: item.Record, Template: "brief", Config: config, Seed: uint64(n)})
				if err := wire.Unmarshal(out, &r); err != nil {
					t.Fatal(err)
				}
				tasks = append(tasks, r.Tasks...)
			}
			if len(tasks) < agreed {
				t.Fatalf("%d tasks, want %d", len(tasks), agreed)
			}
			tasks = tasks[:agreed]
			var mu sync.Mutex
			scores := map[float64]int{}
			var all errgroup.Group
			all.SetLimit(runtime.GOMAXPROCS(0))
			for n, task := range tasks {
				outputs := []sdk.Output{output(task), {End: "submitted"}}
				if n%4 == 0 {
					outputs = append(outputs, output(tasks[(n+1)%agreed]))
				}
				for k, out := range outputs {
					all.Go(func() error {
						var v sdk.Verdict
						q := &sdk.EvaluateRequest{Task: task, Output: out, Config: config, Seed: uint64(n)}
						if err := wire.Unmarshal(both("evaluate", wire.MethodEvaluate, q), &v); err != nil {
							return err
						}
						if k == 0 && v.Score != 1 {
							return fmt.Errorf("%s: the reference scores %v: %s", task.Key, v.Score, v.Reason)
						}
						mu.Lock()
						defer mu.Unlock()
						scores[v.Score]++
						return nil
					})
				}
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
			if scores[1] < agreed || scores[0] < agreed {
				t.Errorf("the outputs put nothing to the test: scores %v", scores)
			}
			if module.answers.missed > 0 {
				t.Errorf("the process asked %d questions that the module had not", module.answers.missed)
			}
		})
	}
}

// output is what a perfect agent leaves.
func output(t sdk.Task) sdk.Output {
	return sdk.Output{Changes: t.Reference.Changes, Message: t.Reference.Message, End: "submitted"}
}

// production loads a plugin that the project ships.
func production(t testing.TB, ref, as string) *Plugin {
	t.Helper()
	m, err := registry.Resolve(t.Context(), ref, registry.Options{Transport: as})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), m, Options{Grants: m.Manifest.Capabilities})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// python runs a generator's program.
func python(ctx context.Context, script string, stdin []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "python3", "-I", "-S", "-c", script)
	cmd.Stdin = bytes.NewReader(stdin)
	return cmd.Output()
}

// side is a plugin on one transport, with its services.
type side struct {
	plugin  *Plugin
	judge   *Plugin // nil: none
	answers *answers
	replay  bool // ask nobody; give what was answered before
}

// call gives the answer as it comes over the border.
func (s *side) call(ctx context.Context, op string, method uint32, in []byte) ([]byte, error) {
	g := gate{plugin: s.plugin, op: op, services: s}
	return s.plugin.module.Call(ctx, method, in, g.serve)
}

func (s *side) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	return s.answers.give(ctx, r, s.replay)
}

func (s *side) Ask(ctx context.Context, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return s.judge.Judge(ctx, nil, r)
}

func (*side) Model(context.Context, *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	return nil, errors.New("there is no model here")
}

func (*side) Log(context.Context, string, string) {}

// answers keeps what commands printed, by the question's bytes.
type answers struct {
	host sdktest.Host

	mu     sync.Mutex
	kept   map[[sha256.Size]byte]*sdk.RunResponse
	missed int // questions of a replay that nobody had asked
}

func (a *answers) give(ctx context.Context, r *sdk.RunRequest, replay bool) (*sdk.RunResponse, error) {
	key := sha256.Sum256(wire.Marshal(r))
	a.mu.Lock()
	res := a.kept[key]
	if res == nil && replay {
		a.missed++
	}
	a.mu.Unlock()
	if res != nil {
		return res, nil
	}
	res, err := a.host.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil {
		a.kept = make(map[[sha256.Size]byte]*sdk.RunResponse)
	}
	if a.kept[key] == nil {
		a.kept[key] = res
	}
	return a.kept[key], nil
}
