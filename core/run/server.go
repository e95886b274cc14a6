package run

import (
	"context"
	"log/slog"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/served"
	"github.com/valence-rl/valence/core/rollout"
)

// servedPolicy is the model behind [server], which must be there and take the key.
func (s *Setup) servedPolicy(ctx context.Context) (policy.Policy, error) {
	c := s.Config
	v := c.Server
	if v.Model == "" {
		return nil, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C029",
			Summary: `the policy "openai" needs [server]`, Source: c.Where("policy"), Hint: `add [server] with base_urls = ["http://…/v1"] and model = "…"`}
	}
	extra, err := v.Fields()
	if err != nil {
		return nil, diag.Wrap(diag.KindConfig, "open policy", "openai", err)
	}
	client, err := openServer(c, s.log)
	if err != nil {
		return nil, err
	}
	s.cleanup = append(s.cleanup, func() error { client.Close(); return nil })
	if err := client.Reach(ctx); err != nil {
		return nil, diag.Wrap(diag.KindPolicy, "open policy", "openai", err)
	}
	s.server = client
	return served.New(client, served.Options{
		Model: v.Model, Tools: rollout.ToolDefinitions(), Brief: v.Chat == "brief", MaxContext: v.MaxContext,
		TopP: v.TopP, Seed: v.Seed, Stream: v.Stream, Tokens: v.Tokens, Reasoning: v.Reasoning,
		MaxTokens: v.MaxTokensField, Extra: extra, Log: s.log,
	}), nil
}

// openServer is the client of [server]. Nothing is asked yet.
func openServer(c *config.Config, log *slog.Logger) (*chatserver.Client, error) {
	v := c.Server
	key, err := apiKey(c, "server.api_key_env", v.APIKeyEnv)
	if err != nil {
		return nil, err
	}
	prices := chatserver.Prices{Input: v.InputPrice, Cached: v.InputPrice, Output: v.OutputPrice}
	if v.CachedPrice != nil {
		prices.Cached = *v.CachedPrice
	}
	return chatserver.New(chatserver.Options{
		Endpoints: v.BaseURLs, Key: key, Concurrency: v.Concurrency,
		RequestsPerMinute: v.RequestsPerMinute, TokensPerMinute: v.TokensPerMinute,
		Timeout: v.Timeout, Silence: v.Silence, Attempts: v.Attempts, Prices: prices, Log: log,
	}), nil
}

// trainable refuses a policy that cannot be trained.
func (s *Setup) trainable() error {
	if k := s.Config.Policy.Kind; k != "" && k != "engine" {
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C029",
			Summary: "a policy of kind \"" + k + "\" cannot be trained", Source: s.Config.Where("policy.kind"), Hint: `want kind = "engine"; --policy names another for eval and rollout`}
	}
	return nil
}

// faults counts the attempts at which the policy's server failed so far.
func (s *Setup) faults() map[chatserver.Fault]int {
	if s.server == nil {
		return nil
	}
	return s.server.Faults()
}
