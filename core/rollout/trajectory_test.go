package rollout

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

func turn(context, tokens []int, logprobs []float32, versions []int) Turn {
	return Turn{Turn: policy.Turn{Context: context, Tokens: tokens, Logprobs: logprobs, Versions: versions}}
}

func TestSequences(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []Turn
		want  []Sequence
	}{
		{"none", nil, nil},
		{"without tokens", []Turn{{Turn: policy.Turn{Text: "x"}}}, nil},
		{
			"turns that extend one another",
			[]Turn{
				turn([]int{1, 2}, []int{3, 4}, []float32{-1, -2}, []int{5, 5}),
				turn([]int{1, 2, 3, 4, 9}, []int{6}, []float32{-3}, []int{4}),
			},
			[]Sequence{{
				Tokens: []int{1, 2, 3, 4, 9, 6}, Sampled: []bool{false, false, true, true, false, true},
				Logprobs: []float32{0, 0, -1, -2, 0, -3}, Version: 4,
			}},
		},
		{
			"no answer between",
			[]Turn{turn([]int{1}, []int{2}, []float32{-1}, []int{0}), turn([]int{1, 2}, []int{3}, []float32{-2}, []int{0})},
			[]Sequence{{Tokens: []int{1, 2, 3}, Sampled: []bool{false, true, true}, Logprobs: []float32{0, -1, -2}}},
		},
		{
			"a turn that does not extend",
			[]Turn{
				turn([]int{1, 2}, []int{3}, []float32{-1}, []int{2}),
				turn([]int{1, 8, 3}, []int{4}, []float32{-2}, []int{3}), // another past
				turn([]int{1, 8, 3, 4, 5}, []int{6}, []float32{-3}, []int{1}),
				turn([]int{1}, []int{7}, []float32{-4}, []int{0}), // shorter
			},
			[]Sequence{
				{Tokens: []int{1, 2, 3}, Sampled: []bool{false, false, true}, Logprobs: []float32{0, 0, -1}, Version: 2},
				{Tokens: []int{1, 8, 3, 4, 5, 6}, Sampled: []bool{false, false, false, true, false, true}, Logprobs: []float32{0, 0, 0, -2, 0, -3}, Version: 1},
				{Tokens: []int{1, 7}, Sampled: []bool{false, true}, Logprobs: []float32{0, -4}},
			},
		},
		{
			"a turn without tokens between",
			[]Turn{turn([]int{1}, []int{2}, []float32{-1}, []int{0}), {Turn: policy.Turn{Full: true}}, turn([]int{1, 2}, []int{3}, []float32{-2}, []int{0})},
			[]Sequence{{Tokens: []int{1, 2, 3}, Sampled: []bool{false, true, true}, Logprobs: []float32{0, -1, -2}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &Trajectory{Turns: c.turns}
			if d := cmp.Diff(c.want, tr.Sequences()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// What a server counts stands in for tokens that it does not give, and its reasoning
// and costs are recorded.
func TestServedTrajectory(t *testing.T) {
	tr := &Trajectory{ID: "e", Task: &sdk.Task{Key: "k", Prompt: "p"}, Turns: []Turn{
		{Turn: policy.Turn{Reasoning: "hm", Call: &policy.Call{ID: "c", Tool: "bash"}, Usage: &policy.Usage{Prompt: 100, Cached: 60, Completion: 20, Cost: 0.5, Attempts: 2}}},
		{Turn: policy.Turn{Text: "Done.", Context: []int{1, 2}, Tokens: []int{3}, Logprobs: []float32{-1}, Versions: []int{0}, Usage: &policy.Usage{Prompt: 2, Completion: 1, Cost: 0.25, Attempts: 1}}},
	}}
	if n, p := tr.SampledTokens(), tr.PromptTokens(); n != 21 || p != 2 {
		t.Errorf("sampled %d, prompt %d", n, p)
	}
	a := tr.ATIF()
	first, last := a.Steps[1], a.Steps[2]
	if first.Reasoning != "hm" || first.Metrics.PromptTokens != 100 || first.Metrics.CachedTokens != 60 || first.Metrics.CostUSD != 0.5 || first.Metrics.CompletionTokenIDs != nil {
		t.Errorf("%+v", first)
	}
	if last.Metrics.CompletionTokens != 1 || last.Metrics.CostUSD != 0.25 || len(last.Metrics.PromptTokenIDs) != 2 {
		t.Errorf("%+v", last.Metrics)
	}
	if m := a.FinalMetrics; m.TotalPromptTokens != 102 || m.TotalCompletionTokens != 21 || m.TotalCachedTokens != 60 || m.TotalCostUSD != 0.75 {
		t.Errorf("%+v", m)
	}
}

// However a conversation goes, every sampled token is in one sequence, in order,
// with its logprob, and nothing else is marked.
func TestSequencesKeepWhatWasSampled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var past, sampled []int
		var logprobs []float32
		tr := &Trajectory{}
		for i := range rapid.IntRange(0, 6).Draw(t, "turns") {
			if rapid.Bool().Draw(t, "forget") && len(past) > 0 {
				past = slices.Clone(past[:rapid.IntRange(0, len(past)-1).Draw(t, "keep")])
			}
			context := append(slices.Clone(past), rapid.SliceOfN(rapid.IntRange(0, 2), 1, 3).Draw(t, "context")...)
			tokens := rapid.SliceOfN(rapid.IntRange(0, 2), 0, 3).Draw(t, "tokens")
			x := turn(context, tokens, nil, nil)
			for j := range tokens {
				x.Logprobs = append(x.Logprobs, float32(-100*i-j-1))
				x.Versions = append(x.Versions, i)
			}
			sampled, logprobs = append(sampled, tokens...), append(logprobs, x.Logprobs...)
			tr.Turns = append(tr.Turns, x)
			past = append(context, tokens...)
		}
		var gotTokens []int
		var gotLogprobs []float32
		for _, s := range tr.Sequences() {
			if len(s.Sampled) != len(s.Tokens) || len(s.Logprobs) != len(s.Tokens) || len(s.Tokens) < 2 || s.Sampled[0] {
				t.Fatalf("malformed: %+v", s)
			}
			for j, on := range s.Sampled {
				switch {
				case on:
					gotTokens, gotLogprobs = append(gotTokens, s.Tokens[j]), append(gotLogprobs, s.Logprobs[j])
				case s.Logprobs[j] != 0:
					t.Fatalf("a logprob where nothing was sampled: %+v", s)
				}
			}
		}
		if !slices.Equal(gotTokens, sampled) || !slices.Equal(gotLogprobs, logprobs) || tr.SampledTokens() != len(sampled) {
			t.Fatalf("got %v %v, want %v %v", gotTokens, gotLogprobs, sampled, logprobs)
		}
	})
}

func TestTrajectoryCounts(t *testing.T) {
	tr := &Trajectory{Turns: []Turn{
		turn([]int{1, 2}, []int{3}, []float32{-1}, []int{7}),
		turn([]int{1, 2, 3, 4}, []int{5, 6}, []float32{-1, -1}, []int{6, 8}),
	}}
	if tr.SampledTokens() != 3 || tr.PromptTokens() != 4 || tr.Version(9) != 6 {
		t.Errorf("%d, %d, %d", tr.SampledTokens(), tr.PromptTokens(), tr.Version(9))
	}
	empty := &Trajectory{}
	if empty.SampledTokens() != 0 || empty.PromptTokens() != 0 || empty.Version(9) != 9 {
		t.Error("an empty trajectory has something")
	}
}

func TestATIF(t *testing.T) {
	tr := &Trajectory{
		ID: "e", Task: &sdk.Task{Key: "a/1", System: "be brief", Prompt: "go"}, Policy: "p", End: Submitted,
		Turns: []Turn{
			{Turn: policy.Turn{Call: &policy.Call{ID: "call_1", Tool: "bash", Arguments: map[string]string{"command": "ls"}},
				Context: []int{1, 2}, Tokens: []int{3}, Logprobs: []float32{-1}, Versions: []int{0}}, Observation: "a.py"},
			{Turn: policy.Turn{Malformed: "no tool", Context: []int{1, 2, 3, 4}, Tokens: []int{5}, Logprobs: []float32{-1}, Versions: []int{0}}, Observation: "Error: no tool"},
			{Turn: policy.Turn{Text: "done", Context: []int{9, 9, 9, 9, 9, 9}, Tokens: []int{6}, Logprobs: []float32{-1}, Versions: []int{0}}},
		},
	}
	a := tr.ATIF()
	var prompts [][]int
	for _, s := range a.Steps {
		if s.Metrics != nil {
			prompts = append(prompts, s.Metrics.PromptTokenIDs)
		}
	}
	// What the turn added; of one that does not extend the turn before, everything.
	if d := cmp.Diff([][]int{{1, 2}, {4}, {9, 9, 9, 9, 9, 9}}, prompts); d != "" {
		t.Errorf("prompt tokens (-want +got):\n%s", d)
	}
	if a.Steps[4].Metrics.Extra != nil || a.Steps[3].Metrics.Extra == nil {
		t.Error("extra says of the wrong turns that their prompt is what was added")
	}
	if s := a.Steps[2]; s.ToolCalls[0].ID != "call_1" || s.Observation.Results[0].SourceCallID != "call_1" || s.Observation.Results[0].Content != "a.py" {
		t.Errorf("%+v", s)
	}
	if len(a.Steps) != 5 || a.Steps[0].Source != "system" || a.Steps[1].Message != "go" || a.Steps[4].Message != "done" ||
		a.FinalMetrics.TotalPromptTokens != 12 || a.FinalMetrics.TotalCompletionTokens != 3 || a.FinalMetrics.TotalSteps != 5 {
		t.Errorf("%+v", a)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 4, ""}, {"abcd", 4, "abcd"}, {"abcd", 0, "abcd"}, {"abcde", 4, "ab\n[…]\nde"}, {"abcdef", 5, "ab\n[…]\ndef"},
		{"ééééé", 5, "é\n[…]\né"}, // a letter that would be cut is left out
	} {
		if got := clip(c.text, c.limit); got != c.want {
			t.Errorf("clip(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}
