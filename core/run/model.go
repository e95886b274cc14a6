package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring"
)

// openAnswers gives the model of [model] with its answers kept, nil if there is no
// such section. Every skill and judge of the process asks through it, so that its
// limits hold for all of them together. Nothing is asked yet.
func openAnswers(c *config.Config, log *slog.Logger) (scoring.Model, error) {
	m := c.Model
	if m.BaseURL == "" {
		return nil, nil
	}
	server, err := openModelServer(c, log)
	if err != nil {
		return nil, err
	}
	dir := defaultAnswers()
	if m.Cache != nil {
		dir = *m.Cache
	}
	return scoring.KeepAnswers(scoring.OpenAI(server, m.Name), m.Name, scoring.AnswersOptions{Dir: dir, Log: log}), nil
}

// openModelServer is the client of [model]. Nothing is asked yet.
func openModelServer(c *config.Config, log *slog.Logger) (*chatserver.Client, error) {
	m := c.Model
	key, err := apiKey(c, "model.api_key_env", m.APIKeyEnv)
	if err != nil {
		return nil, err
	}
	return chatserver.New(chatserver.Options{
		Endpoints: []string{m.BaseURL}, Key: key, Concurrency: m.Concurrency, Timeout: m.Timeout,
		Prices: chatserver.Prices{Input: m.InputPrice, Cached: m.InputPrice, Output: m.OutputPrice}, Log: log,
	}), nil
}

// OpenAuthor gives the model that writes for data, and its name: that of [model], as
// evaluators and judges ask it, or, without that section, that of [server]. It is asked
// once whether it is there. Its answers are not kept here.
func OpenAuthor(ctx context.Context, c *config.Config, log *slog.Logger) (model scoring.Completer, name string, err error) {
	var server *chatserver.Client
	switch {
	case c.Model.BaseURL != "":
		name = c.Model.Name
		server, err = openModelServer(c, log)
	case c.Server.Model != "":
		name = c.Server.Model
		server, err = openServer(c, log)
	default:
		return nil, "", &diag.Diagnostic{Kind: diag.KindConfig, Code: "C029", Summary: "the configuration names no model to ask",
			Source: diag.Source{File: c.File}, Hint: `add [model] with base_url = "http://…/v1" and name = "…", or [server]`}
	}
	if err == nil {
		err = diag.Wrap(diag.KindPolicy, "open model", name, server.Reach(ctx))
	}
	if err != nil {
		return nil, "", err
	}
	return scoring.OpenAI(server, name), name, nil
}

// apiKey reads the key from the environment variable that a key of the configuration
// names; no variable, no key.
func apiKey(c *config.Config, at, variable string) (string, error) {
	key := os.Getenv(variable)
	if variable != "" && key == "" {
		return "", &diag.Diagnostic{Kind: diag.KindConfig, Code: "C061",
			Summary: fmt.Sprintf("environment variable %q, which is to hold the model's key, is not set", variable),
			Source:  c.Where(at), Hint: "export it, or remove the key if the server wants none"}
	}
	return key, nil
}

// defaultAnswers is where the model's answers are kept when [model] cache names no
// place: valence/answers in the user's cache folder, or in the temporary folder if
// there is none.
func defaultAnswers() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "valence", "answers")
}
