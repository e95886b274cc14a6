package scoring

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Memo is a Runner that remembers the answers of another by content: the same
// workspace, patches, changes and commands are run once. Policies repeat
// themselves, so on small tasks this saves most of an evaluation's work.
//
// It is right where commands depend on nothing but their inputs, which the
// sandbox gives them no way around except the clock and the kernel's randomness;
// it is therefore a choice of the run ([sandbox] memo). Errors and runs that hit
// a deadline are not remembered.
type Memo struct {
	recall
	of Runner
}

// NewMemo remembers up to limit bytes of answers; 0 means 64 MiB.
func NewMemo(of Runner, limit int) *Memo { return &Memo{recall: newRecall(limit), of: of} }

// Run answers from memory or asks. Callers with the same request at the same time
// share one run; if its caller gives up, one of the others starts it again.
func (m *Memo) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	data, _, err := m.do(ctx, sha256.Sum256(wire.Marshal(r)), func() ([]byte, bool, error) {
		out, err := m.of.Run(ctx, r)
		if err != nil {
			return nil, false, err
		}
		late := slices.ContainsFunc(out.Logs, func(l sdk.Log) bool { return l.TimedOut })
		return wire.Marshal(out), !late, nil
	})
	if err != nil {
		return nil, err
	}
	out := new(sdk.RunResponse)
	return out, wire.Unmarshal(data, out)
}
