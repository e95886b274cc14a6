// Package prompt turns a skill's template and a record's facts into the messages
// that an agent reads. Substitution is strict: a placeholder that nobody knows is
// an error that names template, placeholder and line, never an empty string.
//
// It is part of the guest: standard library only, and little of that.
package prompt

import (
	_ "embed"
	"fmt"
	"strings"
)

// System is the system prompt that the full form of every skill shares.
//
//go:embed system.txt
var System string

// userMark, alone on a line of a run's own template, parts the system prompt
// above it from the user's message below it.
const userMark = "=== user ==="

// Template is the text of a prompt before substitution.
type Template struct {
	Name   string // "full", "brief" or "custom", for error messages
	System string // system prompt with placeholders; may be empty
	User   string // user's message with placeholders
	Line   int    // lines of the source above User; 0 for the embedded ones
}

// Brief says whether the template is the skill's short form, made for policies
// with a context of some hundred tokens.
func (t *Template) Brief() bool { return t.Name == "brief" }

// Choose finds the template that [sdk.BuildRequest.Template] asks for: "full" (the
// default, "" means the same), "brief", or the text of a template, known by a line
// break or a brace. The full form carries [System]; the brief form has no system
// prompt; a text may bring its own, above a line that reads "=== user ===".
func Choose(choice, full, brief string) (*Template, error) {
	switch choice {
	case "", "full":
		return &Template{Name: "full", System: strings.TrimSpace(System), User: strings.TrimSpace(full)}, nil
	case "brief":
		return &Template{Name: "brief", User: strings.TrimSpace(brief)}, nil
	}
	if !strings.ContainsAny(choice, "\n{") {
		return nil, fmt.Errorf("choose prompt: %s: want \"full\", \"brief\" or the text of a template with its placeholders", choice)
	}
	t := &Template{Name: "custom", User: choice}
	offset := 0
	for i, line := range strings.Split(choice, "\n") {
		end := offset + len(line)
		if strings.TrimSpace(line) == userMark {
			t.System = strings.TrimSpace(choice[:offset])
			t.User = strings.TrimPrefix(choice[end:], "\n")
			t.Line = i + 1
			break
		}
		offset = end + 1
	}
	return t, nil
}
