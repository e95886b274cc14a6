package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Evaluate gives 1 if and only if the listed set of files is the reference set.
// Components: precision and recall of the list.
func (skill) Evaluate(_ context.Context, _ sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	if _, err := grade.ReadOptions(r.Config); err != nil {
		return nil, err
	}
	rec, err := grade.Reveal(&r.Task)
	if err != nil {
		return nil, err
	}
	want, err := reference(rec)
	if err != nil {
		return nil, err
	}
	data, ok := grade.Written(&r.Output, answer)
	if !ok {
		return verdict(0, 0, answer+" was not written"), nil
	}
	got := listed(string(data))
	if len(got) == 0 {
		return verdict(0, 0, answer+" names no file"), nil
	}
	var missed, wrong []string
	for _, f := range want {
		if !slices.Contains(got, f) {
			missed = append(missed, f)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			wrong = append(wrong, f)
		}
	}
	hits := float64(len(got) - len(wrong))
	v := verdict(hits/float64(len(got)), hits/float64(len(want)), "")
	if len(missed) == 0 && len(wrong) == 0 {
		v.Score = 1
		v.Reason = fmt.Sprintf("exactly the %d files of the reference", len(want))
		return v, nil
	}
	var parts []string
	if len(missed) > 0 {
		parts = append(parts, "missing: "+strings.Join(missed, ", "))
	}
	if len(wrong) > 0 {
		parts = append(parts, "not to be changed: "+strings.Join(clip(wrong), ", "))
	}
	v.Reason = strings.Join(parts, "; ")
	return v, nil
}

func verdict(precision, recall float64, reason string) *sdk.Verdict {
	return &sdk.Verdict{
		Components: []sdk.Component{{Name: "precision", Value: precision}, {Name: "recall", Value: recall}},
		Reason:     reason,
	}
}

// listed reads the set of paths out of location.txt. Order, duplicates, blank
// lines, blanks around a path, "./", line ends and a byte order mark do not matter.
func listed(text string) []string {
	var out []string
	seen := map[string]bool{} // not a search of out: a long list is no way to run out of time
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line = path.Clean(line); !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	return out
}

// clip shortens what an agent wrote to what a reason can hold.
func clip(names []string) []string {
	if len(names) > 10 {
		names = append(names[:10:10], fmt.Sprintf("and %d more", len(names)-10))
	}
	for i, n := range names {
		if len(n) > 200 {
			names[i] = strings.ToValidUTF8(n[:200], "") + "…"
		}
	}
	return names
}
