package mutate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/sdk"
)

// A language that an entry in a table adds gives records like those that are built in.
func TestAnotherLanguage(t *testing.T) {
	table, err := runner.Read("testdata/runners.toml")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := source.Open("testdata/shell")
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.Find("", tree.Files)
	if err != nil {
		t.Fatal(err)
	}
	var records []sdk.Record
	y, err := Run(t.Context(), tree, trial.NewLab(boxes(t), r, journal(t, ""), 1), Options{Seed: 1, Repeats: 2}, func(_ context.Context, r sdk.Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if y.Runner != "sh" || len(records) != 1 {
		t.Fatalf("%+v", y)
	}
	rec := &records[0]
	if rec.Language != "shell" || !slices.Equal(rec.TestFiles, []string{"lib.test.sh"}) || len(rec.FailToPass) == 0 || !strings.Contains(rec.Problem, "got ") {
		t.Errorf("%+v", rec)
	}
	if y.Skills["editing"][Served] != 1 || y.Skills["unittest"][Served] != 1 || y.Skills["repro"]["no script could be derived from a failing test"] != 1 {
		t.Errorf("%v", y.Skills)
	}
}
