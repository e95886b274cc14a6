package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/journal"
)

func TestModelUseIsShown(t *testing.T) {
	dir := store(t, 2, none, evaluation(0, "eval", 0.25))
	show := func() (table, page string) {
		r := load(t, dir)
		var b, p bytes.Buffer
		if err := r.Table(&b); err != nil {
			t.Fatal(err)
		}
		if err := r.HTML(&p); err != nil {
			t.Fatal(err)
		}
		return b.String(), p.String()
	}
	if table, page := show(); strings.Contains(table, "model:") || strings.Contains(page, "<dt>model</dt>") {
		t.Errorf("a run that asked no model:\n%s", table)
	}
	d := journal.Dir(dir)
	s := step(3, 0)
	s.Model = &journal.ModelUse{Calls: 1500, Cached: 7, Failures: 2, PromptTokens: 2_000_000, CompletionTokens: 30_000, Cost: 1.5, LatencyMean: 2, LatencyMax: 9.5}
	if err := d.WriteStep(s, nil); err != nil {
		t.Fatal(err)
	}
	e := evaluation(3, "eval", 0.5)
	e.Model = &journal.ModelUse{Calls: 500, Cost: 0.25, LatencyMean: 1, LatencyMax: 1}
	if err := d.WriteEval(e, nil); err != nil {
		t.Fatal(err)
	}
	const want = "2\u202f000 calls (2 without an answer), 7 answers cached, 2M tokens read, 30k written, cost 1.75, 1.8 s a call, 9.5 s at most"
	if table, page := show(); !strings.Contains(table, "\nmodel: "+want+"\n") || !strings.Contains(page, want) {
		t.Errorf("lacks %q:\n%s", want, table)
	}
}
