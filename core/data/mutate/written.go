package mutate

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/ask"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
	"github.com/valence-rl/valence/sdk/wire"
)

var (
	//go:embed written.txt
	writtenPrompt string
	//go:embed fits.py
	fitsProgram string
)

// byModel is the operator of an edit that a model wrote.
const byModel = "model"

// Author is a model that writes mistakes. Its answers are kept in the journal beside
// the outcomes of tests: work that goes on, or is done again, asks for none of them.
type Author struct {
	Model scoring.Completer
	Name  string // of the model
	Alone bool   // no mistakes by operators
	Count int    // asked for in each function; default 6
}

// Written is what a model's mistakes came to.
type Written struct {
	Functions int `json:"functions"` // of which it was asked
	Formless  int `json:"formless"`  // questions without a usable answer
	Mistakes  int `json:"mistakes"`  // that it wrote
	Unfit     int `json:"unfit"`     // of these: cannot be put into the code, do not compile, change nothing, come twice, or give themselves away
	Caught    int `json:"caught"`    // by the tests

	PromptTokens     int64   `json:"prompt_tokens"` // of this run; answers out of the journal cost nothing
	CompletionTokens int64   `json:"completion_tokens"`
	Cost             float64 `json:"cost"`
}

func (w *Written) add(o *Written) {
	w.Functions += o.Functions
	w.Formless += o.Formless
	w.Mistakes += o.Mistakes
	w.Unfit += o.Unfit
	w.Caught += o.Caught
	w.PromptTokens += o.PromptTokens
	w.CompletionTokens += o.CompletionTokens
	w.Cost += o.Cost
}

const (
	writtenFile   = 20_000 // bytes of the file that the model reads
	writtenTokens = 4096   // of its answer
	writtenSchema = `{"type":"object","properties":{"mistakes":{"type":"array","items":{"type":"object",` +
		`"properties":{"old":{"type":"string"},"new":{"type":"string"},"effect":{"type":"string"}},` +
		`"required":["old","new","effect"],"additionalProperties":false}}},"required":["mistakes"],"additionalProperties":false}`
)

// edits gives what is tried in a function: the model's mistakes, then those of operators.
func (m *Bench) edits(ctx context.Context, f *Function, out *findings) ([]Edit, error) {
	if m.Author == nil {
		return inOrder(f, m.Seed), nil
	}
	written, err := m.written(ctx, f, &out.written)
	if err != nil || m.Author.Alone {
		return written, err
	}
	original := m.tree.At(f.Path)
	var seen [][]byte
	for _, e := range written {
		seen = append(seen, e.apply(original))
	}
	operators := slices.DeleteFunc(inOrder(f, m.Seed), func(e Edit) bool {
		return slices.ContainsFunc(seen, func(data []byte) bool { return bytes.Equal(data, e.apply(original)) })
	})
	return append(written, operators...), nil
}

// written asks the model for mistakes in a function and gives those that fit.
func (m *Bench) written(ctx context.Context, f *Function, w *Written) ([]Edit, error) {
	file := m.tree.At(f.Path)
	from, to := lines(file, f.Line, f.End)
	body := string(file[from:to])
	if !utf8.Valid(file) || len(body) > writtenFile {
		return nil, nil
	}
	q, err := m.question(f, string(file), body)
	if err != nil {
		return nil, err
	}
	w.Functions++
	answer, err := m.answer(ctx, f, q, w)
	if err != nil {
		return nil, err
	}
	if answer.Formless != "" {
		w.Formless++
		return nil, nil
	}
	w.Mistakes += len(answer.Mistakes)
	var versions []string
	for _, x := range answer.Mistakes {
		if text, err := ask.Replace(body, x.Old, x.New); err == nil && !slices.Contains(versions, text) {
			versions = append(versions, text)
		}
	}
	versions, err = m.fitting(ctx, body, versions)
	if err != nil {
		return nil, err
	}
	w.Unfit += len(answer.Mistakes) - len(versions)
	var out []Edit
	for _, v := range versions {
		out = append(out, narrowed(from, body, v))
	}
	return out, nil
}

func (m *Bench) question(f *Function, file, body string) (*sdk.ModelRequest, error) {
	count := m.Author.Count
	if count <= 0 {
		count = 6
	}
	p, err := prompt.Choose(writtenPrompt, "", "")
	if err != nil {
		return nil, err
	}
	fence := ask.NewFence(file)
	messages, err := ask.Messages(p, []prompt.Value{
		{Name: "mark", Text: fence.String()}, {Name: "path", Text: f.Path}, {Name: "name", Text: f.Name}, {Name: "count", Text: strconv.Itoa(min(count, m.Tries))},
		{Name: "language", Text: m.lab.Runner.Language}, {Name: "file", Text: fence.Around("file", ask.Cut(file, writtenFile))},
		{Name: "function", Text: fence.Around("function", body)},
	})
	return &sdk.ModelRequest{Messages: messages, Schema: writtenSchema, MaxTokens: writtenTokens, Seed: grade.Hash(m.Seed, "mistakes", f.key()) | 1}, err
}

// mistake is a replacement within a function.
type mistake struct {
	Old string `json:"o"`
	New string `json:"n"`
}

// answered is what the journal keeps of a question.
type answered struct {
	Mistakes []mistake `json:"m,omitempty"`
	Formless string    `json:"f,omitempty"` // why there are none: the model's own doing
}

