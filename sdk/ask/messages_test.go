package ask

import (
	"slices"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/prompt"
)

func TestMessages(t *testing.T) {
	for text, want := range map[string][]sdk.ModelMessage{
		"be brief\n=== user ===\n\n{what}?\n": {{Role: "system", Content: "be brief"}, {Role: "user", Content: "why?"}},
		"{what}?\n":                           {{Role: "user", Content: "why?"}},
	} {
		p, err := prompt.Choose(text, "", "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Messages(p, []prompt.Value{{Name: "what", Text: "why"}})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if got, err := Messages(p, nil); err == nil {
			t.Errorf("%q without values: %v", text, got)
		}
	}
}
