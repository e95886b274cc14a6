package pocket

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/valence-rl/valence/core/diag"
)

//go:embed measure.py
var script string

const (
	goldenCalls = 16        // of a function
	batchBytes  = 256 << 10 // of a Runner's stdin; about a second's work
)

// measured is what Python said about a function: its calls and their values, and
// for each mutation the calls that show it. Calls that raise are left out. It
// knows neither the function's name nor its parameters' names, on which no value
// depends.
type measured struct {
	args  []string
	want  []string
	wrong [][]outcome // one a mutation; empty: the mutation cannot be seen
}

// outcome is what a mutant gives for a call instead of the right value.
type outcome struct {
	call   int
	got    string // a literal, or an exception's name
	raises bool
}

// meter runs functions through a Runner and keeps what it learnt of those that
// come again.
type meter struct {
	run  Runner
	kept map[string]*measured
}

type question struct {
	key   string
	fn    *function
	calls []string
	text  []byte
	into  *measured
}

// measure fills in what drafts need to know about their functions.
func (m *meter) measure(ctx context.Context, drafts []*draft) error {
	fresh := map[string]*measured{}
	var batches [][]*question
	size := batchBytes
	for _, d := range drafts {
		for _, p := range d.parts {
			key := fmt.Sprint(p.fn.family.id, p.fn.values, p.fn.variant)
			if p.facts = m.kept[key]; p.facts != nil {
				continue
			}
			if p.facts = fresh[key]; p.facts != nil {
				continue
			}
			p.facts = &measured{}
			fresh[key] = p.facts
			q := ask(p.fn)
			q.key, q.into = key, p.facts
			if size += len(q.text); size > batchBytes {
				batches = append(batches, nil)
				size = len(q.text)
			}
			last := len(batches) - 1
			batches[last] = append(batches[last], q)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, b := range batches {
		g.Go(func() error { return m.answer(ctx, b) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, b := range batches {
		for _, q := range b {
			// Functions without constants come again and again; the others hardly.
			if len(q.fn.values) == 0 {
				m.kept[q.key] = q.into
			}
		}
	}
	return nil
}

// ask writes the line of measure.py for fn and its mutations.
func ask(fn *function) *question {
	plain := &function{family: fn.family, values: fn.values, variant: fn.variant}
	q := &question{fn: fn, calls: plain.calls(goldenCalls)}
	lines := make([]string, 0, 1+len(fn.family.body))
	lines = append(lines, "def f("+strings.Join(fn.family.params, ", ")+"):")
	for _, l := range fn.family.body {
		lines = append(lines, "    "+plain.fill(l))
	}
	type variant [2]any
	variants := make([]variant, len(fn.family.mutations))
	for i, m := range fn.family.mutations {
		variants[i] = variant{1 + m.line, "    " + plain.fill(m.text)}
	}
	calls := json.RawMessage("[[" + strings.ReplaceAll(strings.Join(q.calls, "],["), "'", `"`) + "]]")
	text, err := json.Marshal(map[string]any{"a": calls, "g": lines, "m": variants})
	if err != nil {
		panic(fmt.Sprintf("pocket: %s: %v", fn.family.id, err)) // a literal of arguments.go is no JSON
	}
	q.text = append(text, '\n')
	return q
}

func (m *meter) answer(ctx context.Context, batch []*question) error {
	const op = "generate pocket records"
	var in bytes.Buffer
	for _, q := range batch {
		in.Write(q.text)
	}
	out, err := m.run(ctx, script, in.Bytes())
	if err != nil {
		return diag.Wrap(diag.KindSandbox, op, "run python3", err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(batch) {
		return diag.Errorf(diag.KindData, op, "answer of python3", "%d lines for %d questions", len(lines), len(batch))
	}
	for i, q := range batch {
		if err := q.read(lines[i]); err != nil {
			return diag.Wrap(diag.KindData, op, "answer of python3", err)
		}
	}
	return nil
}

func (q *question) read(line []byte) error {
	var a struct {
		G []string
		M []map[int]string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	variants := len(q.fn.family.mutations)
	if len(a.G) != len(q.calls) || len(a.M) != variants {
		return fmt.Errorf("%s: %d values and %d variants for %d and %d", q.fn.family.id, len(a.G), len(a.M), len(q.calls), variants)
	}
	at := make([]int, len(a.G)) // where call i went
	for i, v := range a.G {
		if strings.HasPrefix(v, "!") || v == "?" {
			at[i] = -1
			continue
		}
		at[i] = len(q.into.args)
		q.into.args = append(q.into.args, q.calls[i])
		q.into.want = append(q.into.want, v)
	}
	q.into.wrong = make([][]outcome, len(a.M))
	for j, m := range a.M {
		for i := range a.G {
			got, ok := m[i]
			if !ok || at[i] < 0 {
				continue
			}
			got, raises := strings.CutPrefix(got, "!")
			q.into.wrong[j] = append(q.into.wrong[j], outcome{at[i], got, raises})
		}
		if len(q.into.wrong[j]) == len(q.into.args) && !slices.ContainsFunc(q.into.wrong[j], func(o outcome) bool { return !o.raises }) {
			q.into.wrong[j] = nil // nobody writes what never runs
		}
	}
	return nil
}
