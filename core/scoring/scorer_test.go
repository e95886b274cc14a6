package scoring

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/sdk"
)

// asking is an evaluator that scores what its judge says.
type asking struct{}

func (asking) Digest() string { return "sha256:e" }

func (asking) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	a, err := h.Ask(ctx, &sdk.JudgeRequest{Issue: r.Task.Key, Config: []sdk.Pair{{Key: "strict", Value: "the evaluator's wish"}}})
	if err != nil {
		return nil, err
	}
	return &sdk.Verdict{Score: a.Confidence}, nil
}

// listening is a judge that keeps what it was asked.
type listening struct{ asked *sdk.JudgeRequest }

func (*listening) Digest() string { return "sha256:j" }

func (j *listening) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	j.asked = r
	return &sdk.JudgeResponse{Confidence: 1}, nil
}

// A judge's settings are the run's, whatever an evaluator puts into its question.
func TestJudgeGetsTheRunsSettings(t *testing.T) {
	j := &listening{}
	s := &Scorer{Skill: "repro", Evaluator: asking{}, Judge: j, JudgeConfig: []sdk.Pair{{Key: "strict", Value: "yes"}}}
	if v, err := s.Score(t.Context(), &sdk.Task{Key: "k"}, sdk.Output{}, 1); err != nil || v.Score != 1 {
		t.Fatal(v, err)
	}
	if d := cmp.Diff(&sdk.JudgeRequest{Issue: "k", Config: s.JudgeConfig}, j.asked); d != "" {
		t.Error(d)
	}
}

func TestDigestsTellSettingsApart(t *testing.T) {
	plain := &Scorer{Evaluator: asking{}, Judge: &listening{}}
	if d := cmp.Diff(map[string]string{"evaluate": "sha256:e", "judge": "sha256:j"}, plain.Digests()); d != "" {
		t.Error(d)
	}
	seen := map[string]bool{}
	for _, s := range []*Scorer{
		{Evaluator: asking{}, Config: []sdk.Pair{{Key: "a", Value: "b"}}},
		{Evaluator: asking{}, JudgeConfig: []sdk.Pair{{Key: "a", Value: "b"}}},
		{Evaluator: asking{}, Config: []sdk.Pair{{Key: "a", Value: "b"}, {Key: "c", Value: "d"}}},
		{Evaluator: asking{}, Config: []sdk.Pair{{Key: "a", Value: "b\" \"c\" \"d"}}},
	} {
		d := s.Digests()["settings"]
		if d == "" || seen[d] {
			t.Errorf("%+v: %q", s.Config, d)
		}
		seen[d] = true
	}
}
