// Package suites knows the public suites by name and the repositories that their tasks
// come from, so that nothing is trained on them by accident.
package suites

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed suites.txt
var text string

// Suite is a public suite.
type Suite struct {
	Name         string   // "swebench-multilingual"
	About        string   // in words
	Repositories []string // "owner/name", lower case, sorted
}

// All lists the suites in the order of the list.
func All() []Suite {
	var out []Suite
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		head, body, _ := strings.Cut(strings.TrimSpace(paragraph), "\n")
		if name, about, ok := strings.Cut(head, ": "); ok && !strings.HasPrefix(head, "#") {
			s := Suite{name, about, strings.Fields(body)}
			slices.Sort(s.Repositories)
			out = append(out, s)
		}
	}
	return out
}

// Named finds a suite by its name.
func Named(name string) (Suite, bool) {
	all := All()
	i := slices.IndexFunc(all, func(s Suite) bool { return s.Name == name })
	if i < 0 {
		return Suite{}, false
	}
	return all[i], true
}

// Names lists the suites' names.
func Names() []string {
	var out []string
	for _, s := range All() {
		out = append(out, s.Name)
	}
	return out
}
