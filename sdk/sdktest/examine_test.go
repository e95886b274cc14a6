package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/valence-rl/valence/sdk"
)

// adder is a sound skill, small enough to be broken in many ways: write the sum of
// two numbers. Each test changes what build and evaluate make.
type adder struct {
	built     func(n int, r *sdk.BuildResponse)                                        // n: calls so far
	evaluated func(ctx context.Context, h sdk.Host, n int, o *sdk.Output) *sdk.Verdict // nil: as it should be
	fails     func(o *sdk.Output) error
	calls     int
}

func (*adder) Describe() (name, version string) { return "adder", "0.1.0" }

func (a *adder) Build(_ context.Context, _ sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	a.calls++
	out := &sdk.BuildResponse{Tasks: []sdk.Task{{
		Key: "adder/" + r.Record.ID, Skill: "adder", Record: r.Record.ID,
		Prompt:    "Write the sum of 40 and 2 to sum.txt. " + r.Record.Problem,
		Workspace: r.Record.Workspace,
		Collect:   []string{"sum.txt"},
		Hidden:    []byte("the sum is 42"),
		Reference: &sdk.Reference{Changes: []sdk.Change{{Path: "sum.txt", Data: []byte("42\n")}}},
	}}}
	if a.built != nil {
		a.built(a.calls, out)
	}
	return out, nil
}

func (a *adder) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	a.calls++
	if a.fails != nil {
		if err := a.fails(&r.Output); err != nil {
			return nil, err
		}
	}
	if a.evaluated != nil {
		if v := a.evaluated(ctx, h, a.calls, &r.Output); v != nil {
			return v, nil
		}
	}
	if strings.TrimSpace(answer(&r.Output)) == "42" {
		return &sdk.Verdict{Score: 1, Reason: "the sum is right"}, nil
	}
	return &sdk.Verdict{Reason: "sum.txt is not the sum"}, nil
}

func answer(o *sdk.Output) string {
	for _, c := range o.Changes {
		return string(c.Data)
	}
	return ""
}

func records() []sdk.Record {
	return []sdk.Record{
		{ID: "one", FailToPass: []string{"t.T.test_a"}, Problem: "format {braces} breaks", Workspace: sdk.Workspace{Files: []sdk.File{{Path: "a.py", Data: []byte("x = 1\n")}, {Path: "test_a.py", Data: []byte("assert True\n")}}}},
		{ID: "two", Problem: "", Workspace: sdk.Workspace{Files: []sdk.File{{Path: "a.py", Data: []byte("x = 2\n")}}}},
	}
}

func find(t *testing.T, findings []Finding, check string) Finding {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no check %q among %v", check, findings)
	return Finding{}
}

func TestSoundSkillPasses(t *testing.T) {
	var heard []string
	findings := Examine(t.Context(), InProcess(&adder{}), Options{
		Records: records(), Declared: []string{}, Heard: func(c string) { heard = append(heard, c) },
		Visible: func(_ context.Context, w *sdk.Workspace) ([]sdk.File, error) { return w.Files, nil },
	})
	for _, f := range findings {
		if f.Status != OK || f.Passed != f.Total || f.Total == 0 {
			t.Errorf("%+v", f)
		}
	}
	if want := "2/2 reference answers score 1"; find(t, findings, "gold").String() != want {
		t.Errorf("%s", find(t, findings, "gold"))
	}
	if len(heard) < 10 || heard[0] != "tasks" {
		t.Errorf("heard %v", heard)
	}
}

