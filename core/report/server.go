package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/journal"
)

// ServerUse says in words what a policy's server took.
func ServerUse(u journal.ServerUse) string {
	s := []string{grouped(u.Turns) + " turns"}
	if u.PromptTokens+u.CompletionTokens > 0 {
		read := number(float64(u.PromptTokens)) + " tokens read"
		if u.CachedTokens > 0 {
			read += " (" + number(float64(u.CachedTokens)) + " cached)"
		}
		s = append(s, read, number(float64(u.CompletionTokens))+" written")
	}
	if u.Cost > 0 {
		s = append(s, fmt.Sprintf("cost $%.2f", u.Cost))
	}
	if u.Turns > 0 {
		s = append(s, fmt.Sprintf("%.2f s a turn", u.Seconds/float64(u.Turns)))
	}
	if len(u.Faults) > 0 {
		var f []string
		for _, name := range slices.Sorted(maps.Keys(u.Faults)) {
			f = append(f, fmt.Sprintf("%s %d", name, u.Faults[name]))
		}
		s = append(s, "failed attempts: "+strings.Join(f, " "))
	}
	return strings.Join(s, ", ")
}
