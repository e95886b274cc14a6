package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// Binding is what gives one skill its tasks and its verdicts: a plugin, its judge,
// the settings of both, and the tasks that this plugin built. It never changes
// once it serves; a swap puts another in its place.
type Binding struct {
	Skill  string
	Plugin *host.Plugin
	Scorer *scoring.Scorer
	Train  []*sdk.Task
	Eval   map[string][]*sdk.Task // by split

	part    part
	plugins []*loaded // whatever this binding keeps loaded
}

// part is what a configuration says of a skill or a suite, as far as it makes a
// binding.
type part struct {
	table, name string // of [table.name]
	weight      float64
	plugin      string
	transport   string
	config      map[string]string
	grants      []string
	judge       string
	judgeConfig map[string]string
}

func (p part) key() string { return p.table + "." + p.name }

// parts lists the skills and then the suites of a configuration.
func parts(c *config.Config) []part {
	var out []part
	for _, k := range c.Skills {
		out = append(out, part{"skills", k.Name, k.Weight, k.Plugin, k.Transport, k.Config, k.Grants, k.Judge, k.JudgeConfig})
	}
	for _, k := range c.Suites {
		out = append(out, part{"suites", k.Name, 0, k.Plugin, k.Transport, k.Config, k.Grants, k.Judge, k.JudgeConfig})
	}
	return out
}

// partOf is what c says of a skill or a suite; false if it has none of that name.
func partOf(c *config.Config, name string) (part, bool) {
	for _, p := range parts(c) {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

// samePlugin says whether both name the same plugin in the same words.
func (p part) samePlugin(q part) bool {
	return p.plugin == q.plugin && p.transport == q.transport && maps.Equal(p.config, q.config) && slices.Equal(p.grants, q.grants)
}

// sameJudge says whether both name the same judge in the same words.
func (p part) sameJudge(q part) bool {
	return p.judge == q.judge && maps.Equal(p.judgeConfig, q.judgeConfig)
}

// bind loads what p names and checks that it can serve: roles, capabilities,
// settings. The binding has no tasks yet. c is where p was read from. It compiles
// what no cache has, which takes seconds.
func (s *Setup) bind(ctx context.Context, p part, c *config.Config) (b *Binding, err error) {
	b = &Binding{Skill: p.name, Eval: map[string][]*sdk.Task{}, part: p}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	if b.Plugin, err = s.load(ctx, b, p.plugin, p.transport, p.grants); err != nil {
		return b, err
	}
	for _, role := range []string{"build", "evaluate"} {
		if err := b.Plugin.Require(role, p.key(), c.Where(p.key()+".weight")); err != nil {
			return b, err
		}
	}
	settled, err := settle(b.Plugin.Manifest(), p.config, p.key()+".config", c)
	if err != nil {
		return b, err
	}
	b.Scorer = &scoring.Scorer{
		Skill: p.name, Evaluator: b.Plugin, Runner: s.runner, Config: settled,
		Model: s.model, Timeout: s.Config.Evaluate.Timeout, Log: s.log,
	}
	if p.judge == "" {
		return b, nil
	}
	j, err := s.load(ctx, b, p.judge, "", nil)
	if err != nil {
		return b, err
	}
	if err := j.Require("judge", p.key(), c.Where(p.key()+".judge")); err != nil {
		return b, err
	}
	b.Scorer.Judge = j
	b.Scorer.JudgeConfig, err = settle(j.Manifest(), p.judgeConfig, p.key()+".judge_config", c)
	return b, err
}

// settle checks the settings that stand under key in c against what the plugin
// declares, and adds its defaults.
func settle(m registry.Manifest, given map[string]string, key string, c *config.Config) ([]sdk.Pair, error) {
	out, err := m.Settings(given)
	var wrong *registry.SettingsError
	if errors.As(err, &wrong) {
		return nil, wrong.At(func(k string) diag.Source { return c.Where(key + "." + k) })
	}
	return out, err
}

// load finds and loads one plugin for b. nil grants are what its manifest declares.
func (s *Setup) load(ctx context.Context, b *Binding, ref, transport string, grants []string) (*host.Plugin, error) {
	find := s.finding
	find.Transport = transport
	m, err := registry.Resolve(ctx, ref, find)
	if err != nil {
		return nil, err
	}
	if grants == nil {
		grants = m.Manifest.Capabilities
	}
	o := host.Options{Grants: grants, Timeout: s.Config.Evaluate.Timeout, Log: s.log}
	if limit := s.Config.Evaluate.Memory; limit != nil {
		o.MemoryLimit = int64(*limit)
	}
	l, err := s.plugins.load(ctx, m, o)
	if err != nil {
		return nil, err
	}
	b.plugins = append(b.plugins, l)
	return l.Plugin, nil
}

// release lets go of the plugins. Nothing may use the binding any more.
func (b *Binding) release() {
	for _, l := range b.plugins {
		l.drop()
	}
	b.plugins = nil
}

// lines are the binding's lines of plugins.lock.
func (b *Binding) lines() []byte {
	var out []byte
	d := b.Scorer.Digests()
	for _, role := range []string{"evaluate", "judge"} {
		if d[role] != "" {
			out = fmt.Appendf(out, "%s.%s %s\n", b.Skill, role, d[role])
		}
	}
	return out
}
