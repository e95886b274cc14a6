// Package grpo is the algorithm on a page: from the scores of a group of episodes
// to the weight that each sampled token gets in the loss, as pure functions.
//
// The computation, for groups of G episodes of one task each:
//
//	reward      r = low + (high − low)·score                                [Config.Reward]
//	valid       episodes with a verdict whose end is not filtered           [Config.State]
//	advantage   A_i = r_i − baseline, optionally over the standard deviation  [Advantages]
//	ratio       ρ_it = exp(logπ_it − old_it) over the policy's own tokens   [Ratio]
//	loss        −Σ_i Σ_t w_i·f_it·min(ρ_it·A_i, clip(ρ_it, 1−low, 1+high)·A_i)  [Surrogate]
//	weight      w_i by the length normalisation                             [Weights]
//	correction  f_it = min(cap, exp(old_it − rollout_it))                   [Correction]
//
// Sources: GRPO, arXiv 2402.03300 eq. 3 and 4; the paper on atomic skills, arXiv
// 2604.05013 section 2.2; DeepSWE's write-up of GRPO++; Dr. GRPO 2503.20783;
// DAPO 2503.14476; RLOO 2402.14740; CISPO 2506.13585; GSPO 2507.18071;
// truncated importance sampling, IMPALA 1802.01561.
//
// What differs from the papers:
//   - An episode lost to a failing sandbox, plugin or judge has no reward. It
//     leaves the group, and a group with fewer than two voters is dropped. The
//     papers know no such episode.
//   - A group whose advantages are all zero is counted and not trained on, and
//     N counts only the episodes trained on. The papers let such groups shrink
//     the step.
//   - The standard deviation is that of a sample (n−1), as the published
//     implementations compute it; the papers leave it open.
//   - A filtered episode that votes does so with the reward of score 0, whatever
//     the run's reward range. In DeepSWE's range that is its 0.
//   - dr-grpo and rloo sum over tokens; here they divide by the constant L_max
//     too, so that the learning rate keeps its meaning between presets.
//
// What is left out: a value network, token-level rewards, DAPO's soft punishment
// of overlong answers, RLOO's KL term inside the reward, GSPO-token, and the
// refresh of the reference policy. More than one update a batch is the
// caller's choice; nothing here changes with it.
package grpo

import (
	"math"
)

// Baseline is what an episode's reward is compared with.
type Baseline string

// The baselines. V is the set of voters of the group.
const (
	GroupMean   Baseline = "group_mean"    // mean over V, the episode itself included
	LeaveOneOut Baseline = "leave_one_out" // mean over V without the episode
	NoBaseline  Baseline = "none"          // 0
)

// stdFloor is added to the standard deviation (ALGORITHMS 3, preset grpo).
const stdFloor = 1e-6

// State says what an episode may do in its group.
type State uint8

// The states.
const (
	Valid    State = iota // votes in the baseline and is trained on
	Filtered              // masked by compact filtering; votes only with FilteredVote
	Failed                // has no score; neither votes nor is trained on
)

// Fate is what becomes of a whole group, in the words of the dispatch ledger.
type Fate string

// The fates that the algorithm decides.
const (
	Trained     Fate = "trained"
	NoSignal    Fate = "no_signal" // every advantage is 0
	AllFiltered Fate = "filtered"  // filtering left too few
	TooFew      Fate = "failed"    // fewer than two episodes have a score
)

// Reward is low + (high − low)·score (ALGORITHMS 1).
func (c Config) Reward(score float64) float64 {
	return c.RewardLow + (c.RewardHigh-c.RewardLow)*score
}

// State classifies an episode that has a score by why it ended: compact filtering
// masks the reasons listed in Filter (write-up, section 5.6).
func (c Config) State(end string) State {
	for _, f := range c.Filter {
		if f == end {
			return Filtered
		}
	}
	return Valid
}

