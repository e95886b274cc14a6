package scoring

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// curious is an evaluator whose judge asks the model what it is asked.
type curious struct{ asking }

func (curious) Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	a, err := h.Model(ctx, ask(r.Issue))
	if err != nil {
		return nil, err
	}
	return &sdk.JudgeResponse{Verdict: a.Texts[0] == r.Issue, Confidence: 1}, nil
}

func TestModelUseIsCounted(t *testing.T) {
	p := &parrot{}
	s := &Scorer{Skill: "repro", Evaluator: asking{}, Judge: curious{}, Model: KeepAnswers(p, "m", AnswersOptions{})}
	var m Meter
	for _, key := range []string{"a", "a", "b"} {
		if v, err := s.ScoreMetered(t.Context(), &sdk.Task{Key: key}, sdk.Output{}, 1, &m); err != nil || v.Score != 1 {
			t.Fatal(v, err)
		}
	}
	p.fail = diag.Errorf(diag.KindJudge, "ask model", "m", "no connection")
	if v, err := s.ScoreMetered(t.Context(), &sdk.Task{Key: "c"}, sdk.Output{}, 1, &m); v != nil || diag.KindOf(err) != diag.KindJudge {
		t.Error(v, err)
	}
	p.fail = nil
	if a, err := s.Building(&m).Model(t.Context(), ask("a")); err != nil || a.Texts[0] != "a" {
		t.Error(a, err)
	}
	got := m.Use()
	if got.LatencyMean < 0 || got.LatencyMax < got.LatencyMean {
		t.Errorf("latency %v, at most %v", got.LatencyMean, got.LatencyMax)
	}
	got.LatencyMean, got.LatencyMax = 0, 0
	if d := cmp.Diff(ModelUse{Calls: 3, Cached: 2, Failures: 1, PromptTokens: 6, Cost: 2}, got); d != "" {
		t.Error(d)
	}
	if _, err := s.Score(t.Context(), &sdk.Task{Key: "a"}, sdk.Output{}, 1); err != nil {
		t.Error("without a meter:", err)
	}
}

func TestLatency(t *testing.T) {
	var m Meter
	for _, s := range []time.Duration{time.Second, 2 * time.Second, 6 * time.Second} {
		m.count(&Answer{}, s)
	}
	m.count(&Answer{Cached: true}, time.Hour)
	if u := m.Use(); u.LatencyMean != 3 || u.LatencyMax != 6 {
		t.Errorf("%+v", u)
	}
}

// A builder gets the model and sandboxes, and no judge; without a [model] section
// only asking is an error.
func TestBuilding(t *testing.T) {
	s := &Scorer{Skill: "repro", Evaluator: asking{}, Judge: curious{}, Runner: &countingRunner{run: echo}}
	h := s.Building(nil)
	if r, err := h.Run(t.Context(), request("x")); err != nil || r.Logs[0].Output != "x" {
		t.Error(r, err)
	}
	if _, err := h.Ask(t.Context(), &sdk.JudgeRequest{}); err == nil {
		t.Error("a judge answered")
	}
	if _, err := h.Model(t.Context(), ask("x")); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "[model] base_url") {
		t.Error(err)
	}
	s.Model = KeepAnswers(&parrot{fail: errors.New("later")}, "m", AnswersOptions{})
	if _, err := h.Model(t.Context(), ask("x")); err == nil {
		t.Error("no error")
	}
}

// doubting is a judge that asks the model twice and takes none of its answers.
type doubting struct{ runs bool }

func (doubting) Digest() string { return "sha256:d" }

func (d doubting) Judge(ctx context.Context, h sdk.Host, _ *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	for _, text := range []string{"x", "y"} {
		if _, err := h.Model(ctx, ask(text)); err != nil {
			return nil, err
		}
	}
	if d.runs {
		if _, err := h.Run(ctx, request("x")); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("neither is a verdict")
}

// Answers that led to no verdict are not given again; those before a failure of the
// host are, since it is not theirs.
func TestAnswersWithoutAVerdictAreForgotten(t *testing.T) {
	p := &parrot{}
	s := &Scorer{Skill: "repro", Evaluator: asking{}, Model: KeepAnswers(p, "m", AnswersOptions{}),
		Runner: &countingRunner{run: func(int64, *sdk.RunRequest) (*sdk.RunResponse, error) { return nil, errors.New("no sandbox") }}}
	score := func(ctx context.Context, j Judge) int64 {
		t.Helper()
		s.Judge = j
		before := p.calls.Load()
		if v, err := s.Score(ctx, &sdk.Task{Key: "k"}, sdk.Output{}, 1); v != nil || diag.KindOf(err) != diag.KindJudge {
			t.Error(v, err)
		}
		return p.calls.Load() - before
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		what  string
		ctx   context.Context
		judge Judge
		asked int64
	}{
		{"the first attempt", t.Context(), doubting{}, 2},
		{"the second", t.Context(), doubting{}, 2},
		{"one that a sandbox fails", t.Context(), doubting{runs: true}, 2},
		{"the one after it", t.Context(), doubting{runs: true}, 0},
		{"one that ends too late", over, doubting{}, 0},
		{"the one after it", t.Context(), doubting{}, 0},
		{"the last", t.Context(), doubting{}, 2},
	} {
		if got := score(c.ctx, c.judge); got != c.asked {
			t.Errorf("%s asks the server %d times, want %d", c.what, got, c.asked)
		}
	}
}

// completer is a Completer in a function.
type completer func(*sdk.ModelRequest) (*Answer, error)

func (c completer) Complete(_ context.Context, q *sdk.ModelRequest) (*Answer, error) { return c(q) }
