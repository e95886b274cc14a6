package symptom

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk/grade"
)

// phrases of an issue's parts. They say nothing of the cause.
var (
	wrongTitles  = []string{"Wrong result", "The result is not the expected one", "Unexpected result", "This gives something else than it should"}
	raisesTitles = []string{"Unexpected error", "This ends in an error", "Fails with an error", "An error where there should be none"}
	opens        = []string{"What I run:", "To see it:", "Steps to reproduce:", "This is enough to show it:"}
	closes       = []string{"What I get:", "It ends like this:", "The outcome:", "What happens:"}
)

// Issue words symptoms as the issue of somebody who met them; "" if there is none to
// tell. language is that of the code; others counts the tests that fail too. The seed
// chooses the words.
func Issue(symptoms []Symptom, language string, others int, seed uint64) string {
	s, ok := Telling(symptoms)
	if !ok {
		return ""
	}
	pick := func(list []string, what string) string {
		return list[grade.Hash(seed, what, s.Test)%uint64(len(list))]
	}
	var b strings.Builder
	titles := raisesTitles
	if first, _, _ := strings.Cut(s.Says, "\n"); strings.HasPrefix(first, "AssertionError") || strings.HasPrefix(first, "assert ") || strings.EqualFold(language, "go") && !strings.HasPrefix(first, "panic") && first+"\n" != notBuilt {
		titles = wrongTitles
	}
	b.WriteString(pick(titles, "title"))
	if s.Code != "" {
		fmt.Fprintf(&b, "\n\n%s\n\n```%s\n%s\n```", pick(opens, "open"), strings.ToLower(language), s.Code)
	} else {
		fmt.Fprintf(&b, " in what %s checks.", short(s.Test))
	}
	if s.Says != "" {
		fmt.Fprintf(&b, "\n\n%s\n\n```\n%s\n```", pick(closes, "close"), s.Says)
	}
	if others > 0 {
		checks := "another check"
		if others > 1 {
			checks = fmt.Sprintf("%d more checks", others)
		}
		fmt.Fprintf(&b, "\n\nThe same seems to be behind %s that fail.", checks)
		if others == 1 {
			return strings.Replace(b.String(), "another check that fail.", "another check that fails.", 1) + "\n"
		}
	}
	return b.String() + "\n"
}

// Telling gives the symptom that an issue tells; false if there is none to tell.
func Telling(symptoms []Symptom) (best Symptom, ok bool) {
	for _, s := range symptoms {
		if s.Says == "" && s.Code == "" {
			continue
		}
		if !ok || rank(s) > rank(best) {
			best, ok = s, true
		}
	}
	return best, ok
}

// rank prefers a symptom with both parts, and a short one.
func rank(s Symptom) int {
	n := -strings.Count(s.Code, "\n") - strings.Count(s.Says, "\n")
	if s.Code != "" && s.Says != "" {
		n += 100
	}
	return n
}

// short is the last part of a test's id.
func short(id string) string {
	if i := strings.LastIndex(id, "::"); i >= 0 {
		return id[i+2:]
	}
	return id[strings.LastIndexAny(id, "./")+1:]
}
