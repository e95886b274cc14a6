package run

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// began is the file by which a command says that it is under way.
const began = "/tmp/began"

// lethal is a driver whose sandboxes die while a command is under way that made
// the file [began]: their first process is killed, as a host out of memory would.
type lethal struct {
	sandbox.Driver

	mu    sync.Mutex
	lives map[string]int // sandboxes that may still die, by the name they are asked for
	made  int
}

func (d *lethal) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	kind := spec.Name
	d.made++
	spec.Name = fmt.Sprintf("%s#%d", spec.Name, d.made)
	d.mu.Unlock()
	b, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &mortal{Sandbox: b, driver: d, kind: kind, pid: stage.pids.get(spec.Name)}, nil
}

func (d *lethal) take(kind string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lives[kind] == 0 {
		return false
	}
	d.lives[kind]--
	return true
}

type mortal struct {
	sandbox.Sandbox
	driver *lethal
	kind   string
	pid    int
}

func (b *mortal) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	type ended struct {
		sandbox.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		r, err := b.Sandbox.Exec(ctx, c)
		done <- ended{r, err}
	}()
	for {
		var e ended
		over := false
		select {
		case e = <-done:
			over = true
		default:
		}
		if _, err := b.Read(ctx, began, 0); err == nil && b.driver.take(b.kind) {
			syscall.Kill(b.pid, syscall.SIGKILL)
			if !over {
				e = <-done
			}
			for e.err == nil { // the command was quicker; what follows it is not
				e.Result, e.err = b.Sandbox.Exec(ctx, c)
			}
			return e.Result, e.err
		}
		if over {
			return e.Result, e.err
		}
	}
}

// measuredOnce runs p once on the tasks of k, with one retry, and gives the failures that
// were counted as well.
func measuredOnce(t *testing.T, d sandbox.Driver, k *Skill, p policy.Policy) (journal.Eval, []journal.Episode, map[string]int) {
	t.Helper()
	var mu sync.Mutex
	var errors map[string]int
	s := setup(d, 1, func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == Finished {
			errors = maps.Clone(e.Errors)
		}
	}, k)
	ev, episodes := measured(t, s, p)
	return ev, episodes, errors
}

// setup is a Setup of skills whose tasks are those of the split "eval".
func setup(driver sandbox.Driver, retries int, observe func(Event), skills ...*Skill) *Setup {
	if observe == nil {
		observe = func(Event) {}
	}
	return &Setup{
		Config: &config.Config{Run: config.Run{Seed: 1}, Rollout: config.Rollout{Concurrency: 2}, Async: config.Async{Retries: retries}},
		Driver: driver, Player: playerOn(driver), Skills: skills,
		log: slog.New(slog.DiscardHandler), observe: observe,
	}
}

// slowScript is an answer of a repro task whose script stays under way.
const slowScript = "import time\nopen('" + began + "', 'w').close()\ntime.sleep(1000)\n"