// TestDefectsAreFound breaks the sound skill in one place at a time.
func TestDefectsAreFound(t *testing.T) {
	tasks := func(change func(n int, t *sdk.Task)) *adder {
		return &adder{built: func(n int, r *sdk.BuildResponse) { change(n, &r.Tasks[0]) }}
	}
	verdict := func(f func(n int, o *sdk.Output) *sdk.Verdict) *adder {
		return &adder{evaluated: func(_ context.Context, _ sdk.Host, n int, o *sdk.Output) *sdk.Verdict { return f(n, o) }}
	}
	tests := []struct {
		name, check, says string
		skill             *adder
	}{
		{"other tasks each time", "tasks", "gives other tasks", tasks(func(n int, t *sdk.Task) { t.Prompt += fmt.Sprint(n) })},
		{"neither tasks nor a reason", "tasks", "neither a task nor a reason", &adder{built: func(_ int, r *sdk.BuildResponse) { r.Tasks = nil }}},
		{"a reason for tasks", "tasks", "1 tasks, and a reason why there is none", &adder{built: func(_ int, r *sdk.BuildResponse) { r.Skipped = "no" }}},
		{"no task at all", "tasks", `no record makes a task in the form "full"`, &adder{built: func(_ int, r *sdk.BuildResponse) { *r = sdk.BuildResponse{Skipped: "never"} }}},
		{"one key for all", "keys", "the key is given twice", tasks(func(_ int, t *sdk.Task) { t.Key = "adder/x" })},
		{"another's key", "keys", "does not start with the skill's name", tasks(func(_ int, t *sdk.Task) { t.Key = "sum/" + t.Record })},
		{"another's record", "keys", `its record is "", want`, tasks(func(_ int, t *sdk.Task) { t.Record = "" })},
		{"no prompt", "prompts", "no prompt", tasks(func(_ int, t *sdk.Task) { t.Prompt = " " })},
		{"a placeholder left", "prompts", "the placeholder {issue_description} is left", tasks(func(_ int, t *sdk.Task) { t.System = "{issue_description}" })},
		{"everything collected", "collect", "collects everything", tasks(func(_ int, t *sdk.Task) { t.Collect = nil })},
		{"a glob that is none", "collect", `collects "[": syntax error`, tasks(func(_ int, t *sdk.Task) { t.Collect = []string{"sum.txt", "["} })},
		{"a reference that is not collected", "collect", "the reference changes sum.txt, which is not collected", tasks(func(_ int, t *sdk.Task) { t.Collect = []string{"total.txt"} })},
		{"hidden part in the prompt", "hidden", "(prompt) holds the hidden part", tasks(func(_ int, t *sdk.Task) { t.Prompt += string(t.Hidden) })},
		{"hidden part in a file", "hidden", "notes.txt holds the hidden part", tasks(func(_ int, t *sdk.Task) {
			t.Workspace.Files = append(t.Workspace.Files[:2:2], sdk.File{Path: "notes.txt", Data: append([]byte("psst: "), t.Hidden...)})
		})},
		{"hidden part in the environment", "hidden", "(environment) holds the hidden part", tasks(func(_ int, t *sdk.Task) { t.Workspace.Env = []string{"HINT=" + string(t.Hidden)} })},
		{"hidden part as a name", "hidden", "holds the hidden part", tasks(func(_ int, t *sdk.Task) {
			t.Workspace.Files = append(t.Workspace.Files[:2:2], sdk.File{Path: string(t.Hidden)})
		})},
		{"hidden part in a patch", "hidden", "(patch) holds the hidden part", tasks(func(_ int, t *sdk.Task) { t.Workspace.Patches = []string{string(t.Hidden)} })},
		{"a part of the hidden part", "hidden", "(prompt) holds a part of what is hidden", tasks(func(_ int, t *sdk.Task) {
			t.Hidden = []byte("{\"token\": \"sesame-open-1234\",\n\"n\": 1}")
			t.Prompt += "sesame-open-1234"
		})},
		{"the reference in its place", "hidden", "sum.txt holds the reference's sum.txt", tasks(func(_ int, t *sdk.Task) {
			t.Workspace.Files = append(t.Workspace.Files[:2:2], sdk.File{Path: "sum.txt", Data: []byte("42\n")})
		})},
		{"the reference in the prompt", "hidden", "(prompt) holds the reference's sum.txt", tasks(func(_ int, t *sdk.Task) {
			t.Reference.Changes[0].Data = []byte("the sum of them is 42")
			t.Prompt += "\nthe sum of them is 42\n"
		})},
		{"a reference worth half", "gold", "want 1, got 0.5: half", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if answer(o) == "42\n" {
				return &sdk.Verdict{Score: 0.5, Reason: "half"}
			}
			return nil
		})},
		{"points for nothing", "empty answer", "want 0, got 0.5: something", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if len(o.Changes) == 0 {
				return &sdk.Verdict{Score: 0.5, Reason: "something"}
			}
			return nil
		})},
		{"a panic over nothing", "empty answer", "an error and no verdict: panic: runtime error: index out of range [0]", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			_ = o.Changes[0]
			return nil
		})},
		{"an error for a wrong answer", "malformed", "an error and no verdict: not a number", &adder{fails: func(o *sdk.Output) error {
			if answer(o) != "" && answer(o) != "42\n" {
				return errors.New("not a number")
			}
			return nil
		}}},
		{"all for a long answer", "malformed", "a line of 4 MiB: want less than 1, got 1: long", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if len(answer(o)) > 1<<20 {
				return &sdk.Verdict{Score: 1, Reason: "long"}
			}
			return nil
		})},
		{"reads past garbage", "malformed", "panic: runtime error: slice bounds out of range", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if a := answer(o); a != "" {
				_ = a[2:strings.IndexByte(a, '\n')]
			}
			return nil
		})},
		{"an end that counts", "malformed", "nothing, ended by timeout: want less than 1, got 1", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if o.End == "timeout" {
				return &sdk.Verdict{Score: 1, Reason: "late"}
			}
			return nil
		})},
		{"trusts the message", "tampering", "success claimed in the message: want 0, got 1", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if strings.Contains(o.Message, "solved") {
				return &sdk.Verdict{Score: 1, Reason: "so they say"}
			}
			return nil
		})},
		{"trusts a report that names the tests", "tampering", "a forged report in the answer's place: want 0, got 1: passed", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if strings.Contains(answer(o), "t.T.test_a ... ok") {
				return &sdk.Verdict{Score: 1, Reason: "passed"}
			}
			return nil
		})},
		{"trusts the answer in words", "tampering", "the answer said and not written: want 0, got 1", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if strings.Contains(o.Message, "42\n") {
				return &sdk.Verdict{Score: 1, Reason: "heard"}
			}
			return nil
		})},
		{"trusts what is printed", "tampering", "success claimed in the answer's place: want 0, got 1", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if strings.Contains(answer(o), "passed in") {
				return &sdk.Verdict{Score: 1, Reason: "green"}
			}
			return nil
		})},
		{"trusts a planted file", "tampering", "success claimed in files: want 0, got 1", &adder{
			built: func(_ int, r *sdk.BuildResponse) { r.Tasks[0].Collect = []string{"*.txt"} },
			evaluated: func(_ context.Context, _ sdk.Host, _ int, o *sdk.Output) *sdk.Verdict {
				for _, c := range o.Changes {
					if c.Path == "score.txt" {
						return &sdk.Verdict{Score: 1, Reason: "as the file says"}
					}
				}
				return nil
			},
		}},
		{"changes its mind", "repeats", "two verdicts on one answer (reference) differ", verdict(func(n int, o *sdk.Output) *sdk.Verdict {
			if answer(o) == "42\n" {
				return &sdk.Verdict{Score: 1, Reason: fmt.Sprint("call ", n)}
			}
			return nil
		})},
		{"more than all", "verdicts", "the reference: the score is 1.5, outside [0,1]", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if answer(o) == "42\n" {
				return &sdk.Verdict{Score: 1.5, Reason: "very"}
			}
			return nil
		})},
		{"no number", "verdicts", "component precision is NaN", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if len(o.Changes) == 0 {
				return &sdk.Verdict{Reason: "none", Components: []sdk.Component{{Name: "precision", Value: math.NaN()}}}
			}
			return nil
		})},
		{"a component without a name", "verdicts", "no name of its own", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			return &sdk.Verdict{Reason: "none", Components: []sdk.Component{{Name: "a"}, {Name: "a"}}}
		})},
		{"no reason", "verdicts", "score 0 without a reason", verdict(func(_ int, o *sdk.Output) *sdk.Verdict { return &sdk.Verdict{} })},
		{"repeats the answer", "limits", "a line of 4 MiB: the verdict has 4194", verdict(func(_ int, o *sdk.Output) *sdk.Verdict {
			if answer(o) != "42\n" {
				return &sdk.Verdict{Reason: "wrong: " + strings.ToValidUTF8(answer(o), "?")}
			}
			return nil
		})},
		{"asks without leave", "capabilities", `it asks for "sandbox", which plugin.toml does not declare`, &adder{
			evaluated: func(ctx context.Context, h sdk.Host, _ int, _ *sdk.Output) *sdk.Verdict {
				h.Run(ctx, &sdk.RunRequest{})
				return nil
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings := Examine(t.Context(), InProcess(tt.skill), Options{Records: records(), Declared: []string{}})
			f := find(t, findings, tt.check)
			if f.Status != Failed || !strings.Contains(f.String(), tt.says) {
				t.Errorf("%s %s: %s, want %q", f.Status, f.Check, f, tt.says)
			}
		})
	}
}

