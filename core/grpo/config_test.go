package grpo

import (
	"math"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
)

func TestPresets(t *testing.T) {
	for _, name := range Presets() {
		if err := preset(t, name).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := []string{"max_context", "timeout", "max_steps"}
	base := Config{Objective: Clipped, Baseline: GroupMean, ClipLow: .2, ClipHigh: .2, Length: PerSequence, RewardLow: -1, RewardHigh: 1, TIS: TISOff, TISCap: 2}
	// The table of ALGORITHMS 3.
	plain, plus, deepswe := base, base, base
	plain.Standardise = true
	plus.Baseline, plus.ClipHigh, plus.Filter = LeaveOneOut, math.Inf(1), all
	deepswe.Baseline, deepswe.ClipHigh, deepswe.Filter = LeaveOneOut, .28, all
	deepswe.Length, deepswe.FilteredVote, deepswe.RewardLow = PerConstant, true, 0
	for name, want := range map[string]Config{"grpo": plain, "grpo++": plus, "deepswe": deepswe} {
		if d := cmp.Diff(want, preset(t, name)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	_, err := Preset("gpro")
	if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "grpo, grpo++, gspo, rloo") {
		t.Errorf("unknown preset: %v", err)
	}
	// What one caller does to its copy reaches no other.
	c := preset(t, "grpo++")
	c.Filter[0] = "changed"
	if preset(t, "deepswe").Filter[0] != "max_context" {
		t.Error("presets share their filter")
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		key  string
		edit func(*Config)
	}{
		{"objective", func(c *Config) { c.Objective = "reinforce" }},
		{"baseline", func(c *Config) { c.Baseline = "mean" }},
		{"clip_low", func(c *Config) { c.ClipLow = 1.5 }},
		{"clip_low", func(c *Config) { c.ClipLow = math.NaN() }},
		{"clip_high", func(c *Config) { c.ClipHigh = 0 }},
		{"kl", func(c *Config) { c.KL = -1 }},
		{"entropy", func(c *Config) { c.Entropy = math.Inf(1) }},
		{"length", func(c *Config) { c.Length = "mean" }},
		{"max_length", func(c *Config) { c.MaxLength = -1 }},
		{"reward_low", func(c *Config) { c.RewardLow = math.Inf(-1) }},
		{"reward_high", func(c *Config) { c.RewardHigh = math.NaN() }},
		{"reward_high", func(c *Config) { c.RewardHigh = -1 }},
		{"tis", func(c *Config) { c.TIS = "" }},
		{"tis_cap", func(c *Config) { c.TISCap = .5 }},
		{"filter", func(c *Config) { c.Filter = []string{"submitted"} }},
		{"filter", func(c *Config) { c.Filter = []string{"timeout", "timeout"} }},
	} {
		config := preset(t, "grpo++")
		c.edit(&config)
		err := config.Validate()
		if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "check grpo: "+c.key+": ") {
			t.Errorf("%s: %v", c.key, err)
		}
	}
}

// A run's table changes single knobs of a preset.
func TestConfigDecodes(t *testing.T) {
	c := preset(t, "grpo")
	if _, err := toml.Decode("clip_high = inf\nfilter = [\"timeout\"]\nstd = false\nbaseline = \"leave_one_out\"", &c); err != nil {
		t.Fatal(err)
	}
	want := preset(t, "grpo++")
	want.Filter = []string{"timeout"}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

func TestLoss(t *testing.T) {
	small := Offer{Engine: "gorgonia", Losses: []string{"cross_entropy", "ppo"}}
	full := Offer{Engine: "big", Losses: []string{"ppo", "gspo"}, KL: true, Entropy: true}
	kl, entropy := preset(t, "grpo"), preset(t, "grpo")
	kl.KL, entropy.Entropy = .04, .01
	for _, c := range []struct {
		name   string
		config Config
		offer  Offer
		want   Demand
		err    string
	}{
		{"plain", preset(t, "grpo++"), small, Demand{Loss: "ppo", Low: .2, High: math.Inf(1)}, ""},
		{"kl refused", kl, small, Demand{}, "check grpo: kl: engine gorgonia"},
		{"kl honoured", kl, full, Demand{Loss: "ppo", Low: .2, High: .2, KL: .04}, ""},
		{"entropy refused", entropy, small, Demand{}, "check grpo: entropy: engine gorgonia"},
		{"entropy honoured", entropy, full, Demand{Loss: "ppo", Low: .2, High: .2, Entropy: .01}, ""},
		{"gspo refused", preset(t, "gspo"), small, Demand{}, `check grpo: objective: engine gorgonia does not offer "gspo"; it offers cross_entropy, ppo`},
		{"gspo honoured", preset(t, "gspo"), full, Demand{Loss: "gspo", Low: 3e-4, High: 4e-4}, ""},
		{"invalid", Config{}, full, Demand{}, "check grpo: objective"},
	} {
		got, err := c.config.Loss(c.offer)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
