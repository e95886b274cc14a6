package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/ask"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
)

//go:embed prompts/judge.txt
var judge string

// settings are the judge's keys of the run's TOML; plugin.toml documents them.
type settings struct {
	votes     int // odd
	logLimit  int // bytes
	maxTokens int
	prompt    string // text of a template
}

func readSettings(config []sdk.Pair) (s settings, err error) {
	o, err := grade.ReadOptions(config, "votes", "log_limit", "max_tokens", "prompt")
	if err != nil {
		return s, err
	}
	if s.votes, err = o.Int("votes", 1, 1, 9); err != nil {
		return s, err
	}
	if s.votes%2 == 0 {
		return s, fmt.Errorf("read options: votes: %d is even, so that votes could tie", s.votes)
	}
	if s.logLimit, err = o.Int("log_limit", 6000, 200, 1_000_000); err != nil {
		return s, err
	}
	if s.maxTokens, err = o.Int("max_tokens", 1024, 32, 100_000); err != nil {
		return s, err
	}
	s.prompt, err = o.Word("prompt", judge)
	return s, err
}

// messages puts the material into the template.
func (s settings) messages(r *sdk.JudgeRequest) ([]sdk.ModelMessage, error) {
	t, err := prompt.Choose(s.prompt, "", "")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(t.User) == "" {
		return nil, errors.New("read options: prompt: the template has no message for the model")
	}
	f := ask.NewFence(r.Issue, r.Script, r.Before.Output, r.After.Output)
	run := func(l *sdk.Log) string {
		return ended(l) + "\n" + f.Around("log", ask.Cut(l.Output, s.logLimit))
	}
	return ask.Messages(t, []prompt.Value{
		{Name: "mark", Text: f.String()},
		{Name: "issue", Text: f.Around("issue", r.Issue)},
		{Name: "script", Text: f.Around("script", ask.Cut(r.Script, s.logLimit))},
		{Name: "before", Text: run(&r.Before)},
		{Name: "after", Text: run(&r.After)},
	})
}

// ended tells how a run ended.
func ended(l *sdk.Log) string {
	s := "Exit status " + strconv.FormatInt(l.ExitCode, 10) + "."
	switch {
	case l.TimedOut:
		s = "It did not end within its time limit and was killed."
	case l.ExitCode > 128:
		s = "Killed by signal " + strconv.FormatInt(l.ExitCode-128, 10) + "."
	}
	if l.Truncated {
		s += " The log is cut at its end."
	}
	return s + " Log:"
}
