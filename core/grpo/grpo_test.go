package grpo

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var close9 = cmpopts.EquateApprox(0, 1e-9)

func preset(t interface{ Fatal(...any) }, name string) Config {
	c, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAdvantages(t *testing.T) {
	loo := Config{Baseline: LeaveOneOut, RewardHigh: 1}
	vote := loo
	vote.FilteredVote = true
	mean := Config{Baseline: GroupMean, RewardHigh: 1}
	std := mean
	std.Standardise = true
	none := Config{Baseline: NoBaseline, RewardHigh: 1}
	wide := vote
	wide.RewardLow = -1
	half := 0.5 / (math.Sqrt(1.0/3) + 1e-6)
	const v, f, x = Valid, Filtered, Failed
	for _, c := range []struct {
		name    string
		config  Config
		rewards []float64
		states  []State
		want    []float64
		fate    Fate
	}{
		{"leave one out", loo, []float64{1, 1, 0, 0}, []State{v, v, v, v}, []float64{2. / 3, 2. / 3, -2. / 3, -2. / 3}, Trained},
		{"second filtered", loo, []float64{1, 1, 0, 0}, []State{v, f, v, v}, []float64{1, 0, -.5, -.5}, Trained},
		{"second filtered but voting", vote, []float64{1, 1, 0, 0}, []State{v, f, v, v}, []float64{1, 0, -1. / 3, -1. / 3}, Trained},
		{"second failed, never voting", vote, []float64{1, 1, 0, 0}, []State{v, x, v, v}, []float64{1, 0, -.5, -.5}, Trained},
		{"vote in a wider range", wide, []float64{1, 0}, []State{v, f}, []float64{2, 0}, Trained},
		{"a failed reward is not read", loo, []float64{1, math.NaN(), 0}, []State{v, x, v}, []float64{1, 0, -1}, Trained},
		{"group mean", mean, []float64{1, 1, 0, 0}, []State{v, v, v, v}, []float64{.5, .5, -.5, -.5}, Trained},
		{"standardised", std, []float64{1, 1, 0, 0}, []State{v, v, v, v}, []float64{half, half, -half, -half}, Trained},
		{"none", none, []float64{1, 1, 0}, []State{v, v, v}, []float64{1, 1, 0}, Trained},
		{"none, equal", none, []float64{1, 1}, []State{v, v}, []float64{1, 1}, Trained},
		{"none, nothing", none, []float64{0, 0}, []State{v, v}, []float64{0, 0}, NoSignal},
		{"none, alone", none, []float64{1}, []State{v}, []float64{1}, Trained},
		{"all equal", loo, []float64{.1, .1, .1}, []State{v, v, v}, []float64{0, 0, 0}, NoSignal},
		{"all equal, standardised", std, []float64{.1, .1, .1}, []State{v, v, v}, []float64{0, 0, 0}, NoSignal},
		{"equal with the vote", vote, []float64{0, 1}, []State{v, f}, []float64{0, 0}, NoSignal},
		{"one left by filtering", loo, []float64{1, 0}, []State{v, f}, []float64{0, 0}, AllFiltered},
		{"none left by filtering", vote, []float64{1, 0}, []State{f, f}, []float64{0, 0}, AllFiltered},
		{"one with a score", loo, []float64{1, 0}, []State{v, x}, []float64{0, 0}, TooFew},
		{"empty", loo, nil, nil, []float64{}, TooFew},
	} {
		got, fate := Advantages(c.config, c.rewards, c.states)
		if d := cmp.Diff(c.want, got, close9); d != "" || fate != c.fate {
			t.Errorf("%s: fate %s, want %s\n%s", c.name, fate, c.fate, d)
		}
	}
}

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		length    Length
		configMax int
		lengths   []int
		want      []float64
	}{
		{PerSequence, 0, []int{100, 10000}, []float64{.005, .00005}},
		{PerConstant, 0, []int{100, 10000}, []float64{1. / 65536, 1. / 65536}},
		{PerConstant, 1000, []int{100, 10000}, []float64{.0005, .0005}},
		{PerToken, 0, []int{100, 10000}, []float64{1. / 10100, 1. / 10100}},
		{PerSequence, 0, []int{0, 4}, []float64{0, .25}},
		{PerToken, 0, []int{0}, []float64{0}},
		{PerConstant, 0, nil, []float64{}},
	} {
		got := Weights(Config{Length: c.length, MaxLength: c.configMax}, c.lengths, 32768)
		if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(1e-12, 0)); d != "" {
			t.Errorf("%s %v: %s", c.length, c.lengths, d)
		}
	}
}

func TestReward(t *testing.T) {
	for _, c := range []struct {
		preset      string
		score, want float64
	}{{"grpo++", 0, -1}, {"grpo++", 1, 1}, {"grpo++", .5, 0}, {"deepswe", 0, 0}, {"deepswe", 1, 1}} {
		if got := preset(t, c.preset).Reward(c.score); got != c.want {
			t.Errorf("%s: score %v: %v, want %v", c.preset, c.score, got, c.want)
		}
	}
}

