package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/valence-rl/valence/bench/plugins/knq"
	"github.com/valence-rl/valence/sdk/wire"
)

// question is an evaluation as it occurs: an issue, the files of a workspace and what
// an agent changed.
type question struct {
	ours *wire.EvaluateRequest
	knq  *knq.EvaluateRequest // the same
}

// newQuestion makes one of about size bytes. The key is the task's kind, see package work.
func newQuestion(key string, size int, seed uint64) (question, error) {
	line := []byte("def total(items):\n    return sum(item.price for item in items)\n")
	r := &wire.EvaluateRequest{
		Task: wire.Task{
			Key: key, Skill: "bench", Record: "shop-17", Prompt: "The total is wrong when an item has no price.\n",
			Workspace: wire.Workspace{Env: []string{"PYTHONHASHSEED=0"}},
			Collect:   []string{"**/*.py"}, Hidden: []byte("0123456789abcdef"),
			Meta: []wire.Pair{{Key: "family", Value: "shop"}},
		},
		Output: wire.Output{
			Changes: []wire.Change{{Path: "shop/total.py", Data: bytes.Repeat(line, 3)}},
			Message: "An item without a price counts as free now.", End: "submitted",
		},
		Seed: seed, Timeout: 600_000,
	}
	for n := 0; ; n++ {
		left := size - len(wire.Marshal(r))
		if left < 50 {
			break
		}
		r.Task.Workspace.Files = append(r.Task.Workspace.Files, wire.File{Path: fmt.Sprintf("shop/part%d.py", n), Data: bytes.Repeat(line, 16)[:min(left-30, 1000)]})
	}
	q := question{r, new(knq.EvaluateRequest)}
	return q, q.knq.UnmarshalVT(wire.Marshal(r))
}

// verdict checks an answer. With an error it passes that on.
func verdict(out []byte, err error) error {
	var v wire.Verdict
	if err == nil {
		err = wire.Unmarshal(out, &v)
	}
	if err == nil && v.Score != 1 {
		err = errors.New("a wrong verdict")
	}
	return err
}

// judge is the host's service: it finds nothing wrong.
func judge(context.Context, uint32, []byte) ([]byte, error) {
	return wire.Marshal(&wire.JudgeResponse{}), nil
}
