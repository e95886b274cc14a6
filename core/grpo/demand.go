package grpo

import (
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Offer is what an engine can do for a policy loss, as far as it concerns the
// knobs. The zero value offers nothing.
type Offer struct {
	Engine  string   // name, for messages
	Losses  []string // names of the losses, "ppo" among them
	KL      bool     // a divergence term against a frozen reference
	Entropy bool     // an entropy bonus
}

// Demand is the loss that a configuration asks for.
type Demand struct {
	Loss      string // "ppo", "cispo", "gspo"
	Low, High float64
	KL        float64
	Entropy   float64
}

// Loss maps the knobs to what an engine must compute, or refuses: an error of
// kind config names the knob and the engine that cannot honour it. Nothing is
// dropped silently. Everything that Demand does not carry is settled outside
// the engine, in advantages and weights.
func (c Config) Loss(o Offer) (Demand, error) {
	refuse := func(key, format string, args ...any) (Demand, error) {
		return Demand{}, diag.Errorf(diag.KindConfig, "check grpo", key, "engine "+o.Engine+" "+format, args...)
	}
	if err := c.Validate(); err != nil {
		return Demand{}, err
	}
	switch {
	case !slices.Contains(o.Losses, string(c.Objective)):
		return refuse("objective", "does not offer %q; it offers %s", c.Objective, strings.Join(o.Losses, ", "))
	case c.KL > 0 && !o.KL:
		return refuse("kl", "has no reference policy, so %v cannot be honoured; set 0", c.KL)
	case c.Entropy > 0 && !o.Entropy:
		return refuse("entropy", "has no entropy bonus, so %v cannot be honoured; set 0", c.Entropy)
	}
	return Demand{Loss: string(c.Objective), Low: c.ClipLow, High: c.ClipHigh, KL: c.KL, Entropy: c.Entropy}, nil
}
