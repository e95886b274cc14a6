package sdktest

import (
	"context"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Build has s build tasks as a host does: the request and the answer cross the
// border as bytes, and a panic is an error.
func Build(ctx context.Context, s sdk.Skill, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	answer := new(sdk.BuildResponse)
	return answer, call(ctx, s, h, wire.MethodBuild, r, answer)
}

// Evaluate has s score an output, as [Build] does.
func Evaluate(ctx context.Context, s sdk.Skill, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	answer := new(sdk.Verdict)
	return answer, call(ctx, s, h, wire.MethodEvaluate, r, answer)
}

// Judge has s judge two logs, as [Build] does.
func Judge(ctx context.Context, s sdk.Skill, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	answer := new(sdk.JudgeResponse)
	return answer, call(ctx, s, h, wire.MethodJudge, r, answer)
}

func call(ctx context.Context, s sdk.Skill, h sdk.Host, method uint32, request, answer wire.Message) error {
	b, err := sdk.Call(ctx, s, h, method, wire.Marshal(request))
	if err != nil {
		return err
	}
	return wire.Unmarshal(b, answer)
}
