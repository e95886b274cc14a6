package main

import (
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

//go:embed prompts/mutants.txt
var mutantsPrompt string

const (
	fileLimit   = 20_000 // bytes of a file that the model reads
	goldenLimit = 10_000 // milliseconds of one run of the golden tests
)

const mutantsSchema = `{"type":"object","properties":{"mutants":{"type":"array","items":{"type":"object",` +
	`"properties":{"old":{"type":"string"},"new":{"type":"string"},"why":{"type":"string"}},` +
	`"required":["old","new","why"],"additionalProperties":false}}},"required":["mutants"],"additionalProperties":false}`

// variant is a mutant that nobody has examined yet.
type variant struct {
	target sdk.Target
	file   sdk.File // whole
}

// modelled asks the model for faulty variants of each target and keeps at most want
// of those that compile and that the golden tests of the record catch. w is the
// workspace with the gold patch. Where none is left, why says in words what became of
// them. An error is a failure of the host or of the model's server.
func modelled(ctx context.Context, h sdk.Host, r *sdk.BuildRequest, w sdk.Workspace, want int) (kept []sdk.Mutant, why string, err error) {
	golden := r.Record
	golden.Workspace = w
	switch {
	case !strings.EqualFold(golden.Language, "python"):
		return nil, fmt.Sprintf("the model's mutants cannot be checked in the language %q", golden.Language), nil
	case golden.TestCommand == "" || len(golden.FailToPass)+len(golden.PassToPass) == 0:
		return nil, "the record has no golden tests to check the model's mutants by", nil
	}
	catches := func(changes []sdk.Change) (bool, string, error) {
		rep, err := grade.RunTests(ctx, h, &golden, changes, r.Seed, golden.ID, goldenLimit)
		if err != nil {
			return false, "", err
		}
		return !rep.Solved, rep.Reason, nil
	}
	if fails, reason, err := catches(nil); err != nil || fails {
		return nil, "the golden tests do not pass on the correct code: " + reason, err
	}
	variants, asked, formless, err := propose(ctx, h, r, w, (want+len(golden.Targets)-1)/len(golden.Targets))
	if err != nil {
		return nil, "", err
	}
	sound, err := compiling(ctx, h, variants)
	if err != nil {
		return nil, "", err
	}
	for _, v := range sound {
		if len(kept) == want {
			break
		}
		caught, _, err := catches([]sdk.Change{{Path: v.file.Path, Data: v.file.Data, Exec: v.file.Exec}})
		if err != nil {
			return nil, "", err
		}
		if caught {
			kept = append(kept, sdk.Mutant{ID: "model-" + strconv.Itoa(len(kept)+1), Target: v.target.Name, Files: []sdk.File{v.file}})
		}
	}
	if len(kept) == 0 {
		why = fmt.Sprintf("of %d variants by the model %d fit into the code, %d of these compile, and the golden tests catch none", asked, len(variants), len(sound))
		if formless != nil {
			why += "; " + formless.Error()
		}
	}
	return kept, why, nil
}

// propose asks for count variants of each target and applies them; asked counts
// those that the model gave. An answer without form is logged and passed over: it is
// no reason to lose the record's other targets. formless is the last of them.
func propose(ctx context.Context, h sdk.Host, r *sdk.BuildRequest, w sdk.Workspace, count int) (out []variant, asked int, formless *ask.Malformed, err error) {
	for _, t := range r.Record.Targets {
		file, err := source(ctx, h, w, t.Path)
		if err != nil {
			return nil, 0, nil, err
		}
		from, to, ok := function(string(file.Data), t)
		if !ok {
			h.Log(ctx, "warn", fmt.Sprintf("%s: the function %s is not found in %s", r.Record.ID, t.Name, t.Path))
			continue
		}
		body := string(file.Data[from:to])
		messages, err := mutantQuestion(t, string(file.Data), body, count)
		if err != nil {
			return nil, 0, nil, err
		}
		edits, err := ask.JSON(ctx, h, &sdk.ModelRequest{
			Messages: messages, Schema: mutantsSchema, MaxTokens: 4096, Seed: grade.Hash(r.Seed, "mutants", r.Record.ID, t.Path, t.Name) | 1,
		}, readEdits)
		var bad *ask.Malformed
		if errors.As(err, &bad) {
			h.Log(ctx, "warn", fmt.Sprintf("%s: mutants of %s: %v", r.Record.ID, t.Name, err))
			formless = bad
			continue
		}
		if err != nil {
			return nil, 0, nil, err
		}
		edits = edits[:min(len(edits), count)]
		asked += len(edits)
		for _, e := range edits {
			changed, err := ask.Replace(body, e.old, e.new)
			if err != nil {
				continue
			}
			f := file
			f.Data = []byte(string(file.Data[:from]) + changed + string(file.Data[to:]))
			if !slices.ContainsFunc(out, func(v variant) bool { return v.file.Path == f.Path && string(v.file.Data) == string(f.Data) }) {
				out = append(out, variant{t, f})
			}
		}
	}
	return out, asked, formless, nil
}

func mutantQuestion(t sdk.Target, file, body string, count int) ([]sdk.ModelMessage, error) {
	p, err := prompt.Choose(mutantsPrompt, "", "")
	if err != nil {
		return nil, err
	}
	f := ask.NewFence(file)
	return ask.Messages(p, []prompt.Value{
		{Name: "mark", Text: f.String()}, {Name: "path", Text: t.Path}, {Name: "name", Text: t.Name}, {Name: "count", Text: strconv.Itoa(count)},
		{Name: "file", Text: f.Around("file", ask.Cut(file, fileLimit))}, {Name: "function", Text: f.Around("function", body)},
	})
}

// edit is a replacement within a function.
type edit struct{ old, new string }

func readEdits(v any) ([]edit, error) {
	list, err := ask.List(v, "mutants")
	if err != nil {
		return nil, err
	}
	var out []edit
	for _, x := range list {
		f, err := ask.Fields(x, "old", "new", "why")
		if err != nil {
			return nil, err
		}
		old, texts := f[0].(string)
		new, also := f[1].(string)
		if !texts || !also {
			return nil, errors.New("old and new are texts")
		}
		out = append(out, edit{old, new})
	}
	return out, nil
}

// source gives a file of the workspace, from the record or, where that does not list
// it, out of a sandbox.
func source(ctx context.Context, h sdk.Host, w sdk.Workspace, path string) (sdk.File, error) {
	if len(w.Files) > 0 {
		tree, err := grade.ApplyDiff(w.Files, w.Patches...)
		if err != nil {
			return sdk.File{}, err
		}
		if i := grade.Index(tree, path); i >= 0 {
			return tree[i], nil
		}
		return sdk.File{Path: path}, nil
	}
	log, err := grade.Run1(ctx, h, &sdk.RunRequest{Workspace: w, Commands: []sdk.Command{{Shell: "cat -- '" + strings.ReplaceAll(path, "'", `'\''`) + "'"}}})
	if err != nil {
		return sdk.File{}, err
	}
	if log.ExitCode != 0 || log.Truncated || strings.Contains(log.Output, "\uFFFD") {
		return sdk.File{Path: path}, nil
	}
	return sdk.File{Path: path, Data: []byte(log.Output)}, nil
}

// function finds where the definition of a Python function begins and ends.
func function(source string, t sdk.Target) (from, to int, ok bool) {
	name := t.Name[strings.LastIndexByte(t.Name, '.')+1:]
	defines := func(line string) bool {
		s := strings.TrimPrefix(strings.TrimLeft(line, " \t"), "async ")
		return strings.HasPrefix(s, "def "+name+"(")
	}
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
	lines := strings.SplitAfter(source, "\n")
	at := int(t.Line) - 1
	if at < 0 || at >= len(lines) || !defines(lines[at]) {
		at = slices.IndexFunc(lines, defines)
		if at < 0 || slices.ContainsFunc(lines[at+1:], defines) {
			return 0, 0, false
		}
	}
	end := at + 1
	for i := end; i < len(lines); i++ {
		s := strings.TrimSpace(lines[i])
		if s == "" {
			continue
		}
		if depth(lines[i]) <= depth(lines[at]) && s[0] != ')' && s[0] != '#' {
			break
		}
		end = i + 1
	}
	from = len(strings.Join(lines[:at], ""))
	return from, from + len(strings.Join(lines[at:end], "")), true
}

// compiler prints the names of those of the files named to it that Python compiles.
// Nothing of the files is run.
const compiler = `python3 -I -S -c '
import sys
for name in sys.argv[1:]:
    try:
        compile(open(name, "rb").read(), name, "exec")
        print(name)
    except Exception:
        pass
'`

// compiling keeps the variants that Python compiles.
func compiling(ctx context.Context, h sdk.Host, variants []variant) ([]variant, error) {
	if len(variants) == 0 {
		return nil, nil
	}
	run := sdk.RunRequest{Commands: []sdk.Command{{Shell: compiler}}}
	for i, v := range variants {
		name := "v" + strconv.Itoa(i)
		run.Workspace.Files = append(run.Workspace.Files, sdk.File{Path: name, Data: v.file.Data})
		run.Commands[0].Shell += " " + name
	}
	log, err := grade.Run1(ctx, h, &run)
	if err != nil {
		return nil, err
	}
	good := strings.Fields(log.Output)
	var out []variant
	for i, v := range variants {
		if slices.Contains(good, "v"+strconv.Itoa(i)) {
			out = append(out, v)
		}
	}
	return out, nil
}