func TestNoEndIsFoundOnceAndStops(t *testing.T) {
	ended := make(chan struct{})
	defer close(ended)
	s := &adder{evaluated: func(_ context.Context, _ sdk.Host, _ int, o *sdk.Output) *sdk.Verdict {
		if o.Message != "" {
			<-ended
		}
		return nil
	}}
	findings := Examine(t.Context(), InProcess(s), Options{Records: records(), Timeout: 100 * time.Millisecond})
	if f := find(t, findings, "limits"); f.Status != Failed || len(f.Faults) != 1 || !strings.Contains(f.String(), "only words: no answer within 100ms") {
		t.Errorf("%+v", f)
	}
	for _, check := range []string{"malformed", "tampering", "repeats"} {
		if f := find(t, findings, check); f.Status != Skipped || f.Why != "not finished: a call did not end" {
			t.Errorf("%+v", f)
		}
	}
	if f := find(t, findings, "gold"); f.Status != OK {
		t.Errorf("%+v", f)
	}
}

func TestInterruptedIsNeverOK(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &adder{evaluated: func(_ context.Context, _ sdk.Host, _ int, o *sdk.Output) *sdk.Verdict {
		if len(o.Changes) == 0 {
			cancel()
		}
		return nil
	}}
	findings := Examine(ctx, InProcess(s), Options{Records: records()})
	for _, check := range []string{"malformed", "tampering", "repeats"} {
		if f := find(t, findings, check); f.Status != Skipped || f.Why != "not finished: interrupted" {
			t.Errorf("%+v", f)
		}
	}
}