func TestSandboxDeathIsNoScore(t *testing.T) {
	const rolling = "eval-000000-eval-repro-repro/hand-clamp-0" // the episode's sandbox
	honest := []policy.Turn{create("reproduce.py", "from shop import *\nassert clamp(3, 0, 2) == 2\n"), say("")}
	for _, c := range []struct {
		name    string
		kind    string // whose sandbox dies
		deaths  int
		turns   []policy.Turn
		outcome string
		score   float64
		attempt int
	}{
		{"rollout, always", rolling, 2, []policy.Turn{bash("touch " + began + "; sleep 1000"), say("")}, "sandbox", 0, 1},
		{"rollout, once", rolling, 1, append([]policy.Turn{bash("touch " + began)}, honest...), journal.Scored, 1, 1},
		{"evaluation, always", "run", 2, []policy.Turn{create("reproduce.py", slowScript), say("")}, "sandbox", 0, 1},
		{"evaluation, once", "run", 1, []policy.Turn{create("reproduce.py", "open('"+began+"', 'w').close()\nfrom shop import *\nassert clamp(3, 0, 2) == 2\n"), say("")}, journal.Scored, 1, 1},
		{"never", "run", 0, honest, journal.Scored, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &lethal{Driver: sandboxes(t), lives: map[string]int{c.kind: c.deaths}}
			k := skillOn(t, d, "repro")
			// A second task, beside the one that fails, is none the worse for it.
			dies, lives := task(t, k, clamp, 1), task(t, k, lookup, 1)
			k.Binding().Eval["eval"] = []*sdk.Task{dies, lives}
			p := policy.NewScripted("scripted", func(tk *sdk.Task, _ uint64) []policy.Turn {
				if tk.Key == dies.Key {
					return c.turns
				}
				return []policy.Turn{create("reproduce.py", "from names import lookup\nassert lookup('z') == ''\n"), say("")}
			})
			ev, episodes, errors := measuredOnce(t, d, k, p)
			e := episodes[0]
			if e.Outcome != c.outcome || e.Score != c.score || e.Attempt != c.attempt {
				t.Errorf("outcome %q, score %g, attempt %d: %s", e.Outcome, e.Score, e.Attempt, e.Error)
			}
			got := ev.Skills[0]
			if c.outcome == journal.Scored {
				if got.Excluded != 0 || len(got.Scores[0]) != 1 {
					t.Errorf("%+v", got)
				}
			} else {
				if got.Excluded != 1 || len(got.Scores[0]) != 0 {
					t.Errorf("an excluded episode must leave no score: %+v", got)
				}
				if e.Error == "" || e.Plugins != nil || e.Reason != "" {
					t.Errorf("an episode without a verdict: %+v", e)
				}
			}
			if len(got.Scores[1]) != 1 || got.Scores[1][0] != 1 {
				t.Errorf("the other task: %v: %s", got.Scores[1], episodes[1].Error)
			}
			if errors["sandbox"] != c.deaths || len(errors) > 1 {
				t.Errorf("failures were counted as %v, want %d", errors, c.deaths)
			}
		})
	}
}

// refusing is a driver that makes no sandbox for those names.
type refusing struct {
	sandbox.Driver
	name string
}

func (d refusing) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Name == d.name {
		return nil, diag.Errorf(diag.KindSandbox, "create sandbox", spec.Name, "no room")
	}
	return d.Driver.Create(ctx, spec)
}

