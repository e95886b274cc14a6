// Plugin minimal is the smallest skill there is: it gives every record one task
// and every answer the score 1.
package main

import (
	"context"

	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }

func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "minimal", "0.1.0" }

func (skill) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	return &sdk.BuildResponse{Tasks: []sdk.Task{{Key: "minimal/" + r.Record.ID, Prompt: r.Record.Problem}}}, nil
}

func (skill) Evaluate(context.Context, sdk.Host, *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	return &sdk.Verdict{Score: 1}, nil
}
