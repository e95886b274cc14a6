package host

import (
	"errors"
	"fmt"
	"math"

	"github.com/valence-rl/valence/sdk"
)

func checkTasks(r *sdk.BuildResponse) error {
	if len(r.Tasks) == 0 && r.Skipped == "" {
		return errors.New("neither a task nor a reason why there is none")
	}
	seen := make(map[string]bool, len(r.Tasks))
	for i := range r.Tasks {
		key := r.Tasks[i].Key
		if key == "" {
			return fmt.Errorf("task %d of %d has no key", i+1, len(r.Tasks))
		}
		if seen[key] {
			return fmt.Errorf("two tasks have the key %q", key)
		}
		seen[key] = true
	}
	return nil
}

func checkVerdict(v *sdk.Verdict) error {
	if err := fraction("score", v.Score); err != nil {
		return err
	}
	for _, c := range v.Components {
		if c.Name == "" {
			return errors.New("a component has no name")
		}
		if math.IsNaN(c.Value) || math.IsInf(c.Value, 0) {
			return fmt.Errorf("component %q is %v", c.Name, c.Value)
		}
	}
	return nil
}

func checkOpinion(j *sdk.JudgeResponse) error { return fraction("confidence", j.Confidence) }

func fraction(name string, x float64) error {
	if !(x >= 0 && x <= 1) {
		return fmt.Errorf("%s is %v, want 0 to 1", name, x)
	}
	return nil
}
