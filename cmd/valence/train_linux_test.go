package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestTrain runs the quickstart, made small, and again under other circumstances:
// one seed has one outcome.
func TestTrain(t *testing.T) {
	adopt(t)
	steps := 3
	if testing.Short() {
		steps = 1
	}
	length := "run.steps=" + strconv.Itoa(steps)
	q := newQuickstart(t, length)
	started := time.Now()
	q.run(t, 0, "train")
	took := time.Since(started)
	want := q.outcome(t, steps)
	q.leavesNothing(t)
	if want.trained == 0 {
		t.Error("no group was trained on, so equal weights mean nothing")
	}
	t.Logf("%d steps took %v: %d groups trained on, weights %.12s", steps, took, want.trained, want.weights)

	t.Run("report", func(t *testing.T) { checkReport(t, q) })
	if testing.Short() {
		return
	}
	t.Run("again with other widths", func(t *testing.T) {
		q := newQuickstart(t, length, "rollout.concurrency=3", "policy.threads=1")
		q.env = []string{"GOMAXPROCS=1"}
		q.run(t, 0, "train")
		if got := q.outcome(t, steps); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		q.leavesNothing(t)
	})
	t.Run("another seed", func(t *testing.T) {
		q := newQuickstart(t, length, "run.seed=2")
		q.run(t, 0, "train")
		if got := q.outcome(t, steps); got.weights == want.weights {
			t.Error("two seeds made the same weights")
		}
	})
	t.Run("killed five times", func(t *testing.T) {
		q := newQuickstart(t, length)
		rng := moments(t)
		for kills := 0; kills < 5; {
			if killed(t, q, rng, took) {
				kills++
				continue
			}
			// It was done before its moment came: start over.
			if got := q.outcome(t, steps); got != want {
				t.Errorf("after %d kills: got %+v, want %+v", kills, got, want)
			}
			if err := os.RemoveAll(string(q.folder())); err != nil {
				t.Fatal(err)
			}
		}
		halfWritten(t, q)
		q.run(t, 0, "train", "--resume")
		if got := q.outcome(t, steps); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		q.leavesNothing(t)
	})
	t.Run("interrupted in an evaluation", func(t *testing.T) {
		q := newQuickstart(t, length, "eval.every=1", "eval.runs=4")
		if told := interrupt(t, q, "step", 1); told["eval"] != 1 {
			t.Errorf("%d evaluations were finished, want that before the first step alone", told["eval"])
		}
		if _, ok, err := q.folder().Eval(1, "eval"); ok || err != nil {
			t.Errorf("the evaluation after step 1 is there: %t, %v", ok, err)
		}
		if s, _, err := q.folder().State(); s.Step != 1 {
			t.Errorf("step %d was saved, want 1: %v", s.Step, err)
		}
		q.leavesNothing(t)
	})
	for _, c := range []struct {
		name   string
		event  string // after which it is interrupted
		times  int
		states bool // a checkpoint exists by then
	}{
		{"interrupted while tasks are built", "", 1, false},
		{"interrupted after a step", "step", 1, true},
		{"interrupted twice", "step", 2, true},
		{"interrupted after the first evaluation", "eval", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQuickstart(t, length)
			interrupt(t, q, c.event, c.times)
			if _, ok, err := q.folder().State(); err != nil || c.states && !ok {
				t.Errorf("state.json: %v, there %t", err, ok)
			}
			q.leavesNothing(t)
			q.run(t, 0, "train", "--resume")
			if got := q.outcome(t, steps); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestTrainAhead lets rollouts run a version ahead: the outcome depends on time,
// the books balance all the same.
func TestTrainAhead(t *testing.T) {
	adopt(t)
	steps, kills := 4, 3
	if testing.Short() {
		steps, kills = 2, 0
	}
	q := newQuickstart(t, "run.steps="+strconv.Itoa(steps), "async.max_staleness=1")
	rng := moments(t)
	for range kills {
		killed(t, q, rng, 10*time.Second)
	}
	q.run(t, 0, "train", "--resume")
	q.outcome(t, steps)
	q.leavesNothing(t)
}

// moments is a source of random moments. VALENCE_TEST_SEED repeats one.
func moments(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("VALENCE_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("VALENCE_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// killed resumes the run and kills it at a random moment of the first four fifths of the
// time that a whole run takes; false: it was done before.
func killed(t *testing.T, q *quickstart, rng *rand.Rand, whole time.Duration) bool {
	t.Helper()
	after := time.Duration((0.15 + 0.65*rng.Float64()) * float64(whole))
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	p := q.command(ctx, t, "train", "--resume")
	q.start(t, p)
	err := p.Wait()
	orphans(t)
	if ctx.Err() == nil {
		if err != nil {
			t.Fatalf("%v\n%s", err, p.stderr.String())
		}
		return false
	}
	s, _, err := q.folder().State()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("killed after %v; step %d was complete", after.Round(time.Millisecond), s.Step)
	return true
}

// halfWritten puts into the run what a kill leaves in the middle of writing.
func halfWritten(t *testing.T, q *quickstart) {
	t.Helper()
	dir := q.folder()
	for _, p := range []string{"steps/.new-1/metrics.json", "checkpoints/.new-1/model.safetensors", "evals/.new-1", "evals/000003-eval.new", ".new-1"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir.Path(p)), 0o755), os.WriteFile(dir.Path(p), []byte("{"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// interrupt starts a run, sends it interrupts when the first event of a kind has
// been told, and wants exit code 130. Without a kind the moment is the first sign
// of life. It counts the events by kind.
func interrupt(t *testing.T, q *quickstart, kind string, times int) map[string]int {
	t.Helper()
	told := map[string]int{}
	p := q.command(t.Context(), t, "train", "-o", "jsonl")
	p.Stdout, p.Stderr = nil, nil
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	q.start(t, p)
	sent := 0
	send := func() {
		for ; sent < times; sent++ {
			if err := p.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			p.stderr.WriteString(line)
			if err != nil {
				return
			}
			if kind == "" {
				send()
			}
		}
	}()
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<24)
	last := ""
	for lines.Scan() {
		var e struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		told[e.Type]++
		if last = e.Type; e.Type == kind && kind != "" {
			send()
		}
	}
	io.Copy(io.Discard, stdout)
	<-said
	p.end(t, 130)
	if last != "exit_error" {
		t.Errorf("the last line is %q, want exit_error", last)
	}
	return told
}