func TestState(t *testing.T) {
	c := Config{Filter: []string{"max_context", "timeout"}}
	for end, want := range map[string]State{"submitted": Valid, "max_steps": Valid, "max_context": Filtered, "timeout": Filtered} {
		if got := c.State(end); got != want {
			t.Errorf("%s: %v, want %v", end, got, want)
		}
	}
}

func TestCorrection(t *testing.T) {
	old, rollout := []float64{-1, -1, -1}, []float64{-1, -1 - math.Log(3), -1 + math.Log(2)}
	for _, c := range []struct {
		tis  TIS
		want []float64
	}{{TISOff, []float64{1, 1, 1}}, {TISToken, []float64{1, 2, .5}}, {TISSequence, []float64{1.5, 1.5, 1.5}}} {
		got := Correction(Config{TIS: c.tis, TISCap: 2}, old, rollout)
		if d := cmp.Diff(c.want, got, close9); d != "" {
			t.Errorf("%s: %s", c.tis, d)
		}
	}
	if got := Correction(Config{TIS: TISSequence, TISCap: 1.25}, old, rollout); got[0] != 1.25 {
		t.Errorf("capped sequence: %v", got)
	}
}

// drawGroup draws rewards with at least two valid members.
func drawGroup(t *rapid.T) ([]float64, []State) {
	n := rapid.IntRange(2, 16).Draw(t, "n")
	r, s := make([]float64, n), make([]State, n)
	for i := range r {
		r[i] = rapid.Float64Range(-2, 2).Draw(t, "reward")
		if i > 1 {
			s[i] = State(rapid.IntRange(0, 2).Draw(t, "state"))
		}
	}
	return r, s
}

func TestAdvantageProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s := drawGroup(t)
		c := Config{RewardHigh: 1,
			Baseline:    rapid.SampledFrom([]Baseline{GroupMean, LeaveOneOut}).Draw(t, "baseline"),
			Standardise: rapid.Bool().Draw(t, "std"),
		}
		a, fate := Advantages(c, r, s)
		if fate == NoSignal {
			return
		}
		if fate != Trained {
			t.Fatalf("fate %s", fate)
		}
		sum := 0.0
		for i := range a {
			if s[i] != Valid && a[i] != 0 {
				t.Fatalf("masked episode %d has advantage %v", i, a[i])
			}
			sum += a[i]
		}
		// Without silent voters, advantages sum to zero under either baseline.
		if math.Abs(sum) > 1e-6 {
			t.Fatalf("sum %v", sum)
		}
		// Shifting all rewards changes nothing.
		shift := rapid.Float64Range(-5, 5).Draw(t, "shift")
		moved := make([]float64, len(r))
		for i := range r {
			moved[i] = r[i] + shift
		}
		b, _ := Advantages(c, moved, s)
		if c.Standardise { // tiny spreads amplify rounding
			return
		}
		if d := cmp.Diff(a, b, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Fatal(d)
		}
	})
}

// Leave-one-out equals its definition, vote or not.
func TestLeaveOneOutDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s := drawGroup(t)
		c := Config{Baseline: LeaveOneOut, RewardLow: -1, RewardHigh: 1, FilteredVote: rapid.Bool().Draw(t, "vote")}
		a, _ := Advantages(c, r, s)
		for i := range r {
			if s[i] != Valid {
				continue
			}
			sum, n := 0.0, 0
			for j := range r {
				switch {
				case j == i:
				case s[j] == Valid:
					sum += r[j]
					n++
				case s[j] == Filtered && c.FilteredVote:
					sum += -1
					n++
				}
			}
			if want := r[i] - sum/float64(n); math.Abs(want-a[i]) > 1e-9 {
				t.Fatalf("episode %d: %v, want %v", i, a[i], want)
			}
		}
	})
}

func TestWeightProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 5000), 1, 40).Draw(t, "lengths")
		lmax := rapid.IntRange(1, 5000).Draw(t, "lmax")
		n, total := 0, 0
		for _, l := range lengths {
			if l > 0 {
				n++
				total += l
			}
		}
		if n == 0 {
			return
		}
		for _, length := range []Length{PerSequence, PerConstant, PerToken} {
			sum := 0.0
			for i, w := range Weights(Config{Length: length}, lengths, lmax) {
				sum += w * float64(lengths[i])
			}
			want := 1.0
			if length == PerConstant {
				want = float64(total) / (float64(n) * float64(lmax))
			}
			if math.Abs(sum-want) > 1e-9*math.Max(1, want) {
				t.Fatalf("%s: weights sum to %v, want %v", length, sum, want)
			}
		}
	})
}
