package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModelUseAdds(t *testing.T) {
	var u ModelUse
	for _, v := range []*ModelUse{
		nil,
		{Cached: 2},
		{Calls: 1, PromptTokens: 10, CompletionTokens: 1, Cost: 0.5, LatencyMean: 4, LatencyMax: 4},
		{Calls: 3, Failures: 1, PromptTokens: 20, CompletionTokens: 2, Cost: 0.25, LatencyMean: 2, LatencyMax: 3},
	} {
		u.Add(v)
	}
	want := ModelUse{Calls: 4, Cached: 2, Failures: 1, PromptTokens: 30, CompletionTokens: 3, Cost: 0.75, LatencyMean: 2.5, LatencyMax: 4}
	if d := cmp.Diff(want, u); d != "" {
		t.Error(d)
	}
}
