package report

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/core/journal"
)

// model is what the run's evaluators and judges asked of the model, in training and
// in evaluations; zero if nothing.
func (r *Report) model() journal.ModelUse {
	var u journal.ModelUse
	for i := range r.Steps {
		u.Add(r.Steps[i].Model)
	}
	for i := range r.Evals {
		u.Add(r.Evals[i].Model)
	}
	return u
}

// ModelUse says in words what a model was asked; "" for nothing.
func ModelUse(u journal.ModelUse) string {
	if u.Calls+u.Cached == 0 {
		return ""
	}
	s := []string{fmt.Sprintf("%s calls", grouped(u.Calls))}
	if u.Failures > 0 {
		s[0] += fmt.Sprintf(" (%s without an answer)", grouped(u.Failures))
	}
	if u.Cached > 0 {
		s = append(s, grouped(u.Cached)+" answers cached")
	}
	if u.PromptTokens+u.CompletionTokens > 0 {
		s = append(s, number(float64(u.PromptTokens))+" tokens read", number(float64(u.CompletionTokens))+" written")
	}
	if u.Cost > 0 {
		s = append(s, fmt.Sprintf("cost %.2f", u.Cost))
	}
	if u.Calls > 0 {
		s = append(s, fmt.Sprintf("%.1f s a call, %.1f s at most", u.LatencyMean, u.LatencyMax))
	}
	return strings.Join(s, ", ")
}
