package host

import (
	"context"
	"errors"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Build makes the tasks of one record. The response has tasks with unique keys, or
// a reason why it has none. h answers for sandboxes and the model; there is no judge
// while tasks are built. h may be nil: only the log answers then.
func (p *Plugin) Build(ctx context.Context, h Services, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	res := new(sdk.BuildResponse)
	c := call{op: "build", subject: r.Record.ID, method: wire.MethodBuild, services: building{to: p.log, of: h}}
	if err := p.do(ctx, c, r, res, func() error { return checkTasks(res) }); err != nil {
		return nil, err
	}
	return res, nil
}

// Evaluate scores one output. The verdict's numbers are finite and its score is in
// [0,1]. The deadline is Options.Timeout or, if shorter, the request's own. h may
// be nil: no capability is offered then.
func (p *Plugin) Evaluate(ctx context.Context, h Services, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	res := new(sdk.Verdict)
	c := call{op: "evaluate", subject: r.Task.Key, method: wire.MethodEvaluate, services: h,
		timeout: time.Duration(r.Timeout) * time.Millisecond}
	if err := p.do(ctx, c, r, res, func() error { return checkVerdict(res) }); err != nil {
		return nil, err
	}
	return res, nil
}

// Judge asks for an opinion on two logs; its confidence is in [0,1]. h is as for
// Evaluate.
func (p *Plugin) Judge(ctx context.Context, h Services, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	res := new(sdk.JudgeResponse)
	c := call{op: "judge", method: wire.MethodJudge, services: h}
	if err := p.do(ctx, c, r, res, func() error { return checkOpinion(res) }); err != nil {
		return nil, err
	}
	return res, nil
}

// call is one question to a plugin.
type call struct {
	op       string
	subject  string // record, task or ""
	method   uint32
	timeout  time.Duration // if shorter than the plugin's; 0: none
	services Services
}

// do asks, decodes and checks. Every error is classified.
func (p *Plugin) do(ctx context.Context, c call, req, res wire.Message, check func() error) error {
	timeout := p.timeout
	if c.timeout > 0 {
		timeout = min(timeout, c.timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &overtime{timeout})
	defer cancel()
	g := gate{plugin: p, op: c.op, services: c.services}
	in, begun := wire.Marshal(req), time.Now()
	out, err := p.module.Call(ctx, c.method, in, g.serve)
	if c.method != wire.MethodDescribe && !errors.Is(ctx.Err(), context.Canceled) {
		p.computed(g.own(time.Since(begun)))
	}
	if err != nil {
		return p.fail(c, err)
	}
	if err = wire.Unmarshal(out, res); err == nil {
		err = check()
	}
	if err != nil {
		return p.fail(c, &transport.Failure{Reason: transport.ReasonAnswer, Err: err})
	}
	return nil
}

// overtime is the cause of a context whose call took too long.
type overtime struct{ limit time.Duration }

func (o *overtime) Error() string { return "no answer after " + o.limit.String() }

// Is lets errors.Is find the context's own error.
func (o *overtime) Is(err error) bool { return err == context.DeadlineExceeded }

// fail gives err op, subject and the kind of the boundary that failed.
func (p *Plugin) fail(c call, err error) error {
	e := &diag.Error{Kind: diag.KindPlugin, Op: c.op, Subject: p.String(), Err: err}
	if c.subject != "" {
		e.Subject += ": " + c.subject
	}
	f, ok := err.(*transport.Failure)
	if !ok {
		return e
	}
	x := &failed{Failure: f}
	switch {
	case f.Reason == transport.ReasonCancelled:
		e.Kind = diag.KindInterrupted
	case passedOn(f):
		x.service = f.HostErr
		e.Kind = diag.KindOf(f.HostErr)
	}
	e.Err = x
	return e
}
