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
	a, err := h.Model(ctx, ask(r.Issue).ModelRequest)
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
	if a, err := s.Building(&m).Model(t.Context(), ask("a").ModelRequest); err != nil || a.Texts[0] != "a" {
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
	if _, err := h.Model(t.Context(), ask("x").ModelRequest); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "[model] base_url") {
		t.Error(err)
	}
	var asked Question
	s.Model = listener(func(q Question) (*Answer, error) { asked = q; return nil, errors.New("later") })
	if _, err := h.Model(t.Context(), ask("x").ModelRequest); err == nil || !asked.Building {
		t.Errorf("%+v, %v", asked, err)
	}
}

type listener func(Question) (*Answer, error)

func (l listener) Complete(_ context.Context, q Question) (*Answer, error) { return l(q) }
