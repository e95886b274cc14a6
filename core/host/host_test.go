package host

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// module resolves a plugin of testdata. The caches are those of the user, as in a
// run: a plugin is built once, not once a test.
func module(t testing.TB, name string) *registry.Module {
	t.Helper()
	m, err := registry.Resolve(t.Context(), "testdata/"+name, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func load(t testing.TB, name string, o Options) *Plugin {
	t.Helper()
	p, err := Load(t.Context(), module(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// wild is the plugin that misbehaves, with all that it declares.
func wild(t testing.TB) *Plugin {
	return load(t, "wild", Options{Grants: []string{"sandbox", "judge", "log", "model"}, MemoryLimit: 128 << 20})
}

// services is a Services whose answers a test sets.
type services struct {
	run func(context.Context) (*sdk.RunResponse, error)
	ask func(context.Context) (*sdk.JudgeResponse, error)

	mu   sync.Mutex
	logs []string
}

func (s *services) Run(ctx context.Context, _ *sdk.RunRequest) (*sdk.RunResponse, error) {
	return s.run(ctx)
}

func (s *services) Ask(ctx context.Context, _ *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return s.ask(ctx)
}

func (*services) Model(context.Context, *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	panic("no plugin of these tests may get here")
}

func (s *services) Log(_ context.Context, level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, level+" "+text)
}

func evaluate(t testing.TB, p *Plugin, h Services, prompt string) (*sdk.Verdict, error) {
	return p.Evaluate(t.Context(), h, &sdk.EvaluateRequest{Task: sdk.Task{Key: "wild/1", Prompt: prompt}})
}

// wants checks kind and words of an error.
func wants(t *testing.T, err error, kind diag.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if k := diag.KindOf(err); k != kind {
		t.Errorf("kind %s, want %s: %v", k, kind, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in:\n%v", w, err)
		}
	}
}

func TestMinimal(t *testing.T) {
	p := load(t, "minimal", Options{})
	r, err := p.Build(t.Context(), nil, &sdk.BuildRequest{Record: sdk.Record{ID: "r1", Problem: "fix it"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tasks) != 1 || r.Tasks[0].Key != "minimal/r1" || r.Tasks[0].Prompt != "fix it" {
		t.Fatalf("%+v", r)
	}
	v, err := p.Evaluate(t.Context(), nil, &sdk.EvaluateRequest{Task: r.Tasks[0]})
	if err != nil || v.Score != 1 {
		t.Fatal(v, err)
	}
	_, err = p.Judge(t.Context(), nil, &sdk.JudgeRequest{})
	wants(t, err, diag.KindPlugin, "judge: minimal 0.1.0: plugin minimal does not offer the role judge")
	if m := p.Manifest(); p.String() != "minimal 0.1.0" || m.Licence != "Apache-2.0" || !strings.HasPrefix(p.Digest(), "sha256:") {
		t.Errorf("%v %+v %s", p, m, p.Digest())
	}
}

func TestLoadRefusesWhatIsNotGranted(t *testing.T) {
	_, err := Load(t.Context(), module(t, "wild"), Options{Grants: []string{"log", "judge"}})
	wants(t, err, diag.KindPlugin, "P009", `plugin "wild" needs capability "sandbox"`, "granted: log, judge", "testdata/wild/plugin.toml")
	if strings.Contains(err.Error(), `capability "log"`) {
		t.Errorf("also refuses what is granted: %v", err)
	}
}

func TestLoadComparesWithTheManifest(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*registry.Manifest)
		want   []string
	}{
		{"name", func(m *registry.Manifest) { m.Name = "maximal" }, []string{`plugin "maximal"`, `its name is "minimal", the manifest says "maximal"`}},
		{"version", func(m *registry.Manifest) { m.Version = "0.2.0" }, []string{`its version is "0.1.0", the manifest says "0.2.0"`, "rebuild"}},
		{"role too many", func(m *registry.Manifest) { m.Roles = append(m.Roles, "judge") }, []string{"its roles are build, evaluate, the manifest says build, evaluate, judge"}},
		{"role hidden", func(m *registry.Manifest) { m.Roles = []string{"build"} }, []string{"its roles are build, evaluate, the manifest says build"}},
		{"ABI", func(m *registry.Manifest) { m.ABI = 2 }, []string{"its ABI is skill_v1, the manifest says skill_v2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := module(t, "minimal")
			c.change(&m.Manifest)
			_, err := Load(t.Context(), m, Options{})
			wants(t, err, diag.KindPlugin, append(c.want, "P008", "testdata/minimal", m.Digest)...)
		})
	}
}

func TestLoadRefusesWhatIsNoSkill(t *testing.T) {
	m := module(t, "minimal")
	m.Wasm = []byte("\x00asm\x01\x00\x00\x00")
	_, err := Load(t.Context(), m, Options{})
	wants(t, err, diag.KindPlugin, "P013", "no export skill_v1_call")
	m.Wasm = m.Wasm[:5]
	_, err = Load(t.Context(), m, Options{})
	wants(t, err, diag.KindPlugin, "P013")
}

func TestLoadNeedsMoreMemoryThanGiven(t *testing.T) {
	_, err := Load(t.Context(), module(t, "minimal"), Options{MemoryLimit: 1 << 20})
	wants(t, err, diag.KindPlugin, "describe: minimal 0.1.0: start: ", "memory")
}

func TestLoadIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Load(ctx, module(t, "minimal"), Options{})
	wants(t, err, diag.KindInterrupted)
}

func TestRequire(t *testing.T) {
	p := load(t, "minimal", Options{})
	if err := p.Require("evaluate", "minimal", diag.Source{}); err != nil {
		t.Error(err)
	}
	err := p.Require("judge", "repro", diag.Source{File: "run.toml", Line: 19, Column: 1, Text: `judge = "minimal"`})
	want := `error[P007]: plugin "minimal" cannot serve as a judge
  needs capability  judge/v1
  plugin offers     build/v1, evaluate/v1 (minimal 0.1.0, testdata/minimal)
  required by       run.toml:19      [repro] judge = "minimal"`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	wants(t, err, diag.KindPlugin)
}

func TestBuild(t *testing.T) {
	var log strings.Builder
	p := load(t, "wild", Options{Grants: []string{"sandbox", "judge", "log"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	build := func(id string) (*sdk.BuildResponse, error) {
		return p.Build(t.Context(), nil, &sdk.BuildRequest{Record: sdk.Record{ID: id}})
	}
	// What a run offers, its judge apart, is offered to a builder too.
	made := 0
	h := &services{run: func(context.Context) (*sdk.RunResponse, error) {
		made++
		return &sdk.RunResponse{Logs: []sdk.Log{{}}}, nil
	}}
	if _, err := p.Build(t.Context(), h, &sdk.BuildRequest{Record: sdk.Record{ID: "sandbox"}}); err == nil || made != 1 {
		t.Errorf("%d sandboxes, error %v", made, err)
	}
	if r, err := build("skip"); err != nil || r.Skipped != "no such luck" {
		t.Error(r, err)
	}
	if r, err := build("log"); err != nil || r.Tasks[0].Key != "wild/log" || !strings.Contains(log.String(), "level=WARN msg=\"a word while building\"") {
		t.Error(r, err, log.String())
	}
	for id, want := range map[string]string{
		"nothing": "neither a task nor a reason",
		"no key":  "task 2 of 2 has no key",
		"twice":   `two tasks have the key "a"`,
		"sandbox": "capability sandbox: not offered while tasks are built",
	} {
		r, err := build(id)
		wants(t, err, diag.KindPlugin, "build: wild 1.2.3: "+id, want)
		if r != nil {
			t.Errorf("%s: an answer beside the error: %+v", id, r)
		}
	}
}

func TestJudge(t *testing.T) {
	p := wild(t)
	r, err := p.Judge(t.Context(), nil, &sdk.JudgeRequest{Issue: "i", Before: sdk.Log{Output: "boom"}})
	if err != nil || !r.Verdict || r.Confidence != 0.75 || r.Rationale != "boom" {
		t.Error(r, err)
	}
	_, err = p.Judge(t.Context(), nil, &sdk.JudgeRequest{Issue: "sure"})
	wants(t, err, diag.KindPlugin, "the answer makes no sense: confidence is 2, want 0 to 1")
}
