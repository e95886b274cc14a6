package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func step(n int) Step {
	return Step{Step: n, Loss: float64(n), Skills: map[string]*SkillStep{"repro": {Groups: n, Ends: map[string]int{"submitted": n}}}, Fates: map[string]int{"trained": n}}
}

func TestStepsSurviveAndMetricsFollow(t *testing.T) {
	d := Dir(t.TempDir())
	want := []Episode{{ID: "a", Task: "repro/1", Score: 1, Outcome: Scored}, {ID: "b", Task: "repro/2", Outcome: "sandbox", Error: "died"}}
	for n := 1; n <= 3; n++ {
		if err := d.WriteStep(step(n), want); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.WriteStep(Step{Step: 2, Loss: 99}, nil); err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Step{step(1), step(2), step(3)}, steps); diff != "" {
		t.Errorf("a complete step must not be written over:\n%s", diff)
	}
	var got []Episode
	for e, err := range d.Episodes(2) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := d.DropStepsAfter(1); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(d.Path("metrics.jsonl"))
	if err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("metrics.jsonl after dropping: %q, %v", b, err)
	}
}

func TestHalfAStepIsNotRead(t *testing.T) {
	d := Dir(t.TempDir())
	if err := d.WriteStep(step(1), nil); err != nil {
		t.Fatal(err)
	}
	half := d.Path("steps", ".new-123")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "metrics.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	others := []string{half}
	for _, p := range []string{".new-1", "checkpoints/.new-1/config.json", "evals/000001-eval.new"} {
		others = append(others, d.Path(p))
		if err := errors.Join(os.MkdirAll(filepath.Dir(d.Path(p)), 0o755), os.WriteFile(d.Path(p), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if steps, err := d.Steps(); err != nil || len(steps) != 1 {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
	if err := d.DropStepsAfter(1); err != nil {
		t.Fatal(err)
	}
	for _, p := range others {
		if _, err := os.Stat(p); !os.IsNotExist(err) {
			t.Errorf("what a killed run left half-written must go: %s", p)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	d := Dir(t.TempDir())
	if err := d.WriteFile("state.json", []byte(`{"step":`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.State(); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("got %v", err)
	}
	if _, ok, err := Dir(t.TempDir()).State(); ok || err != nil {
		t.Errorf("a new run has no state and no error: %v %v", ok, err)
	}
}

func TestEvals(t *testing.T) {
	d := Dir(t.TempDir())
	for _, n := range []int{10, 0} {
		if err := d.WriteEval(Eval{Step: n, Split: "eval"}, []Episode{{ID: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	es, err := d.Evals()
	if err != nil || len(es) != 2 || es[0].Step != 0 || es[1].Step != 10 {
		t.Errorf("got %+v, %v", es, err)
	}
	if _, ok, err := d.Eval(5, "eval"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}
