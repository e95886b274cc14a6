package sdktest

import (
	"testing"

	"github.com/valence-rl/valence/sdk"
)

// Check runs the conformance suite on a skill in an author's own tests: [Examine]
// in this process, a subtest a check. h answers the capability calls, nil being a
// new [Host]; records are what tasks are built from, those of [Records] if none are
// given. A check that cannot be made is a skipped subtest.
//
// What only a host can find out is left to `valence plugin test`: that the manifest
// tells the truth, what a sandbox shows, and whether both transports agree.
func Check(t *testing.T, s sdk.Skill, h *Host, config []sdk.Pair, records ...sdk.Record) {
	t.Helper()
	o := Options{Records: records, Config: config}
	if h != nil {
		o.Host = h
	}
	report(t, Examine(t.Context(), InProcess(s), o))
}

// hostOnly are the checks that need more than the skill itself.
var hostOnly = map[string]bool{"sandbox": true, "capabilities": true}

func report(t *testing.T, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		if f.Status == Skipped && hostOnly[f.Check] {
			continue
		}
		t.Run(f.Check, func(t *testing.T) {
			t.Helper()
			switch f.Status {
			case Failed:
				for _, fault := range f.Faults {
					t.Error(fault)
				}
			case Skipped:
				t.Skip(f.Why)
			default:
				t.Log(f)
			}
		})
	}
}
