package sdk_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// named has no role.
type named struct{}

func (named) Describe() (name, version string) { return "named", "1.0.0" }

// full has every role and does what the request's text says.
type full struct{ named }

func (full) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	return &sdk.BuildResponse{Skipped: r.Record.ID}, nil
}

func (full) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return &sdk.JudgeResponse{Rationale: r.Issue}, nil
}

type textual struct{}

func (textual) String() string { return "words" }

func (full) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	switch r.Task.Prompt {
	case "error":
		return nil, errors.New("an error")
	case "nil":
		return nil, nil
	case "panic error":
		panic(errors.New("cause"))
	case "panic text":
		panic("text")
	case "panic textual":
		panic(textual{})
	case "panic other":
		panic(struct{}{})
	}
	return &sdk.Verdict{Score: 1, Reason: r.Task.Prompt}, nil
}

func TestCall(t *testing.T) {
	prompt := func(p string) []byte { return wire.Marshal(&sdk.EvaluateRequest{Task: sdk.Task{Prompt: p}}) }
	for _, c := range []struct {
		name   string
		skill  sdk.Skill
		method uint32
		in     []byte
		want   wire.Message // or
		err    string
	}{
		{"describe", full{}, wire.MethodDescribe, nil, &wire.Description{Name: "named", Version: "1.0.0", ABI: 1, Roles: []string{"build", "evaluate", "judge"}}, ""},
		{"describe without roles", named{}, wire.MethodDescribe, nil, &wire.Description{Name: "named", Version: "1.0.0", ABI: 1}, ""},
		{"build", full{}, wire.MethodBuild, wire.Marshal(&sdk.BuildRequest{Record: sdk.Record{ID: "x"}}), &sdk.BuildResponse{Skipped: "x"}, ""},
		{"evaluate", full{}, wire.MethodEvaluate, prompt("p"), &sdk.Verdict{Score: 1, Reason: "p"}, ""},
		{"judge", full{}, wire.MethodJudge, wire.Marshal(&sdk.JudgeRequest{Issue: "i"}), &sdk.JudgeResponse{Rationale: "i"}, ""},
		{"no builder", named{}, wire.MethodBuild, nil, nil, "plugin named does not offer the role build"},
		{"no evaluator", named{}, wire.MethodEvaluate, nil, nil, "plugin named does not offer the role evaluate"},
		{"no judge", named{}, wire.MethodJudge, nil, nil, "plugin named does not offer the role judge"},
		{"no skill", nil, wire.MethodDescribe, nil, nil, "no skill is registered"},
		{"unknown method", full{}, 9, nil, nil, "unknown method 9: this plugin speaks skill_v1"},
		{"garbage to describe", full{}, wire.MethodDescribe, []byte{0xff}, nil, "bad field tag"},
		{"garbage to build", full{}, wire.MethodBuild, []byte{0xff}, nil, "bad field tag"},
		{"garbage to evaluate", full{}, wire.MethodEvaluate, []byte{0xff}, nil, "bad field tag"},
		{"garbage to judge", full{}, wire.MethodJudge, []byte{0xff}, nil, "bad field tag"},
		{"error", full{}, wire.MethodEvaluate, prompt("error"), nil, "an error"},
		{"neither", full{}, wire.MethodEvaluate, prompt("nil"), nil, "neither an answer nor an error"},
		{"panic with an error", full{}, wire.MethodEvaluate, prompt("panic error"), nil, "panic: cause"},
		{"panic with a text", full{}, wire.MethodEvaluate, prompt("panic text"), nil, "panic: text"},
		{"panic with a stringer", full{}, wire.MethodEvaluate, prompt("panic textual"), nil, "panic: words"},
		{"panic with something", full{}, wire.MethodEvaluate, prompt("panic other"), nil, "panic: a value that is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := sdk.Call(t.Context(), c.skill, nil, c.method, c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || out != nil {
					t.Errorf("%q, error %v; want one with %q", out, err, c.err)
				}
				return
			}
			if err != nil || string(out) != string(wire.Marshal(c.want)) {
				t.Errorf("%q, %v; want %+v", out, err, c.want)
			}
		})
	}
}

func TestRegisterOnce(t *testing.T) {
	sdk.Register(full{})
	if sdk.Registered() != (full{}) {
		t.Error("not registered")
	}
	defer func() {
		if recover() == nil {
			t.Error("a second Register does not panic")
		}
	}()
	sdk.Register(full{})
}

// TestMainExplains runs a plugin as the program that it is not.
func TestMainExplains(t *testing.T) {
	out, err := exec.Command("go", "run", "../core/host/testdata/minimal").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	// go run reports the program's status in words.
	if s := string(out); !strings.Contains(s, "plugin minimal 0.1.0 is loaded by valence") || !strings.Contains(s, "-buildmode=c-shared") || !strings.Contains(s, "exit status 2") {
		t.Errorf("%s", s)
	}
}