func TestWhatIsNotOfferedIsSkipped(t *testing.T) {
	s := &adder{evaluated: func(ctx context.Context, h sdk.Host, _ int, o *sdk.Output) *sdk.Verdict {
		if _, err := h.Model(ctx, &sdk.ModelRequest{}); err != nil {
			panic(err)
		}
		return nil
	}}
	h := &Host{Answer: func(*sdk.ModelRequest) (*sdk.ModelResponse, error) {
		return nil, fmt.Errorf("model: %w", ErrNotOffered)
	}}
	findings := Examine(t.Context(), InProcess(s), Options{Records: records(), Host: h})
	for _, check := range []string{"gold", "empty answer", "malformed", "tampering"} {
		if f := find(t, findings, check); f.Status != Skipped || !strings.Contains(f.Why, "not offered") {
			t.Errorf("%+v", f)
		}
	}
}

func TestTasksAreBounded(t *testing.T) {
	findings := Examine(t.Context(), InProcess(&adder{}), Options{Records: records(), Tasks: 1})
	if f := find(t, findings, "gold"); f.Total != 1 {
		t.Errorf("%+v", f)
	}
}

func TestSandboxIsSearched(t *testing.T) {
	for name, tt := range map[string]struct {
		visible func(context.Context, *sdk.Workspace) ([]sdk.File, error)
		status  Status
		says    string
	}{
		"shows it": {func(_ context.Context, w *sdk.Workspace) ([]sdk.File, error) {
			return []sdk.File{{Path: "/tmp/task.bin", Data: []byte("..the sum is 42..")}}, nil
		}, Failed, "/tmp/task.bin holds the hidden part"},
		"fails": {func(context.Context, *sdk.Workspace) ([]sdk.File, error) { return nil, errors.New("no room") }, Failed, "make its sandbox: no room"},
		"none":  {nil, Skipped, "no sandbox to look into"},
	} {
		t.Run(name, func(t *testing.T) {
			f := find(t, Examine(t.Context(), InProcess(&adder{}), Options{Records: records(), Visible: tt.visible}), "sandbox")
			if f.Status != tt.status || !strings.Contains(f.String(), tt.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}

type decides func(n int, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error)

// arbiter judges by exit status, or as it is told.
type arbiter struct {
	as    decides
	calls int
}

func (*arbiter) Describe() (name, version string) { return "arbiter", "0.1.0" }

func (a *arbiter) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	a.calls++
	if a.as != nil {
		if j, err := a.as(a.calls, r); j != nil || err != nil {
			return j, err
		}
	}
	ok := r.Before.ExitCode == 1 && r.After.ExitCode == 0
	return &sdk.JudgeResponse{Verdict: ok, Confidence: 0.9, Rationale: "by exit status"}, nil
}

func TestJudges(t *testing.T) {
	for _, tt := range []struct {
		name, check, says string
		as                decides
	}{
		{"sound", "", "", nil},
		{"always yes", "no difference", "fine on both codes: want false, got true", func(int, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
			return &sdk.JudgeResponse{Verdict: true, Confidence: 1, Rationale: "yes"}, nil
		}},
		{"always no", "reproduced", "want true, got false", func(int, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
			return &sdk.JudgeResponse{Confidence: 1, Rationale: "no"}, nil
		}},
		{"an error over empty logs", "poor logs", "empty logs: an error and no opinion: nothing to read", func(_ int, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
			if r.Before.Output == "" {
				return nil, errors.New("nothing to read")
			}
			return nil, nil
		}},
		{"too sure", "opinions", "the confidence is 95, outside [0,1]", func(int, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
			return &sdk.JudgeResponse{Confidence: 95, Rationale: "no"}, nil
		}},
		{"no rationale", "opinions", "without a rationale", func(int, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) { return &sdk.JudgeResponse{}, nil }},
		{"changes its mind", "repeated opinions", "two opinions on the same logs differ", func(n int, _ *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
			return &sdk.JudgeResponse{Rationale: fmt.Sprint(n)}, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findings := Examine(t.Context(), InProcess(&arbiter{as: tt.as}), Options{Declared: []string{}})
			for _, f := range findings {
				if tt.check == "" && f.Status != OK {
					t.Errorf("%+v", f)
				}
			}
			if tt.check == "" {
				return
			}
			if f := find(t, findings, tt.check); f.Status != Failed || !strings.Contains(f.String(), tt.says) {
				t.Errorf("%+v, want %q", f, tt.says)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	o := Options{Records: records()}
	same := Compare(t.Context(), "a = b", InProcess(&adder{}), InProcess(&adder{}), o)
	if same.Status != OK || same.String() != "14/14 answers identical" {
		t.Errorf("%+v", same)
	}
	if judges := Compare(t.Context(), "a = b", InProcess(&arbiter{}), InProcess(&arbiter{}), o); judges.String() != "10/10 answers identical" {
		t.Errorf("%+v", judges)
	}
	if f := Compare(t.Context(), "a = b", InProcess(&arbiter{}), InProcess(&arbiter{as: func(int, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
		return &sdk.JudgeResponse{Rationale: "no"}, nil
	}}), o); f.Status != Failed || !strings.Contains(f.String(), `"by exit status" and false, 0, "no"`) {
		t.Errorf("%s", f)
	}
	for name, tt := range map[string]struct {
		other *adder
		says  string
	}{
		"tasks": {&adder{built: func(_ int, r *sdk.BuildResponse) { r.Tasks[0].Prompt += "!" }}, "one (full): 1 tasks of"},
		"verdict": {&adder{evaluated: func(_ context.Context, _ sdk.Host, _ int, o *sdk.Output) *sdk.Verdict {
			if bytes.Equal([]byte(answer(o)), []byte("42\n")) {
				return &sdk.Verdict{Score: 1, Reason: "yes"}
			}
			return nil
		}}, `the reference: score 1, components [], "the sum is right" and score 1, components [], "yes"`},
		"error": {&adder{fails: func(*sdk.Output) error { return errors.New("out of order") }}, "and error: out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			if f := Compare(t.Context(), "a = b", InProcess(&adder{}), InProcess(tt.other), o); f.Status != Failed || !strings.Contains(f.String(), tt.says) {
				t.Errorf("%s, want %q", f, tt.says)
			}
		})
	}
}
