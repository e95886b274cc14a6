package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Compare puts the same requests to two transports of one plugin, by the roles of a,
// and finds out whether tasks, verdicts and opinions are the same byte for byte. check
// is the finding's name.
func Compare(ctx context.Context, check string, a, b Subject, o Options) Finding {
	x := newExamination(ctx, a, o)
	t := x.tally(check, "answers identical")
	_, roles, err := a.Describe(ctx)
	if err != nil {
		t.fail("", "%v", err)
	}
	if slices.Contains(roles, "build") {
		x.compareTasks(t, a, b)
	}
	if slices.Contains(roles, "evaluate") {
		x.compareVerdicts(t, a, b)
	}
	if slices.Contains(roles, "judge") {
		x.compareOpinions(t, a, b)
	}
	return t.close(x.stopped)
}

func (x *examination) compareTasks(t *tally, a, b Subject) {
	for _, form := range forms {
		for i := range x.Records {
			rec := &x.Records[i]
			built := compare(x, t, rec.ID+" ("+form+")", [2]func(context.Context) (*sdk.BuildResponse, error){
				func(ctx context.Context) (*sdk.BuildResponse, error) {
					return a.Build(ctx, x.host, x.request(rec, form))
				},
				func(ctx context.Context) (*sdk.BuildResponse, error) {
					return b.Build(ctx, x.host, x.request(rec, form))
				},
			})
			if built == nil {
				continue
			}
			for j := range built.Tasks {
				x.take(&built.Tasks[j], rec)
			}
		}
	}
}

func (x *examination) compareVerdicts(t *tally, a, b Subject) {
	for _, k := range x.samples {
		for _, p := range k.compared() {
			request := &sdk.EvaluateRequest{Task: *k.task, Output: p.output, Config: x.Config, Seed: 11, Timeout: x.Timeout.Milliseconds()}
			compare(x, t, k.task.Key+", "+p.name, [2]func(context.Context) (*sdk.Verdict, error){
				func(ctx context.Context) (*sdk.Verdict, error) { return a.Evaluate(ctx, x.host, request) },
				func(ctx context.Context) (*sdk.Verdict, error) { return b.Evaluate(ctx, x.host, request) },
			})
		}
	}
}

func (x *examination) compareOpinions(t *tally, a, b Subject) {
	for _, of := range quarrels() {
		for _, q := range of.asked {
			q.request.Config = x.Config
			compare(x, t, q.name, [2]func(context.Context) (*sdk.JudgeResponse, error){
				func(ctx context.Context) (*sdk.JudgeResponse, error) { return a.Judge(ctx, x.host, &q.request) },
				func(ctx context.Context) (*sdk.JudgeResponse, error) { return b.Judge(ctx, x.host, &q.request) },
			})
		}
	}
}

// compared are the answers that both transports score.
func (k *sample) compared() []probe {
	out := []probe{{name: "nothing", output: sdk.Output{End: "submitted"}}, k.probe("words", claim)}
	if k.task.Reference != nil {
		out = append(out, probe{"the reference", k.reference()})
	}
	if len(k.paths) > 0 {
		out = append(out, k.everywhere("garbage", sdk.Change{Data: noise(4 << 10)}), k.everywhere("an early exit", sdk.Change{Data: []byte(leaves)}))
	}
	return out
}

// compare has both sides answer and gives the first one's answer, nil if there is none.
func compare[T any, P interface {
	*T
	wire.Message
}](x *examination, t *tally, what string, sides [2]func(context.Context) (P, error)) P {
	x.host.failure()
	var got [2]P
	var said [2]string
	for i, ask := range sides {
		ok := x.call(func(ctx context.Context) (err error) {
			got[i], err = ask(ctx)
			return err
		}, func(err error) { said[i] = "error: " + err.Error() })
		switch {
		case ok:
			said[i] = string(wire.Marshal(got[i]))
		case x.stopped != "" && said[i] != "":
			t.fail("", "%s: one of both does not answer: %s", what, said[i])
			return nil
		case x.stopped != "":
			t.cut = true
			return nil
		default:
			got[i] = nil
		}
	}
	switch {
	case got[0] == nil && got[1] == nil && errors.Is(x.host.failure(), ErrNotOffered):
		t.Why = "it asks for what is not offered here: " + said[0]
	case got[0] == nil && got[1] == nil:
		t.fail("", "%s: neither answers: %s", what, said[0])
	case got[0] == nil || got[1] == nil || !bytes.Equal([]byte(said[0]), []byte(said[1])):
		t.fail("", "%s: %s and %s", what, describe(got[0], said[0]), describe(got[1], said[1]))
	default:
		t.pass()
	}
	return got[0]
}

// describe says in words what one side answered.
func describe[P wire.Message](m P, said string) string {
	switch v := any(m).(type) {
	case *sdk.Verdict:
		if v != nil {
			return inWords(v)
		}
	case *sdk.BuildResponse:
		if v != nil {
			return fmt.Sprintf("%d tasks of %d bytes", len(v.Tasks), len(said))
		}
	case *sdk.JudgeResponse:
		if v != nil {
			return fmt.Sprintf("%t, %v, %q", v.Verdict, v.Confidence, v.Rationale)
		}
	}
	return said
}
