package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/policy"
)

// The same rollout on a terminal, where text appears as it is written, and elsewhere,
// where a turn appears when it is whole.
func TestStage(t *testing.T) {
	call := &policy.Turn{Text: "Let me\nlook.", Reasoning: "hm", Call: &policy.Call{Tool: "bash", Arguments: map[string]string{"command": "ls"}}}
	show := func(live bool) string {
		var b strings.Builder
		s := &stage{w: &b, live: live}
		for _, p := range []string{"Let", "", "hm", "Let me\nlo", "ok."} {
			s.Piece(p)
		}
		s.Turned(call)
		s.Answered("a.py\x1b[2J\n")
		s.Turned(&policy.Turn{Text: "bash({", Malformed: "no JSON"})
		s.Answered("Error: no JSON")
		s.Piece("Done.")
		s.Turned(&policy.Turn{Text: "Done."})
		s.Turned(&policy.Turn{Full: true})
		return b.String()
	}
	if d := cmp.Diff(`agent thinks
    hm
agent says
    Let me
    look.
agent calls bash
    command: ls
answer
    a.py\ufffd[2J
agent says
    bash({
cannot be read: no JSON
answer
    Error: no JSON
agent says
    Done.
context full
`, strings.ReplaceAll(show(false), "\uFFFD", `\ufffd`)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(`agent
    Let
cut by the server; again
agent
    hmLet me
    look.
agent calls bash
    command: ls
answer
    a.py\ufffd[2J
agent says
    bash({
cannot be read: no JSON
answer
    Error: no JSON
agent
    Done.
context full
`, strings.ReplaceAll(show(true), "\uFFFD", `\ufffd`)); d != "" {
		t.Error(d)
	}
}
