package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/ask"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
)

//go:embed prompts/candidates.txt
var candidatesPrompt string

const (
	proposals  = 4
	codeLimit  = 60_000 // bytes of the files that the model reads
	testsLimit = 30_000 // milliseconds of one run of the tests
)

const candidatesSchema = `{"type":"object","properties":{"candidates":{"type":"array","items":{"type":"object",` +
	`"properties":{"edits":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}},` +
	`"required":["path","old","new"],"additionalProperties":false}}},"required":["edits"],"additionalProperties":false}}},` +
	`"required":["candidates"],"additionalProperties":false}`

// proposed asks the model for changes that claim to solve the issue and labels each by
// running the record's tests on it. Where there is none, why says in words what became
// of them. An error is a failure of the host or of the model's server.
func proposed(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (out []sdk.Candidate, why string, err error) {
	rec := &r.Record
	if len(rec.FailToPass) == 0 || rec.TestCommand == "" {
		return nil, "the record has no tests that tell a solution", nil
	}
	tree, code, why := sources(rec)
	if why != "" {
		return nil, why, nil
	}
	tests := func(rec *sdk.Record, changes []sdk.Change) (*grade.Report, error) {
		return grade.RunTests(ctx, h, rec, changes, r.Seed, rec.ID, testsLimit)
	}
	fixed := *rec
	fixed.Workspace.Patches = append(fixed.Workspace.Patches[:len(fixed.Workspace.Patches):len(fixed.Workspace.Patches)], rec.Patch)
	gold, err := tests(&fixed, nil)
	if err != nil {
		return nil, "", err
	}
	if !gold.Solved {
		return nil, "the tests do not pass with the gold patch: " + gold.Reason, nil
	}
	messages, err := candidatesQuestion(rec, code)
	if err != nil {
		return nil, "", err
	}
	answers, err := ask.JSON(ctx, h, &sdk.ModelRequest{
		Messages: messages, Schema: candidatesSchema, MaxTokens: 8192, Seed: grade.Hash(r.Seed, "candidates", rec.ID) | 1,
	}, readCandidates)
	var bad *ask.Malformed
	if errors.As(err, &bad) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	answers = answers[:min(len(answers), proposals)]
	for _, edits := range answers {
		patch, changes, err := patchOf(tree, edits)
		if err != nil || slices.ContainsFunc(out, func(c sdk.Candidate) bool { return c.Patch == patch }) {
			continue
		}
		rep, err := tests(rec, changes)
		if err != nil {
			return nil, "", err
		}
		out = append(out, sdk.Candidate{Patch: patch, Correct: rep.Solved, Origin: "model"})
	}
	if len(out) == 0 {
		why = fmt.Sprintf("none of %d changes by the model fits into the code", len(answers))
	}
	return out, why, nil
}

// sources gives the workspace's files and, of them, what the model reads: those that
// the gold patch changes, and as many of the other sources as find room.
func sources(rec *sdk.Record) (tree, code []sdk.File, why string) {
	if len(rec.Workspace.Files) == 0 {
		return nil, nil, "the files of the workspace are not listed in the record"
	}
	tree, err := grade.ApplyDiff(rec.Workspace.Files, rec.Workspace.Patches...)
	if err != nil {
		return nil, nil, err.Error()
	}
	gold, err := grade.ParseDiff(rec.Patch)
	if err != nil {
		return nil, nil, "the gold patch: " + err.Error()
	}
	room := codeLimit
	for _, needed := range []bool{true, false} {
		for _, f := range tree {
			touched := slices.ContainsFunc(gold, func(d grade.FileDiff) bool { return d.Old == f.Path })
			if touched != needed || !grade.IsSource(rec.Language, f.Path) || grade.IsTest(f.Path) {
				continue
			}
			switch {
			case len(f.Data) <= room:
				room -= len(f.Data)
				code = append(code, f)
			case needed:
				return nil, nil, fmt.Sprintf("%s is too long for the model", f.Path)
			}
		}
	}
	if len(code) == 0 {
		return nil, nil, "there is no source that the model could change"
	}
	return tree, code, ""
}

func candidatesQuestion(rec *sdk.Record, code []sdk.File) ([]sdk.ModelMessage, error) {
	texts := []string{rec.Problem}
	for _, f := range code {
		texts = append(texts, string(f.Data))
	}
	fence := ask.NewFence(texts...)
	var b strings.Builder
	for _, f := range code {
		b.WriteString(f.Path + "\n" + fence.Around("file", string(f.Data)) + "\n\n")
	}
	p, err := prompt.Choose(candidatesPrompt, "", "")
	if err != nil {
		return nil, err
	}
	return ask.Messages(p, []prompt.Value{
		{Name: "mark", Text: fence.String()}, {Name: "count", Text: strconv.Itoa(proposals)},
		{Name: "issue", Text: fence.Around("issue", rec.Problem)}, {Name: "code", Text: strings.TrimSpace(b.String())},
	})
}

// edit is a replacement within a file.
type edit struct{ path, old, new string }

func readCandidates(v any) (out [][]edit, err error) {
	list, err := ask.List(v, "candidates")
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		items, err := ask.List(c, "edits")
		if err != nil {
			return nil, err
		}
		var edits []edit
		for _, x := range items {
			f, err := ask.Fields(x, "path", "old", "new")
			if err != nil {
				return nil, err
			}
			var e edit
			for i, to := range []*string{&e.path, &e.old, &e.new} {
				var ok bool
				if *to, ok = f[i].(string); !ok {
					return nil, errors.New("path, old and new are texts")
				}
			}
			edits = append(edits, e)
		}
		out = append(out, edits)
	}
	return out, nil
}

// patchOf applies edits to files of a tree and gives what they do as a unified diff,
// and as the files' content.
func patchOf(tree []sdk.File, edits []edit) (patch string, changes []sdk.Change, err error) {
	changed := slices.Clone(tree)
	for _, e := range edits {
		i := grade.Index(changed, e.path)
		if i < 0 || grade.IsTest(e.path) {
			return "", nil, fmt.Errorf("%s is no file to change", e.path)
		}
		text, err := ask.Replace(string(changed[i].Data), e.old, e.new)
		if err != nil {
			return "", nil, err
		}
		changed[i].Data = []byte(text)
	}
	var b strings.Builder
	for i := range tree {
		if !bytes.Equal(tree[i].Data, changed[i].Data) {
			b.WriteString(diff(tree[i].Path, string(tree[i].Data), string(changed[i].Data)))
			changes = append(changes, sdk.Change{Path: tree[i].Path, Data: changed[i].Data, Exec: tree[i].Exec})
		}
	}
	if len(changes) == 0 {
		return "", nil, errors.New("the edits change nothing")
	}
	return b.String(), changes, nil
}
