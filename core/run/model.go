package run

import (
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
	key, err := apiKey(c, "model.api_key_env", m.APIKeyEnv)
	if err != nil {
		return nil, err
	}
	dir := defaultAnswers()
	if m.Cache != nil {
		dir = *m.Cache
	}
	server := chatserver.New(chatserver.Options{
		Endpoints: []string{m.BaseURL}, Key: key, Concurrency: m.Concurrency, Timeout: m.Timeout,
		Prices: chatserver.Prices{Input: m.InputPrice, Cached: m.InputPrice, Output: m.OutputPrice}, Log: log,
	})
	return scoring.KeepAnswers(scoring.OpenAI(server, m.Name), m.Name, scoring.AnswersOptions{Dir: dir, Log: log}), nil
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
