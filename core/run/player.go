package run

import (
	"context"
	"os"
	"path/filepath"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/replay"
)

// Policies lists the names that [Setup.OpenPolicy] knows.
var Policies = []string{"engine", "openai", "oracle", "noop", "replay", "random", "expert"}

// OpenPolicy opens a policy by name, "" being the configured one: engine (the weights in
// dir, or in the configured folder), openai (the model behind [server]), oracle (the
// tasks' own reference answers), noop (submits at once), replay (what was recorded in
// dir, or at the configured path), random (weights of the configured shape, untrained)
// or expert (the source's scripted expert).
func (s *Setup) OpenPolicy(ctx context.Context, name, dir string) (policy.Policy, error) {
	if name == "" {
		name = s.Config.Policy.Kind
	}
	switch name {
	case "openai":
		return s.servedPolicy(ctx)
	case "replay":
		if dir == "" {
			dir = s.Config.Policy.Path
		}
		return replay.Load(dir)
	case "engine":
		m, err := s.OpenModel(dir)
		if err != nil {
			return nil, err
		}
		return m.Policy, nil
	case "oracle":
		return policy.Oracle(), nil
	case "noop":
		return policy.Noop(), nil
	case "expert":
		return s.Expert()
	case "random":
		return s.randomPolicy()
	}
	return nil, diag.Errorf(diag.KindConfig, "open policy", name, "no such policy; there are %v", Policies)
}

// randomPolicy has the configured policy's shape and tokenizer, and weights that
// have learnt nothing.
func (s *Setup) randomPolicy() (policy.Policy, error) {
	shape, err := s.OpenModel("")
	if err != nil {
		return nil, err
	}
	c, tok := shape.Engine.Config(), shape.Tokenizer
	tmp, err := os.MkdirTemp("", "valence-random-*")
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", "random", err)
	}
	defer os.RemoveAll(tmp)
	at := filepath.Join(tmp, "policy")
	if err := os.Mkdir(at, 0o755); err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", "random", err)
	}
	if err := gorgonia.Create(at, c, seedOf(s.Config.Run.Seed, "random")); err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", "random", err)
	}
	m, err := s.openModel(at, tok)
	if err != nil {
		return nil, err
	}
	return m.Policy, nil
}
