package docs

import (
	"os"
	"slices"
	"testing"
)

// TestTutorial holds the listings of plugins.md to the skills that are tested.
func TestTutorial(t *testing.T) {
	page := read(t, "plugins.md")
	for language, files := range map[string][]string{
		"go":     {"docstrings/main.go", "docstrings/main_test.go"},
		"python": {"docstrings/check.py", "docstrings-python/skill.py"},
		"toml":   {"docstrings/plugin.toml"},
	} {
		shown := blocks(t, page, language)
		for _, name := range files {
			b, err := os.ReadFile("../examples/plugins/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(shown, string(b)) {
				t.Errorf("plugins.md does not show examples/plugins/%s as it is", name)
			}
		}
	}
}
