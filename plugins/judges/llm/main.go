// Llm is a judge of issue reproduction that asks the run's model (ALGORITHMS 1,
// "Judge"). It puts issue, script and both logs before the model as fenced material
// and takes nothing but one JSON object for an answer. A model that cannot be
// reached or gives no such object is an error and no verdict.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/ask"
	"github.com/valence-rl/valence/sdk/grade"
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "llm", "0.1.0" }

// opinion is one answer of the model.
type opinion struct {
	verdict    bool
	confidence float64
	rationale  string
}

// schema is the form of an answer. The rationale comes first, so that a model which
// writes in that order reasons before it decides.
const schema = `{"type":"object","properties":{"rationale":{"type":"string"},"verdict":{"type":"boolean"},"confidence":{"type":"number"}},` +
	`"required":["rationale","verdict","confidence"],"additionalProperties":false}`

// read takes an opinion from an answer.
func read(v any) (opinion, error) {
	f, err := ask.Fields(v, "rationale", "verdict", "confidence")
	if err != nil {
		return opinion{}, err
	}
	var o opinion
	var texts, bools, numbers bool
	o.rationale, texts = f[0].(string)
	o.verdict, bools = f[1].(bool)
	o.confidence, numbers = f[2].(float64)
	switch {
	case !texts || o.rationale == "":
		return o, errors.New("rationale is no text")
	case !bools:
		return o, errors.New("verdict is not true or false")
	case !numbers || !(o.confidence >= 0 && o.confidence <= 1):
		return o, errors.New("confidence is no number from 0 to 1")
	}
	return o, nil
}

// Judge asks for as many opinions as the settings say, each under a seed of its own
// that the material decides, and no more than are needed for a majority. The verdict
// is the majority's, its confidence their mean, its rationale that of the first of
// them.
func (skill) Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	s, err := readSettings(r.Config)
	if err != nil {
		return nil, err
	}
	messages, err := s.messages(r)
	if err != nil {
		return nil, err
	}
	temperature := 0.0
	if s.votes > 1 {
		temperature = 0.7
	}
	var cast [2][]opinion // against, for
	for vote := uint64(0); ; vote++ {
		o, err := ask.JSON(ctx, h, &sdk.ModelRequest{
			Messages: messages, Schema: schema, MaxTokens: int64(s.maxTokens), Temperature: temperature,
			Seed: grade.Hash(vote, r.Issue, r.Script, r.Before.Output, r.After.Output) | 1,
		}, read)
		var bad *ask.Malformed
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("judge gave no verdict: %w; it said: %s", bad.Cause, strconv.Quote(ask.Cut(bad.Text, 200)))
		}
		if err != nil {
			return nil, err
		}
		side := 0
		if o.verdict {
			side = 1
		}
		cast[side] = append(cast[side], o)
		if 2*len(cast[side]) > s.votes {
			return decide(ctx, h, cast[side], cast[1-side]), nil
		}
	}
}

// decide puts the opinions of the majority into one.
func decide(ctx context.Context, h sdk.Host, majority, minority []opinion) *sdk.JudgeResponse {
	v := &sdk.JudgeResponse{Verdict: majority[0].verdict, Rationale: majority[0].rationale}
	for _, o := range majority {
		v.Confidence += o.confidence / float64(len(majority))
	}
	v.Confidence = min(v.Confidence, 1) // sums round
	if len(minority) > 0 {
		v.Rationale += fmt.Sprintf(" (%d of %d votes)", len(majority), len(majority)+len(minority))
		h.Log(ctx, "info", fmt.Sprintf("the judge's votes differ: %d against %d; one of the outvoted: %s", len(majority), len(minority), minority[0].rationale))
	}
	return v
}
