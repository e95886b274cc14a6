package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate gives 1 if and only if the judgment is the candidate's label.
func (skill) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if _, err := read(r.Config); err != nil {
		return nil, err
	}
	rec, err := grade.Reveal(&r.Task)
	if err != nil {
		return nil, err
	}
	if len(rec.Candidates) != 1 {
		return nil, fmt.Errorf("evaluate: %s: the hidden part has %d candidates, want 1", r.Task.Key, len(rec.Candidates))
	}
	want := label(rec.Candidates[0].Correct)
	got, ok := judgment(r.Output.Message)
	switch {
	case !ok:
		return grade.Fail("the final message has no <judgment>…</judgment>"), nil
	case got != "YES" && got != "NO":
		return grade.Fail("the judgment is neither YES nor NO"), nil
	case got != want:
		return grade.Fail("judged %s, but the label is %s", got, want), nil
	}
	return &sdk.Verdict{Score: 1, Reason: "judged " + got + ", as the label says"}, nil
}

// judgment gives the content of the last complete judgment element of a message,
// in capitals and without the blanks around it. Tags may be in any case.
func judgment(message string) (string, bool) {
	const open, end = "<judgment>", "</judgment>"
	m := strings.Map(func(c rune) rune { // ASCII only: other letters change their length
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, message)
	to := strings.LastIndex(m, end)
	if to < 0 {
		return "", false
	}
	from := strings.LastIndex(m[:to], open)
	if from < 0 {
		return "", false
	}
	return strings.ToUpper(strings.TrimSpace(m[from+len(open) : to])), true
}