// answer gives the model's mistakes. The error is that of its server, or of ctx: it is
// not kept, and the same command asks again.
func (m *Bench) answer(ctx context.Context, f *Function, q *sdk.ModelRequest, w *Written) (answered, error) {
	sum := sha256.Sum256(append([]byte(m.Author.Name+"\x00"), wire.Marshal(q)...))
	return trial.Recall(m.lab.Journal, "model "+hex.EncodeToString(sum[:16]), func() (answered, error) {
		list, err := ask.JSON(ctx, &teller{model: m.Author.Model, use: w}, q, readMistakes)
		var formless *ask.Malformed
		var no *chatserver.Error
		switch {
		case err == nil:
			return answered{Mistakes: list}, nil
		case ctx.Err() != nil:
			return answered{}, diag.Wrap(diag.KindInterrupted, "ask for mistakes", f.Name, ctx.Err())
		case errors.As(err, &formless), !errors.As(err, &no), no.Fault == chatserver.TooLong:
			return answered{Formless: err.Error()}, nil
		}
		return answered{}, &diag.Error{Kind: diag.KindPolicy, Op: "ask for mistakes", Subject: f.Path + ": " + f.Name, Err: err}
	})
}

func readMistakes(v any) ([]mistake, error) {
	list, err := ask.List(v, "mistakes")
	if err != nil {
		return nil, err
	}
	var out []mistake
	for _, x := range list {
		f, err := ask.Fields(x, "old", "new", "effect")
		if err != nil {
			return nil, err
		}
		var k mistake
		var old, fresh bool
		k.Old, old = f[0].(string)
		k.New, fresh = f[1].(string)
		if !old || !fresh {
			return nil, errors.New("old and new are texts")
		}
		out = append(out, k)
	}
	return out, nil
}

// teller is a host that has nothing but a model.
type teller struct {
	sdk.Host
	model scoring.Completer
	use   *Written
}

// Model implements [sdk.Host].
func (t *teller) Model(ctx context.Context, q *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	a, err := t.model.Complete(ctx, q)
	if err != nil {
		return nil, err
	}
	t.use.PromptTokens += a.PromptTokens
	t.use.CompletionTokens += a.CompletionTokens
	t.use.Cost += a.Cost
	return &sdk.ModelResponse{Texts: a.Texts}, nil
}

// fitting keeps the versions of a function that compile and differ from it and from
// one another in more than blanks and comments, without a new comment. Of languages
// without a parser here blanks alone are looked at: the tests say the rest.
func (m *Bench) fitting(ctx context.Context, body string, versions []string) ([]string, error) {
	if len(versions) == 0 {
		return nil, nil
	}
	switch m.lab.Runner.Functions {
	case "python":
		w := trial.NewWorkspace(sdk.Workspace{Files: []sdk.File{{Path: "fits.py", Data: []byte(fitsProgram)}, {Path: "v", Data: []byte(body)}}})
		shell := "python3 -I -S fits.py v"
		for i, v := range versions {
			w.Files = append(w.Files, sdk.File{Path: "v" + strconv.Itoa(i), Data: []byte(v)})
			shell += " v" + strconv.Itoa(i)
		}
		text, err := m.lab.Output(ctx, w, shell)
		if err != nil {
			return nil, err
		}
		good := strings.Fields(text)
		var out []string
		for i, v := range versions {
			if slices.Contains(good, "v"+strconv.Itoa(i)) {
				out = append(out, v)
			}
		}
		return out, nil
	case "go":
		return distinct(body, versions, goCode), nil
	}
	return distinct(body, versions, func(s string) (string, map[string]bool) { return strings.Join(strings.Fields(s), " "), nil }), nil
}

// distinct keeps the versions whose code is that of no other, nor of the original, and
// that have no comment of their own. read gives "" for what is no code.
func distinct(body string, versions []string, read func(string) (code string, comments map[string]bool)) []string {
	code, told := read(body)
	seen := map[string]bool{code: true, "": true}
	var out []string
	for _, v := range versions {
		code, comments := read(v)
		fresh := !seen[code]
		for c := range comments {
			fresh = fresh && told[c]
		}
		if fresh {
			seen[code] = true
			out = append(out, v)
		}
	}
	return out
}

// goCode gives the tokens of a Go function, and its comments; "" where it does not parse.
func goCode(body string) (code string, comments map[string]bool) {
	text := "package p\n" + body
	set := token.NewFileSet()
	if _, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution); err != nil {
		return "", nil
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
	comments = map[string]bool{}
	var b strings.Builder
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return b.String(), comments
		case token.COMMENT:
			comments[literal] = true
		default:
			b.WriteString(kind.String() + " " + literal + "\x00")
		}
	}
}

// lines gives where the lines from first to last, counted from 1, begin and end.
func lines(data []byte, first, last int) (from, to int) {
	line := 1
	for i := 0; i <= len(data); i++ {
		if line == first && (i == 0 || data[i-1] == '\n') {
			from = i
		}
		if i == len(data) || data[i] == '\n' {
			if line == last {
				return from, min(i+1, len(data))
			}
			line++
		}
	}
	return len(data), len(data)
}

// narrowed is the edit that makes a version of the text at a place, without what the
// two have in common.
func narrowed(at int, text, version string) Edit {
	head := 0
	for head < len(text) && head < len(version) && text[head] == version[head] {
		head++
	}
	tail := 0
	for tail < len(text)-head && tail < len(version)-head && text[len(text)-1-tail] == version[len(version)-1-tail] {
		tail++
	}
	return Edit{Start: at + head, End: at + len(text) - tail, New: version[head : len(version)-tail], Operator: byModel}
}
