package ask

import (
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/prompt"
)

// Messages fills a template in and gives it as the messages of a question: the system
// prompt, unless it is empty, and what the user says, without blanks around it.
func Messages(t *prompt.Template, values []prompt.Value) ([]sdk.ModelMessage, error) {
	system, user, err := t.Fill(values)
	if err != nil {
		return nil, err
	}
	said := sdk.ModelMessage{Role: "user", Content: strings.TrimSpace(user)}
	if system == "" {
		return []sdk.ModelMessage{said}, nil
	}
	return []sdk.ModelMessage{{Role: "system", Content: system}, said}, nil
}
