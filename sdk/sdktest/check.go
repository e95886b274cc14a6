package sdktest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Check runs the conformance suite on a skill that builds and evaluates. Of the
// records given, at least one must make a task in each of the forms "full" and
// "brief". For every task it checks that
//
//   - the same request gives the same tasks, with unique keys that start with the
//     skill's name, a prompt and something to collect;
//   - neither the workspace's files nor the prompts hold the hidden part;
//   - the reference scores 1, twice with the same verdict;
//   - an output without changes and words scores 0;
//   - every score and component lies in [0,1].
func Check(t *testing.T, s sdk.Skill, h *Host, config []sdk.Pair, records ...sdk.Record) {
	t.Helper()
	name, _ := s.Describe()
	for _, form := range []string{"full", "brief"} {
		t.Run(form, func(t *testing.T) {
			keys := map[string]bool{}
			for _, rec := range records {
				request := &sdk.BuildRequest{Record: rec, Template: form, Config: config, Seed: 7}
				built, err := Build(t.Context(), s, h, request)
				if err != nil {
					t.Fatalf("%s: build: %v", rec.ID, err)
				}
				again, err := Build(t.Context(), s, h, request)
				if err != nil || !bytes.Equal(wire.Marshal(built), wire.Marshal(again)) {
					t.Errorf("%s: the same request gives other tasks (error: %v)", rec.ID, err)
				}
				if (len(built.Tasks) == 0) == (built.Skipped == "") {
					t.Errorf("%s: want tasks or a reason for none: %d tasks, reason %q", rec.ID, len(built.Tasks), built.Skipped)
				}
				for i := range built.Tasks {
					task := &built.Tasks[i]
					if keys[task.Key] {
						t.Errorf("%s: the key is given twice", task.Key)
					}
					keys[task.Key] = true
					checkTask(t, s, h, name, config, task)
				}
			}
			if len(keys) == 0 {
				t.Error("no record makes a task")
			}
		})
	}
}

func checkTask(t *testing.T, s sdk.Skill, h *Host, name string, config []sdk.Pair, task *sdk.Task) {
	t.Helper()
	switch {
	case !strings.HasPrefix(task.Key, name+"/"), task.Skill != name:
		t.Errorf("%s: the key does not start with the skill's name %s", task.Key, name)
	case strings.TrimSpace(task.Prompt) == "":
		t.Errorf("%s: no prompt", task.Key)
	case len(task.Collect) == 0:
		t.Errorf("%s: collects everything", task.Key)
	}
	for _, f := range task.Workspace.Files {
		if len(task.Hidden) > 0 && bytes.Contains(f.Data, task.Hidden) {
			t.Errorf("%s: %s holds the hidden part", task.Key, f.Path)
		}
	}
	score := func(what string, out sdk.Output) *sdk.Verdict {
		t.Helper()
		v, err := Evaluate(context.Background(), s, h, &sdk.EvaluateRequest{Task: *task, Output: out, Config: config, Seed: 11, Timeout: 300_000})
		if err != nil {
			t.Fatalf("%s: evaluate %s: %v", task.Key, what, err)
		}
		for _, c := range append(v.Components, sdk.Component{Name: "score", Value: v.Score}) {
			if !(c.Value >= 0 && c.Value <= 1) {
				t.Errorf("%s: %s: %s is %v, outside [0,1]", task.Key, what, c.Name, c.Value)
			}
		}
		return v
	}
	if v := score("an empty output", sdk.Output{End: "submitted"}); v.Score != 0 {
		t.Errorf("%s: an empty output scores %v: %s", task.Key, v.Score, v.Reason)
	}
	if task.Reference == nil {
		return
	}
	out := sdk.Output{Changes: task.Reference.Changes, Message: task.Reference.Message, End: "submitted"}
	first := score("the reference", out)
	if first.Score != 1 {
		t.Errorf("%s: the reference scores %v: %s", task.Key, first.Score, first.Reason)
	}
	if second := score("the reference", out); !bytes.Equal(wire.Marshal(first), wire.Marshal(second)) {
		t.Errorf("%s: two verdicts on one output differ: %+v, %+v", task.Key, first, second)
	}
}
