package journal

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
)

func TestSwapsAreKept(t *testing.T) {
	d := Dir(t.TempDir())
	if got, err := d.Swaps(); got != nil || err != nil {
		t.Fatalf("a run without swaps: %v, %v", got, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []Swap{
		{Time: at, Step: 2, Dispatch: 7, Skill: "repro", Role: "judge", From: "sha256:a", To: "sha256:b", Ref: "judge", By: ByCommand,
			Outcome: Accepted, Set: map[string]string{"skills.repro.judge": "judge"}, File: map[string]string{"skills.repro.judge": "rules"}},
		{Time: at, Step: 3, Dispatch: -1, By: ByFile, Outcome: Refused, Reason: "error[C002]: not TOML\n  --> <run>.toml:1:1"},
		{Time: at, Step: 3, Dispatch: -1, Skill: "editing", By: BySignal, Outcome: Refused, Reason: "no"},
	}
	if err := d.AddSwaps(want[0]); err != nil {
		t.Fatal(err)
	}
	if err := d.AddSwaps(want[1:]...); err != nil {
		t.Fatal(err)
	}
	got, err := d.Swaps()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(d.Path(swapsFile), []byte("{}\n{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Swaps(); diag.KindOf(err) != diag.KindData {
		t.Errorf("half a line: %v", err)
	}
	if err := d.AddSwaps(want[0]); diag.KindOf(err) != diag.KindData {
		t.Errorf("nothing may be written over a file that cannot be read: %v", err)
	}
}
