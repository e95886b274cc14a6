package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/sdk"
)

// stage gives what shows a rollout as it happens: text for a person, a line a turn and
// an answer with -o jsonl, and nothing with -o json, whose one value has everything.
func (a *app) stage(t *sdk.Task) rollout.Watcher {
	switch a.output {
	case "json":
		return nil
	case "jsonl":
		return lines{a.out}
	}
	p := a.paint(a.stdout)
	fmt.Fprintf(a.stdout, "%s %s\n", p.in(p.bold, "task"), t.Key)
	indented(a.stdout, t.Prompt)
	return &stage{w: a.stdout, paint: p, live: isTerminal(a.stdout)}
}

// lines shows a rollout as JSON lines.
type lines struct{ out *printer }

// Piece implements [rollout.Watcher]; a line is a whole turn.
func (lines) Piece(string) {}

// Turned implements [rollout.Watcher].
func (l lines) Turned(t *policy.Turn) {
	v := map[string]any{"text": t.Text}
	if t.Reasoning != "" {
		v["reasoning"] = t.Reasoning
	}
	if t.Call != nil {
		v["tool"], v["arguments"] = t.Call.Tool, t.Call.Arguments
	}
	if t.Malformed != "" {
		v["malformed"] = t.Malformed
	}
	if t.Full {
		v["full"] = true
	}
	l.out.event("turn", v)
}

// Answered implements [rollout.Watcher].
func (l lines) Answered(text string) { l.out.event("answer", map[string]any{"text": text}) }

// stage shows a rollout as text. Where it is live, on a terminal, a turn's text appears
// as it is written; else a turn appears when it is whole.
type stage struct {
	w       io.Writer
	paint   palette
	live    bool
	writing bool // a part of a turn has been shown
}

// Piece implements [rollout.Watcher].
func (s *stage) Piece(text string) {
	switch {
	case !s.live:
	case text == "" && s.writing:
		fmt.Fprintf(s.w, "\n%s\n", s.paint.in(s.paint.yellow, "cut by the server; again"))
		s.writing = false
	case text != "":
		if !s.writing {
			fmt.Fprintf(s.w, "%s\n    ", s.paint.in(s.paint.bold, "agent"))
			s.writing = true
		}
		io.WriteString(s.w, strings.ReplaceAll(harmless(text), "\n", "\n    "))
	}
}

// Turned implements [rollout.Watcher].
func (s *stage) Turned(t *policy.Turn) {
	shown := s.writing
	if shown {
		fmt.Fprintln(s.w)
		s.writing = false
	}
	said := func(who, text string) {
		if !shown && text != "" {
			s.head(who)
			indented(s.w, harmless(text))
		}
	}
	said("agent thinks", t.Reasoning)
	switch {
	case t.Full:
		said("agent says", t.Text)
		s.head("context full")
	case t.Malformed != "":
		said("agent says", t.Text)
		fmt.Fprintf(s.w, "%s %s\n", s.paint.in(s.paint.yellow, "cannot be read:"), harmless(t.Malformed))
	case t.Call != nil:
		said("agent says", t.Text)
		s.head("agent calls", t.Call.Tool)
		keys := make([]string, 0, len(t.Call.Arguments))
		for k := range t.Call.Arguments {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			indented(s.w, harmless(k+": "+t.Call.Arguments[k]))
		}
	case !shown:
		s.head("agent says")
		indented(s.w, harmless(t.Text))
	}
}

// Answered implements [rollout.Watcher].
func (s *stage) Answered(text string) {
	s.head("answer")
	indented(s.w, harmless(text))
}

func (s *stage) head(what string, more ...string) {
	fmt.Fprintln(s.w, strings.Join(append([]string{s.paint.in(s.paint.bold, what)}, more...), " "))
}

// harmless is text that moves no cursor and changes no colour of a terminal.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r < 0xA0 {
			return '\uFFFD'
		}
		return r
	}, text)
}
