// Package prove shows that tasks can be trusted before anything is trained on them:
// each gives 1 to its reference and 0 to an agent that did nothing, each time.
package prove

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
)

// Options say how tasks are proved.
type Options struct {
	Repeats int // evaluations of each answer; default 3
	Jobs    int // evaluations at the same time; default 1
	Heard   func(done, all int)
	Found   func(Fault) // hears of each fault at once
}

// Skill is tasks of one skill, and what scores them.
type Skill struct {
	Name   string
	Scorer *scoring.Scorer
	Tasks  []sdk.Task
}

// Proof is what was found out about one skill.
type Proof struct {
	Skill   string  `json:"skill"`
	Tasks   int     `json:"tasks"`
	Tried   int     `json:"tried"`             // of them; fewer only after an interruption
	Without int     `json:"without_reference"` // tasks that have no reference to try
	Oracle  int     `json:"oracle"`            // tasks whose reference scored 1 each time
	Noop    int     `json:"noop"`              // tasks where nothing scored 0 each time
	Faults  []Fault `json:"faults,omitempty"`
}

// Fault is a task that did not go as it should.
type Fault struct {
	Task   string `json:"task"`
	Answer string `json:"answer"` // "reference" or "nothing"
	Says   string `json:"says"`
}

// Holds says whether every task with a reference gave 1 to it, and every task 0 to
// nothing.
func (p *Proof) Holds() bool { return len(p.Faults) == 0 }

// Tasks proves the tasks of skills, and gives a proof each. It blocks until all are
// evaluated. The error is that of an interruption alone, and what was found out until
// then comes with it: a task without a verdict is a fault.
func Tasks(ctx context.Context, skills []Skill, o Options) ([]*Proof, error) {
	if o.Repeats <= 0 {
		o.Repeats = 3
	}
	out := make([]*Proof, len(skills))
	var jobs []job
	for i := range skills {
		out[i] = &Proof{Skill: skills[i].Name, Tasks: len(skills[i].Tasks)}
		for k := range skills[i].Tasks {
			jobs = append(jobs, job{&skills[i], &skills[i].Tasks[k], out[i]})
		}
	}
	err := o.evaluate(ctx, jobs)
	for _, p := range out {
		slices.SortFunc(p.Faults, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Answer, b.Answer)) })
	}
	return out, err
}

type job struct {
	skill *Skill
	task  *sdk.Task
	proof *Proof
}

func (o *Options) evaluate(ctx context.Context, jobs []job) error {
	var mu sync.Mutex
	done := 0
	next := make(chan job)
	var wait sync.WaitGroup
	for range max(1, o.Jobs) {
		wait.Go(func() {
			for j := range next {
				oracle, noop, faults := o.one(ctx, j)
				if ctx.Err() != nil {
					continue // why there is no verdict
				}
				mu.Lock()
				p := j.proof
				p.Tried++
				p.Faults = append(p.Faults, faults...)
				switch {
				case j.task.Reference == nil:
					p.Without++
				case oracle:
					p.Oracle++
				}
				if noop {
					p.Noop++
				}
				if o.Found != nil {
					for _, f := range faults {
						o.Found(f)
					}
				}
				if done++; o.Heard != nil {
					o.Heard(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, j := range jobs {
		select {
		case next <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wait.Wait()
	return diag.Wrap(diag.KindInterrupted, "prove tasks", "", ctx.Err())
}

// one puts the reference and nothing to one task, some times each.
func (o *Options) one(ctx context.Context, j job) (oracle, noop bool, faults []Fault) {
	try := func(answer string, out sdk.Output, want float64) bool {
		for n := range o.Repeats {
			v, err := j.skill.Scorer.Score(ctx, j.task, out, uint64(n+1))
			switch {
			case err != nil:
				faults = append(faults, Fault{j.task.Key, answer, "no verdict: " + err.Error()})
				return false
			case v.Score != want:
				faults = append(faults, Fault{j.task.Key, answer, v.Reason})
				return false
			}
		}
		return true
	}
	if r := j.task.Reference; r != nil {
		oracle = try("reference", sdk.Output{Changes: r.Changes, Message: r.Message, End: "submitted"}, 1)
	}
	noop = try("nothing", sdk.Output{End: "submitted"}, 0)
	return oracle, noop, faults
}
