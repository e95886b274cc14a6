package sdktest

import (
	"context"
	"errors"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Subject is what [Examine] examines: a skill of this program ([InProcess]), or a
// plugin that a host has loaded. Its methods are called one at a time.
type Subject interface {
	// Describe gives the name and the roles: build, evaluate, judge.
	Describe(ctx context.Context) (name string, roles []string, err error)
	Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error)
	Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error)
	Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error)
}

// InProcess is s as a Subject: requests and answers cross the border as bytes, as
// they do in a run. A call that computes without end is given up, not ended.
func InProcess(s sdk.Skill) Subject { return inProcess{s} }

type inProcess struct{ skill sdk.Skill }

func (p inProcess) Describe(ctx context.Context) (string, []string, error) {
	d := new(wire.Description)
	if err := call(ctx, p.skill, nil, wire.MethodDescribe, &wire.DescribeRequest{ABI: wire.ABI}, d); err != nil {
		return "", nil, err
	}
	if d.Name == "" {
		return "", nil, errors.New("describe: the skill gives no name")
	}
	return d.Name, d.Roles, nil
}

func (p inProcess) Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	return Build(ctx, p.skill, h, r)
}

func (p inProcess) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	return Evaluate(ctx, p.skill, h, r)
}

func (p inProcess) Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return Judge(ctx, p.skill, h, r)
}
