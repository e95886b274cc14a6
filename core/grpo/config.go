package grpo

import (
	"math"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// Length is how a token's weight depends on the length of its episode.
//
// The choice matters more than it looks: with sequence, a token of a 100-token
// episode weighs 100 times one of a 10,000-token episode; with constant and
// token they weigh the same. GRPO++ as written up divides by the episode's own
// length; the code that DeepSWE shipped divides by one constant.
type Length string

// The length normalisations; see [Weights].
const (
	PerSequence Length = "sequence"
	PerConstant Length = "constant"
	PerToken    Length = "token"
)

// TIS is the truncated importance sampling of [Correction].
type TIS string

// The corrections.
const (
	TISOff      TIS = "off"
	TISToken    TIS = "token"
	TISSequence TIS = "sequence"
)

// Objective is the form of the policy loss; see [Surrogate].
type Objective string

// The objectives. The names are those that engines use for their losses.
const (
	Clipped Objective = "ppo"   // min(ρA, clip(ρ)A) of each token
	CISPO   Objective = "cispo" // clip(ρ), held constant, times A·logπ of each token
	GSPO    Objective = "gspo"  // as ppo, with the geometric mean of the sequence's ratios for ρ
)

// Reasons why an episode ended without the agent's own submission, which Filter
// may list.
var filterable = []string{"max_context", "timeout", "max_steps"}

// Config holds every knob. The zero value is not usable: start from [Preset].
// The tags are the keys of the run's [grpo] table.
type Config struct {
	Objective Objective `toml:"objective"` // default ppo
	Baseline  Baseline  `toml:"baseline"`
	// Standardise divides advantages by the standard deviation of the group's
	// rewards, plus 1e-6.
	Standardise bool `toml:"std"`
	// ClipLow and ClipHigh bound the ratio to [1−low, 1+high]. Low is in (0,1],
	// high is above 0; +Inf leaves the upper side open.
	ClipLow  float64 `toml:"clip_low"`
	ClipHigh float64 `toml:"clip_high"`
	// KL is the coefficient of the divergence from the starting policy, ≥ 0.
	KL float64 `toml:"kl"`
	// Entropy is the coefficient of the entropy bonus, ≥ 0.
	Entropy float64 `toml:"entropy"`
	Length  Length  `toml:"length"`
	// MaxLength is L_max of Length = constant, in tokens. 0: the run's longest
	// possible episode (its max_context).
	MaxLength int `toml:"max_length"`
	// Filter lists the ends that compact filtering masks: max_context, timeout,
	// max_steps. What is not listed is scored as a failure would be.
	Filter []string `toml:"filter"`
	// FilteredVote lets a masked episode vote in the baseline, with the reward
	// of score 0.
	FilteredVote bool `toml:"filtered_vote"`
	// DynamicSampling draws another group in place of one without a signal,
	// so that every step trains on its full number of groups.
	DynamicSampling bool `toml:"dynamic_sampling"`
	// RewardLow and RewardHigh are the rewards of scores 0 and 1. Default −1, +1.
	RewardLow  float64 `toml:"reward_low"`
	RewardHigh float64 `toml:"reward_high"`
	TIS        TIS     `toml:"tis"`     // default off
	TISCap     float64 `toml:"tis_cap"` // at least 1; default 2
}

// Validate reports the first knob out of its range, as a diag.Error of kind
// config whose subject is the knob's key.
func (c Config) Validate() error {
	bad := func(key, format string, args ...any) error {
		return diag.Errorf(diag.KindConfig, "check grpo", key, format, args...)
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case !slices.Contains([]Objective{Clipped, CISPO, GSPO}, c.Objective):
		return bad("objective", "%q is none of ppo, cispo, gspo", c.Objective)
	case !slices.Contains([]Baseline{GroupMean, LeaveOneOut, NoBaseline}, c.Baseline):
		return bad("baseline", "%q is none of group_mean, leave_one_out, none", c.Baseline)
	case !(c.ClipLow > 0 && c.ClipLow <= 1):
		return bad("clip_low", "%v is outside (0, 1]", c.ClipLow)
	case !(c.ClipHigh > 0):
		return bad("clip_high", "%v is not above 0 (inf leaves it open)", c.ClipHigh)
	case !(c.KL >= 0) || !finite(c.KL):
		return bad("kl", "%v is not a finite number ≥ 0", c.KL)
	case !(c.Entropy >= 0) || !finite(c.Entropy):
		return bad("entropy", "%v is not a finite number ≥ 0", c.Entropy)
	case !slices.Contains([]Length{PerSequence, PerConstant, PerToken}, c.Length):
		return bad("length", "%q is none of sequence, constant, token", c.Length)
	case c.MaxLength < 0:
		return bad("max_length", "%d is negative", c.MaxLength)
	case !finite(c.RewardLow):
		return bad("reward_low", "%v is not finite", c.RewardLow)
	case !finite(c.RewardHigh):
		return bad("reward_high", "%v is not finite", c.RewardHigh)
	case c.RewardHigh <= c.RewardLow:
		return bad("reward_high", "%v is not above reward_low = %v", c.RewardHigh, c.RewardLow)
	case !slices.Contains([]TIS{TISOff, TISToken, TISSequence}, c.TIS):
		return bad("tis", "%q is none of off, token, sequence", c.TIS)
	case !(c.TISCap >= 1):
		return bad("tis_cap", "%v is below 1", c.TISCap)
	}
	for i, f := range c.Filter {
		if !slices.Contains(filterable, f) {
			return bad("filter", "%q cannot be filtered; max_context, timeout and max_steps can", f)
		}
		if slices.Contains(c.Filter[:i], f) {
			return bad("filter", "%q is listed twice", f)
		}
	}
	return nil
}
