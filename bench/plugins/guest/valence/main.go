// Plugin bench answers with the number of files that it is given. A task called
// "hold" has it ask the host to judge first.
package main

import (
	"context"
	"strconv"

	"github.com/valence-rl/valence/bench/plugins/work"
	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }

func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "bench", "0.1.0" }

func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if r.Task.Key == work.Hold {
		if _, err := h.Ask(ctx, &sdk.JudgeRequest{}); err != nil {
			return nil, err
		}
	}
	n := work.Do(r.Task.Key, r.Seed, len(r.Task.Workspace.Files)+len(r.Output.Changes))
	return &sdk.Verdict{Score: 1, Components: []sdk.Component{{Name: "files", Value: float64(n)}}, Reason: strconv.Itoa(n)}, nil
}
