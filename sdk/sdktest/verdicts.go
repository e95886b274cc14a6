package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// verdicts puts outputs to an evaluator, and looks at whatever comes back.
type verdicts struct {
	*examination
	sane, limits *tally
}

// checkVerdicts evaluates what agents leave for each task.
func (x *examination) checkVerdicts() {
	gold := x.tally("gold", "reference answers score 1")
	v := &verdicts{
		examination: x,
		sane:        &tally{Finding: Finding{Check: "verdicts", Claim: "scores in [0,1], with named components and a reason"}},
		limits:      &tally{Finding: Finding{Check: "limits", Claim: "verdicts are in time and short"}},
	}
	first := map[string]*sdk.Verdict{} // by task and output
	for _, k := range x.samples {
		if k.task.Reference == nil {
			continue
		}
		if got := v.ask(gold, k, "the reference", k.reference(), x.Timeout); got != nil {
			first[k.task.Key+" reference"] = got
			v.want(gold, k, "", got, got.Score == 1, "1")
		}
	}
	if gold.Total == 0 && !gold.cut && len(x.samples) > 0 && gold.Why == "" {
		gold.Why = "no task has a reference"
	}
	empty := x.tally("empty answer", "empty answers score 0")
	for _, k := range x.samples {
		if got := v.ask(empty, k, "an empty answer", sdk.Output{End: "submitted"}, x.Timeout); got != nil {
			first[k.task.Key+" empty"] = got
			v.want(empty, k, "", got, got.Score == 0, "0")
		}
	}
	malformed := x.tally("malformed", "answers that make no sense get a verdict below 1")
	for i, k := range x.samples {
		for _, p := range k.malformed(i == 0) {
			if got := v.ask(malformed, k, p.name, p.output, x.Timeout); got != nil {
				v.want(malformed, k, p.name+": ", got, got.Score < 1, "less than 1")
			}
		}
	}
	tampering := x.tally("tampering", "attempts to deceive score 0")
	for _, k := range x.samples {
		for _, p := range k.tampering() {
			if got := v.ask(tampering, k, p.name, p.output, x.Timeout); got != nil {
				v.want(tampering, k, p.name+": ", got, got.Score == 0, "0")
			}
		}
	}
	repeats := x.tally("repeats", "verdicts are the same again, after others")
	for range x.Repeats - 1 {
		for _, k := range x.samples {
			for _, what := range []string{"reference", "empty"} {
				before := first[k.task.Key+" "+what]
				if before == nil {
					continue
				}
				out := sdk.Output{End: "submitted"}
				if what == "reference" {
					out = k.reference()
				}
				if got := v.ask(repeats, k, "once more", out, x.Timeout); got == nil {
					continue
				} else if !bytes.Equal(wire.Marshal(before), wire.Marshal(got)) {
					repeats.fail(k.task.Key, "two verdicts on one answer (%s) differ: %s; then %s", what, inWords(before), inWords(got))
				} else {
					repeats.pass()
				}
			}
		}
	}
	x.tallies = append(x.tallies, v.sane, v.limits)
	x.Heard(v.limits.Check)
	v.endless()
}

// endless has the answer's place filled by a program that does not end: the
// evaluator has to stop it in time and give a verdict.
func (v *verdicts) endless() {
	for _, k := range v.samples {
		if len(k.paths) == 0 {
			continue
		}
		const what = "a program that does not end"
		p := k.everywhere(what, sdk.Change{Data: []byte("import time\ntime.sleep(3600)\n")})
		if got := v.ask(v.limits, k, what, p.output, min(v.Timeout, unending)); got != nil {
			v.want(v.limits, k, what+": ", got, got.Score < 1, "less than 1")
		}
		return // one is enough: it takes its time
	}
}

// ask has one output evaluated. It gives nil, with the fault told to t, if there is
// no verdict.
func (v *verdicts) ask(t *tally, k *sample, what string, out sdk.Output, limit time.Duration) *sdk.Verdict {
	if t.Why != "" {
		return nil
	}
	v.host.failure()
	var got *sdk.Verdict
	request := &sdk.EvaluateRequest{Task: *k.task, Output: out, Config: v.Config, Seed: 11, Timeout: limit.Milliseconds()}
	if !v.call(func(ctx context.Context) (err error) {
		got, err = v.subject.Evaluate(ctx, v.host, request)
		return err
	}, func(err error) {
		switch {
		case v.stopped != "":
			v.limits.fail(k.task.Key, "%s: %v", what, err)
		case errors.Is(v.host.failure(), ErrNotOffered):
			t.Why = "it asks for what is not offered here: " + firstLine(err)
		default:
			t.fail(k.task.Key, "%s: an error and no verdict: %v", what, err)
		}
	}) {
		t.cut = v.stopped != ""
		return nil
	}
	v.look(k, what, got)
	return got
}

// look checks what holds for every verdict.
func (v *verdicts) look(k *sample, what string, got *sdk.Verdict) {
	fail := func(format string, args ...any) {
		v.sane.fail(k.task.Key, what+": "+format, args...)
	}
	outside := func(x float64) bool { return math.IsNaN(x) || x < 0 || x > 1 }
	ok := true
	switch {
	case outside(got.Score):
		ok = false
		fail("the score is %v, outside [0,1]", got.Score)
	case got.Reason == "":
		ok = false
		fail("score %v without a reason", got.Score)
	}
	names := map[string]bool{}
	for _, c := range got.Components {
		switch {
		case c.Name == "" || names[c.Name]:
			ok = false
			fail("a component has no name of its own: %q", c.Name)
		case outside(c.Value):
			ok = false
			fail("component %s is %v, outside [0,1]", c.Name, c.Value)
		}
		names[c.Name] = true
	}
	if ok {
		v.sane.pass()
	}
	if n := len(wire.Marshal(got)); n > maxVerdict {
		v.limits.fail(k.task.Key, "%s: the verdict has %d bytes, more than %d; cut what the agent wrote", what, n, maxVerdict)
	} else {
		v.limits.pass()
	}
}

// want passes or fails a case by its score.
func (v *verdicts) want(t *tally, k *sample, what string, got *sdk.Verdict, ok bool, want string) {
	if ok {
		t.pass()
	} else {
		t.fail(k.task.Key, "%swant %s, got %v: %s", what, want, got.Score, got.Reason)
	}
}

// checkCapabilities says whether the subject asked for more than it declares.
func (x *examination) checkCapabilities() {
	t := x.tally("capabilities", "capabilities used are declared")
	if x.Declared == nil {
		t.Why = "it is not known what the manifest declares"
		return
	}
	for _, c := range x.host.undeclared() {
		t.fail("", "it asks for %q, which plugin.toml does not declare", c)
	}
	for range len(x.host.asked) - len(t.Faults) {
		t.pass()
	}
	if t.Total == 0 {
		t.pass()
		t.Claim = "nothing is asked of the host"
	}
}

// inWords is a verdict in one line.
func inWords(v *sdk.Verdict) string {
	return fmt.Sprintf("score %v, components %v, %q", v.Score, v.Components, v.Reason)
}
