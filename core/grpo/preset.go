package grpo

import (
	"math"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Presets lists the names that [Preset] knows, sorted.
func Presets() []string {
	return []string{"cispo", "dapo", "deepswe", "dr-grpo", "grpo", "grpo++", "gspo", "rloo"}
}

// Preset gives a published algorithm's knobs (ALGORITHMS 3), ready to be changed
// one by one. An unknown name is a diag.Error of kind config that lists the
// known ones.
func Preset(name string) (Config, error) {
	c := Config{
		Objective:  Clipped,
		Baseline:   GroupMean,
		ClipLow:    0.2,
		ClipHigh:   0.2,
		Length:     PerSequence,
		RewardLow:  -1,
		RewardHigh: 1,
		TIS:        TISOff,
		TISCap:     2,
	}
	switch name {
	case "grpo": // arXiv 2402.03300, as the paper on atomic skills uses it
		c.Standardise = true
	case "grpo++": // the write-up, word for word
		c.Baseline = LeaveOneOut
		c.ClipHigh = math.Inf(1)
		c.Filter = slices.Clone(filterable)
	case "deepswe": // what its code did
		c.Baseline = LeaveOneOut
		c.ClipHigh = 0.28
		c.Length = PerConstant
		c.Filter = slices.Clone(filterable)
		c.FilteredVote = true
		c.RewardLow = 0
	case "dr-grpo": // arXiv 2503.20783
		c.Length = PerConstant
	case "dapo": // arXiv 2503.14476, without its overlong punishment
		c.Standardise = true
		c.ClipHigh = 0.28
		c.Length = PerToken
		c.DynamicSampling = true
	case "rloo": // arXiv 2402.14740: REINFORCE, nothing clipped
		c.Baseline = LeaveOneOut
		c.ClipLow, c.ClipHigh = 1, math.Inf(1)
		c.Length = PerConstant
	case "cispo": // arXiv 2506.13585; it gives no value for the upper bound, 5 is ours
		c.Objective = CISPO
		c.Standardise = true
		c.ClipLow, c.ClipHigh = 1, 5
		c.Length = PerToken
		c.DynamicSampling = true
	case "gspo": // arXiv 2507.18071, section 5.1
		c.Objective = GSPO
		c.Standardise = true
		c.ClipLow, c.ClipHigh = 3e-4, 4e-4
	default:
		return Config{}, diag.Errorf(diag.KindConfig, "choose grpo preset", name, "unknown; there are %s", strings.Join(Presets(), ", "))
	}
	return c, nil
}