// Advantages computes one group's advantages from its rewards (ALGORITHMS 3).
// rewards[i] is read only where states[i] is Valid; the two have one length. The
// result has an entry for every episode, 0 where it is not trained on, and Fate
// says whether the group is. The slices are not kept.
//
// Leave-one-out is computed as n/(n−1)·(r − mean), which equals the definition.
func Advantages(c Config, rewards []float64, states []State) ([]float64, Fate) {
	adv := make([]float64, len(rewards))
	var votes []float64
	scored, valid := 0, 0
	for i, s := range states {
		switch s {
		case Valid:
			scored++
			valid++
			votes = append(votes, rewards[i])
		case Filtered:
			scored++
			if c.FilteredVote {
				votes = append(votes, c.Reward(0))
			}
		}
	}
	need := 2
	if c.Baseline == NoBaseline && !c.Standardise {
		need = 1
	}
	if scored < need {
		return adv, TooFew
	}
	if len(votes) < need || valid == 0 {
		return adv, AllFiltered
	}
	mean := mean(votes)
	n := float64(len(votes))
	scale := 1.0
	if c.Baseline == LeaveOneOut {
		scale = n / (n - 1)
	}
	if c.Standardise {
		scale /= deviation(votes, mean) + stdFloor
	}
	if c.Baseline == NoBaseline {
		mean = 0
	} else if equal(votes) {
		// Without this, rounding in the mean would pass for a signal.
		return adv, NoSignal
	}
	signal := false
	for i, s := range states {
		if s == Valid {
			adv[i] = (rewards[i] - mean) * scale
			signal = signal || adv[i] != 0
		}
	}
	if !signal {
		return adv, NoSignal
	}
	return adv, Trained
}

// Weights gives the weight of each token of the episodes trained on in one step,
// all groups together (ALGORITHMS 3): sequence 1/(N·T_i), constant 1/(N·L_max),
// token 1/ΣT. lengths[i] counts the tokens that the policy sampled in episode i;
// an episode without any gets weight 0 and does not count in N. lmax is read by
// constant alone, where [Config.MaxLength] goes before it; it must be positive.
func Weights(c Config, lengths []int, lmax int) []float64 {
	n, total := 0, 0
	for _, t := range lengths {
		if t > 0 {
			n++
			total += t
		}
	}
	if c.MaxLength > 0 {
		lmax = c.MaxLength
	}
	w := make([]float64, len(lengths))
	for i, t := range lengths {
		if t <= 0 {
			continue
		}
		switch c.Length {
		case PerSequence:
			w[i] = 1 / (float64(n) * float64(t))
		case PerConstant:
			w[i] = 1 / (float64(n) * float64(lmax))
		case PerToken:
			w[i] = 1 / float64(total)
		}
	}
	return w
}

// Ratio is ρ = exp(logp − old).
func Ratio(logp, old float64) float64 { return math.Exp(logp - old) }

// Correction gives, for one episode, the factor of each token's weight that
// corrects for having been sampled by another engine or an older version:
// min(cap, exp(old − rollout)) of the token, or of the whole sequence, or 1 when
// the correction is off. old are the trainer's logprobs before the update,
// rollout those recorded while sampling; both have one length.
func Correction(c Config, old, rollout []float64) []float64 {
	f := make([]float64, len(old))
	sum := 0.0
	for i := range old {
		d := old[i] - rollout[i]
		sum += d
		f[i] = math.Min(c.TISCap, math.Exp(d))
	}
	for i := range f {
		switch c.TIS {
		case TISSequence:
			f[i] = math.Min(c.TISCap, math.Exp(sum))
		case TISOff:
			f[i] = 1
		}
	}
	return f
}

func mean(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// deviation is the standard deviation of a sample around its mean.
func deviation(x []float64, mean float64) float64 {
	s := 0.0
	for _, v := range x {
		s += float64((v - mean) * (v - mean))
	}
	return math.Sqrt(s / float64(len(x)-1))
}

func equal(x []float64) bool {
	for _, v := range x[1:] {
		if v != x[0] {
			return false
		}
	}
	return true
}
