package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/journal"
)

// repository is the root of the source tree, from which the paths of the
// quickstart start.
func repository(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// policyFolder is the quickstart's policy. VALENCE_TEST_POLICY names another one.
func policyFolder(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("VALENCE_TEST_POLICY")
	if dir == "" {
		dir = filepath.Join(repository(t), "examples", "quickstart", "policy")
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		t.Fatalf("the quickstart's policy is missing: %v", err)
	}
	return dir
}

// small are the settings that make the quickstart a matter of seconds: a few
// records, and two evaluation tasks a skill.
var small = []string{
	"grpo.groups_per_step=5", "grpo.group_size=4", "eval.tasks=2", "eval.runs=1", "rollout.concurrency=8",
	"source.0.count=12", "source.1.count=12", "source.2.count=6", "source.3.count=6",
}

// quickstart is the quickstart's run, made small, in folders of its own.
type quickstart struct {
	runs, tmp string
	env       []string
	sets      []string
	pids      []int // of the processes started so far
}

func newQuickstart(t testing.TB, sets ...string) *quickstart {
	t.Helper()
	dir := t.TempDir()
	q := &quickstart{runs: filepath.Join(dir, "runs"), tmp: filepath.Join(dir, "tmp")}
	if err := os.Mkdir(q.tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	q.sets = append(q.sets, small...)
	q.sets = append(q.sets, "run.name=small", "run.dir="+q.runs, "policy.path="+policyFolder(t))
	q.sets = append(q.sets, sets...)
	return q
}

// folder is the run's.
func (q *quickstart) folder() journal.Dir { return journal.Dir(filepath.Join(q.runs, "small")) }

// process is the program at work.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// command prepares the program with a verb that takes the quickstart's
// configuration. It runs in the root of the source tree with a temporary folder of
// its own, and is killed when ctx ends.
func (q *quickstart) command(ctx context.Context, t testing.TB, verb string, args ...string) *process {
	t.Helper()
	all := []string{verb, "-c", "examples/quickstart/run.toml", "--progress", "plain"}
	for _, s := range q.sets {
		all = append(all, "--set", s)
	}
	return q.bare(ctx, t, append(all, args...)...)
}

// bare prepares the program with these arguments alone.
func (q *quickstart) bare(ctx context.Context, t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(ctx, "valence", args...)}
	p.Dir = repository(t)
	p.Env = append(append(os.Environ(), "TMPDIR="+q.tmp), q.env...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	// Whatever keeps the streams open longer has outlived the program.
	p.WaitDelay = 20 * time.Second
	return p
}

// start starts the program and remembers its number.
func (q *quickstart) start(t testing.TB, p *process) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	q.pids = append(q.pids, p.Process.Pid)
}

// run runs a verb to its end and compares the exit code.
func (q *quickstart) run(t testing.TB, code int, verb string, args ...string) *process {
	t.Helper()
	p := q.command(t.Context(), t, verb, args...)
	q.start(t, p)
	p.end(t, code)
	return p
}

// plain is run for verbs without a configuration.
func (q *quickstart) plain(t testing.TB, code int, args ...string) *process {
	t.Helper()
	p := q.bare(t.Context(), t, args...)
	q.start(t, p)
	p.end(t, code)
	return p
}

// end waits for the program's end and compares the exit code.
func (p *process) end(t testing.TB, code int) {
	t.Helper()
	if err := p.Wait(); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			t.Fatalf("%v\n%s", err, p.stderr.String())
		}
	}
	if got := p.ProcessState.ExitCode(); got != code {
		t.Fatalf("%v: exit code %d, want %d\n%s", p.Args[1], got, code, p.stderr.String())
	}
}

// outcome is what a finished run comes to.
type outcome struct {
	weights string
	scores  string // of both evaluations
	trained int64  // groups
}

// outcome checks that the run is complete and in order: a folder for every step,
// whole and with every episode once; books that balance; no traces of
// interruptions.
func (q *quickstart) outcome(t testing.TB, steps int) outcome {
	t.Helper()
	dir := q.folder()
	s, ok, err := dir.State()
	if err != nil || !ok {
		t.Fatalf("state.json: %v, there %t", err, ok)
	}
	if !s.Done || s.Step != steps || s.Checkpoint != steps {
		t.Errorf("done %t at step %d with checkpoint %d, want step %d", s.Done, s.Step, s.Checkpoint, steps)
	}
	var ended int64
	for _, n := range s.Fates {
		ended += n
	}
	if ended != s.Dispatched || s.Dispatched == 0 {
		t.Errorf("%d groups dispatched, %d ended: %v", s.Dispatched, ended, s.Fates)
	}
	all, err := dir.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != steps {
		t.Errorf("%d step folders, want %d", len(all), steps)
	}
	var groups int64
	seen := map[string]bool{}
	for i, m := range all {
		if m.Step != i+1 {
			t.Errorf("step %d in place %d", m.Step, i+1)
		}
		for _, n := range m.Fates {
			groups += int64(n)
		}
		for e, err := range dir.Episodes(m.Step) {
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprintf("%s attempt %d", e.ID, e.Attempt)
			if seen[id] || e.Fate == "" {
				t.Errorf("episode %s of step %d: a second time %t, fate %q", id, m.Step, seen[id], e.Fate)
			}
			seen[id] = true
		}
	}
	if groups != s.Dispatched {
		t.Errorf("the steps account for %d groups, %d were dispatched", groups, s.Dispatched)
	}
	lines, err := os.ReadFile(dir.Path("metrics.jsonl"))
	if err != nil || bytes.Count(lines, []byte("\n")) != steps {
		t.Errorf("metrics.jsonl has %d lines, want %d (%v)", bytes.Count(lines, []byte("\n")), steps, err)
	}
	o := outcome{weights: s.Weights, trained: s.Fates["trained"]}
	evals, err := dir.Evals()
	if err != nil || len(evals) != 2 {
		t.Fatalf("%d evaluations, want one before and one after: %v", len(evals), err)
	}
	for _, e := range evals {
		for _, k := range e.Skills {
			o.scores += fmt.Sprintf("%d %s %v %v\n", e.Step, k.Name, k.Tasks, k.Scores)
		}
	}
	err = filepath.WalkDir(string(dir), func(p string, d os.DirEntry, err error) error {
		if err == nil && (filepath.Ext(p) == ".new" || len(d.Name()) > 4 && d.Name()[:5] == ".new-") {
			t.Errorf("half a file is left: %s", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