func TestFailuresHaveTheKindOfTheirBoundary(t *testing.T) {
	d := sandboxes(t)
	wild := plugin(t, "core/host/testdata/wild", "sandbox", "judge", "log")
	evaluator := func(prompt string, timeout time.Duration) func(*Skill, *sdk.Task) {
		return func(k *Skill, tk *sdk.Task) {
			k.Binding().Scorer.Evaluator, k.Binding().Scorer.Timeout = wild, timeout
			tk.Prompt = prompt
		}
	}
	judged := func(issue string) func(*Skill, *sdk.Task) {
		return func(k *Skill, tk *sdk.Task) {
			k.Binding().Scorer.Judge = wild
			rec := recordOf(clamp)
			rec.Problem = issue
			res, err := k.Binding().Plugin.Build(t.Context(), nil, &sdk.BuildRequest{Record: rec, Template: "full"})
			if err != nil {
				t.Fatal(err)
			}
			*tk = res.Tasks[0]
		}
	}
	broken := policy.NewExpert("broken", func(*sdk.Task, uint64) (policy.Script, error) { return nil, fmt.Errorf("no answer") })
	silent := policy.NewExpert("silent", func(*sdk.Task, uint64) (policy.Script, error) {
		return func(string) (policy.Turn, error) { return policy.Turn{}, fmt.Errorf("no answer") }, nil
	})
	for _, c := range []struct {
		name   string
		want   diag.Kind
		change func(*Skill, *sdk.Task)
		policy policy.Policy
		driver sandbox.Driver
		end    string // of the rollout; default submitted
	}{
		{name: "judge panics", want: diag.KindJudge, change: judged("panic")},
		{name: "judge answers nonsense", want: diag.KindJudge, change: judged("sure")},
		{name: "evaluator panics", want: diag.KindPlugin, change: evaluator("panic", time.Minute)},
		{name: "evaluator exits", want: diag.KindPlugin, change: evaluator("exit", time.Minute)},
		{name: "evaluator fails", want: diag.KindPlugin, change: evaluator("error", time.Minute)},
		{name: "evaluator recurses", want: diag.KindPlugin, change: evaluator("recurse", time.Minute)},
		{name: "evaluator does not end", want: diag.KindPlugin, change: evaluator("loop", time.Second)},
		{name: "evaluator gives no verdict", want: diag.KindPlugin, change: evaluator("nil", time.Minute)},
		{name: "evaluator gives no number", want: diag.KindPlugin, change: evaluator("score NaN", time.Minute)},
		{name: "evaluator gives too much", want: diag.KindPlugin, change: evaluator("score 1.5", time.Minute)},
		{name: "no sandbox to evaluate in", want: diag.KindSandbox, driver: refusing{d, "run"}},
		{name: "no sandbox, told in other words", want: diag.KindSandbox, driver: refusing{d, "run"}, change: evaluator("run, own words", time.Minute)},
		{name: "no sandbox to roll out in", want: diag.KindSandbox, driver: refusing{d, "episode"}, end: "error"},
		{name: "policy does not open", want: diag.KindPolicy, policy: broken, end: "error"},
		{name: "policy does not answer", want: diag.KindPolicy, policy: silent, end: "error"},
		{name: "workspace is malformed", want: diag.KindData, change: func(_ *Skill, tk *sdk.Task) {
			tk.Workspace.Patches = []string{"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}
		}, end: "error"},
		{name: "hidden part is lost", want: diag.KindPlugin, change: func(_ *Skill, tk *sdk.Task) { tk.Hidden = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			driver := c.driver
			if driver == nil {
				driver = d
			}
			k := skillOn(t, driver, "repro")
			tk := task(t, k, clamp, 1)
			if c.change != nil {
				c.change(k, tk)
			}
			p := c.policy
			if p == nil {
				p = scripted(create("reproduce.py", "from shop import *\nassert clamp(3, 0, 2) == 2\n"), say(""))
			}
			e, err := playerOn(driver).Play(t.Context(), p, k.Binding(), tk, "episode", 1)
			if diag.KindOf(err) != c.want {
				t.Fatalf("kind %q, want %q: %v", diag.KindOf(err), c.want, err)
			}
			if e.Outcome != string(c.want) || e.Error != err.Error() || e.Score != 0 || e.Plugins != nil {
				t.Errorf("%+v", e.Episode)
			}
			if want := c.end; want != "" && e.End != want || want == "" && e.End != string(rollout.Submitted) {
				t.Errorf("end %q", e.End)
			}
		})
	}
}

// Whatever an agent does to its own sandbox, its episode ends in a score: failing
// on purpose is no way out of a 0.
func TestAgentCannotFailTheInfrastructure(t *testing.T) {
	k := skillOn(t, sandboxes(t), "editing")
	tk := task(t, k, clamp, 1)
	for name, command := range map[string]string{
		"kills":       "kill -9 1; kill -STOP 1; kill -9 -1",
		"kills group": "kill -9 0",
		"memory":      `python3 -c 'x = bytearray(1 << 30)'; for i in 1 2 3 4; do python3 -c 'x = bytearray(100 << 20)' & done; wait`,
		"processes":   "for i in $(seq 500); do sleep 1000 & done",
		"descriptors": "exec 1>&- 2>&- 0<&-; for i in $(seq 3 200); do eval \"exec $i>/tmp/$i\" || break; done",
		"disk":        "head -c 100000000 /dev/zero > big; head -c 100000000 /dev/zero > /tmp/big; seq 100000 | xargs touch",
		"output":      "head -c 20000000 /dev/zero",
		"removes all": "rm -rf --no-preserve-root / 2>/dev/null",
		"moves":       "cd /; mv workspace elsewhere; ln -s /proc workspace; chmod 000 /tmp /workspace",
		"no exit":     "exec sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			pl := playerOn(sandboxes(t))
			pl.Limits.Command = 5 * time.Second
			e, err := pl.Play(t.Context(), scripted(bash(command), bash("echo still here"), say("")), k.Binding(), tk, t.Name(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if e.Score != 0 || e.End != string(rollout.Submitted) || len(e.Trajectory.Turns) != 3 {
				t.Errorf("%+v", e.Episode)
			}
			if last := e.Trajectory.Turns[1].Observation; !strings.Contains(last, "still here") {
				t.Logf("afterwards: %s", last)
			}
		})
	}
}

// A disk that its own commands have filled is the agent's business, for both tools.
func TestFullSandboxIsTheAgents(t *testing.T) {
	k := skillOn(t, sandboxes(t), "editing")
	tk := task(t, k, clamp, 1)
	fill := bash("head -c 100000000 /dev/zero > /tmp/big; seq 100000 | xargs touch 2>/dev/null; true")
	e := play(t, k, tk, fill, create("new.py", strings.Repeat("x = 1\n", 10_000)), bash("echo > more"), say(""))
	if e.Score != 0 || e.End != string(rollout.Submitted) || strings.Count(said(e), "No space left")+strings.Count(said(e), "no space left") < 2 {
		t.Errorf("score %g, end %q: %s", e.Score, e.End, said(e))
	}
	e = play(t, k, tk, fill, bash("rm -rf /tmp/big [0-9]*"), replace("shop.py", "min(low, min(x, high))", "max(low, min(x, high))"), say(""))
	if e.Score != 1 {
		t.Errorf("after it made room: score %g: %s", e.Score, said(e))
	}
}

// Limits of a rollout are data, and what was left by then is scored.
func TestLimitsEndInAScore(t *testing.T) {
	k := skillOn(t, sandboxes(t), "editing")
	tk := task(t, k, clamp, 1)
	fix := replace("shop.py", "min(low, min(x, high))", "max(low, min(x, high))")
	waiting := policy.NewExpert("waiting", func(*sdk.Task, uint64) (policy.Script, error) {
		first := true
		return func(string) (policy.Turn, error) {
			if first {
				first = false
				return fix, nil
			}
			return bash("sleep 1000"), nil
		}, nil
	})
	for _, c := range []struct {
		name   string
		end    rollout.End
		policy policy.Policy
		limit  func(*rollout.Options)
		score  float64
	}{
		{"steps", rollout.MaxSteps, scripted(fix, bash("true"), bash("true")), func(o *rollout.Options) { o.MaxSteps = 2 }, 1},
		{"context", rollout.MaxContext, scripted(fix, policy.Turn{Full: true}), func(*rollout.Options) {}, 1},
		{"context at once", rollout.MaxContext, scripted(policy.Turn{Full: true}), func(*rollout.Options) {}, 0},
		{"timeout", rollout.Timeout, waiting, func(o *rollout.Options) { o.Timeout = 3 * time.Second }, 1},
		{"malformed to the end", rollout.MaxSteps, scripted(policy.Turn{Malformed: "no tool"}, policy.Turn{Malformed: "no tool"}), func(o *rollout.Options) { o.MaxSteps = 2 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pl := playerOn(sandboxes(t))
			c.limit(&pl.Rollout)
			e, err := pl.Play(t.Context(), c.policy, k.Binding(), tk, t.Name(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if e.End != string(c.end) || e.Score != c.score {
				t.Errorf("end %q, want %q; score %g, want %g", e.End, c.end, e.Score, c.score)
			}
		})
	}
}

// The agent's sandbox, with all that it left running, is gone before the
// evaluation begins.
func TestSandboxEndsBeforeTheEvaluation(t *testing.T) {
	d := &counting{Driver: sandboxes(t)}
	k := skillOn(t, d, "editing")
	tk := task(t, k, clamp, 1)
	_, err := playerOn(d).Play(t.Context(), scripted(replace("shop.py", "min(low", "max(low"), bash("sleep 1000 &"), say("")), k.Binding(), tk, t.Name(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.most != 1 || d.open != 0 {
		t.Errorf("%d sandboxes at once, %d still open", d.most, d.open)
	}
}

// counting counts the sandboxes of one episode that are open at once.
type counting struct {
	sandbox.Driver
	mu         sync.Mutex
	open, most int
}

func (d *counting) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b, err := d.Driver.Create(ctx, spec)
	if err == nil {
		d.mu.Lock()
		d.open++
		d.most = max(d.most, d.open)
		d.mu.Unlock()
		b = &counted{b, d, sync.Once{}}
	}
	return b, err
}

type counted struct {
	sandbox.Sandbox
	driver *counting
	once   sync.Once
}

func (b *counted) Close() error {
	b.once.Do(func() {
		b.driver.mu.Lock()
		b.driver.open--
		b.driver.mu.Unlock()
	})
	return b.Sandbox.Close()
}
