//go:build wasip1

// The guest of knqyf263/go-plugin: it answers with the number of files that it is given.
package main

import (
	"context"
	"strconv"

	"github.com/valence-rl/valence/bench/plugins/knq"
	"github.com/valence-rl/valence/bench/plugins/work"
)

type skill struct{}

func init() { knq.RegisterSkill(skill{}) }

func main() {}

func (skill) Evaluate(_ context.Context, r *knq.EvaluateRequest) (*knq.Verdict, error) {
	n := work.Do(r.Task.Key, r.Seed, len(r.Task.Workspace.Files)+len(r.Output.Changes))
	return &knq.Verdict{Score: 1, Components: []*knq.Component{{Name: "files", Value: float64(n)}}, Reason: strconv.Itoa(n)}, nil
}
