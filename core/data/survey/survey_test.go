package survey

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/sdk"
)

func TestSurvey(t *testing.T) {
	s := New(
		Builder{"editing", func(_ context.Context, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
			if len(r.Record.FailToPass) == 0 {
				return &sdk.BuildResponse{Skipped: "record " + r.Record.ID + " has no fail-to-pass"}, nil
			}
			return &sdk.BuildResponse{Tasks: make([]sdk.Task, 2)}, nil
		}},
		Builder{"broken", func(context.Context, *sdk.BuildRequest) (*sdk.BuildResponse, error) { return nil, errors.New("trap") }},
	)
	for i := range 3 {
		r := &sdk.Record{ID: fmt.Sprint("r", i)}
		if i == 0 {
			r.FailToPass = []string{"t"}
		}
		if err := s.Ask(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	want := []Skill{
		{"editing", 1, 2, 2, []Missing{{"record … has no fail-to-pass", 2, "r1"}}},
		{"broken", 0, 0, 3, []Missing{{"the builder failed: trap", 3, "r0"}}},
	}
	if d := cmp.Diff(want, s.Skills()); d != "" || s.Records() != 3 {
		t.Error(d)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Ask(ctx, &sdk.Record{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
