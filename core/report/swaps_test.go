package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/journal"
)

func TestSwapsAreShown(t *testing.T) {
	dir := store(t, 8, none, evaluation(0, "eval", 0.25), evaluation(8, "eval", 0.75))
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	if err := journal.Dir(dir).AddSwaps(
		journal.Swap{Step: 3, Dispatch: 17, Skill: "editing", Role: "evaluate", From: a, To: b, By: journal.ByFile, Outcome: journal.Accepted},
		journal.Swap{Step: 4, Dispatch: -1, Skill: "editing", Role: "judge", Ref: "<i>", By: journal.ByCommand, Outcome: journal.Refused, Reason: "error[P007]: <b>no\nmore"},
		journal.Swap{Step: 3, Dispatch: 18, Skill: "localization", Role: "judge", From: b, To: a, By: journal.ByResume, Outcome: journal.Accepted},
		journal.Swap{Step: 99, Dispatch: 800, Skill: "editing", Role: "evaluate", From: b, To: a, By: journal.BySignal, Outcome: journal.Accepted},
	); err != nil {
		t.Fatal(err)
	}
	r := load(t, dir)
	var text, page bytes.Buffer
	if err := r.Table(&text); err != nil {
		t.Fatal(err)
	}
	if want := `
swaps
STEP  GROUP  SKILL         ROLE    FROM          TO            BY       OUTCOME
3     17     editing       plugin  aaaaaaaaaaaa  bbbbbbbbbbbb  file     accepted
4     -      editing       judge   -             <i>           command  refused: error[P007]: <b>no
3     18     localization  judge   bbbbbbbbbbbb  aaaaaaaaaaaa  resume   accepted
99    800    editing       plugin  bbbbbbbbbbbb  aaaaaaaaaaaa  signal   accepted
`; !strings.Contains(text.String(), want) {
		t.Errorf("got\n%s", text.String())
	}
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{
		`<h2>Swaps</h2>`, "error[P007]: &lt;b&gt;no<", "&lt;i&gt;",
		`<title>1,2: step 3, editing plugin, from group 17; localization judge, from group 18</title>`, // a chart of all skills
		`<title>1: step 3, editing plugin, from group 17</title>`,                                      // editing's own
	} {
		if !strings.Contains(page.String(), w) {
			t.Errorf("the page lacks %q", w)
		}
	}
	if strings.Contains(page.String(), "<b>no") || strings.Contains(page.String(), "NaN") {
		t.Error("a run's text became markup")
	}
}

func TestNoSwapsNoSection(t *testing.T) {
	r := load(t, store(t, 2, none, evaluation(0, "eval", 0.25)))
	var page, text bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.Table(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "Swaps") || strings.Contains(page.String(), `class="change"`) || strings.Contains(text.String(), "swaps") {
		t.Error("swaps where there are none")
	}
}
