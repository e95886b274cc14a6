package sdk

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/valence-rl/valence/sdk/wire"
)

// Call serves one method of package wire on s: in is the request's bytes, the
// result the response's. The request is made of in, which is nobody else's from now
// on. A WASM guest and a native process both answer through
// it, and a test may call it in-process. h serves the calls that s makes in turn.
//
// A panic of s becomes an error that starts with "panic: "; its stack goes to
// the standard error, where the host picks it up.
func Call(ctx context.Context, s Skill, h Host, method uint32, in []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			os.Stderr.Write(debug.Stack())
			out, err = nil, errors.New("panic: "+text(p))
		}
	}()
	if s == nil {
		return nil, errors.New("no skill is registered: call sdk.Register from an init function")
	}
	switch method {
	case wire.MethodDescribe:
		var r wire.DescribeRequest
		if err := wire.Take(in, &r); err != nil {
			return nil, err
		}
		return wire.Marshal(describe(s)), nil
	case wire.MethodBuild:
		b, ok := s.(TaskBuilder)
		if !ok {
			return nil, missing(s, "build")
		}
		var r BuildRequest
		if err := wire.Take(in, &r); err != nil {
			return nil, err
		}
		return answer(b.Build(ctx, h, &r))
	case wire.MethodEvaluate:
		e, ok := s.(Evaluator)
		if !ok {
			return nil, missing(s, "evaluate")
		}
		var r EvaluateRequest
		if err := wire.Take(in, &r); err != nil {
			return nil, err
		}
		return answer(e.Evaluate(ctx, h, &r))
	case wire.MethodJudge:
		j, ok := s.(Judge)
		if !ok {
			return nil, missing(s, "judge")
		}
		var r JudgeRequest
		if err := wire.Take(in, &r); err != nil {
			return nil, err
		}
		return answer(j.Judge(ctx, h, &r))
	}
	return nil, errors.New("unknown method " + strconv.FormatUint(uint64(method), 10) + ": this plugin speaks skill_v" + strconv.Itoa(wire.ABI))
}

func describe(s Skill) *wire.Description {
	d := &wire.Description{ABI: wire.ABI, Roles: roles(s)}
	d.Name, d.Version = s.Describe()
	return d
}

// roles finds what s can do.
func roles(s Skill) (roles []string) {
	if _, ok := s.(TaskBuilder); ok {
		roles = append(roles, "build")
	}
	if _, ok := s.(Evaluator); ok {
		roles = append(roles, "evaluate")
	}
	if _, ok := s.(Judge); ok {
		roles = append(roles, "judge")
	}
	return roles
}

// answer encodes what a method of the author returned.
func answer[T any, P interface {
	*T
	wire.Message
}](m P, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("the plugin returned neither an answer nor an error")
	}
	return sized("answer", wire.Marshal(m))
}

func missing(s Skill, role string) error {
	name, _ := s.Describe()
	return errors.New("plugin " + name + " does not offer the role " + role)
}

// text renders a panic's value without package fmt, which guests need not carry.
func text(p any) string {
	switch p := p.(type) {
	case error:
		return p.Error()
	case string:
		return p
	case interface{ String() string }:
		return p.String()
	}
	return "a value that is neither an error nor a string"
}
