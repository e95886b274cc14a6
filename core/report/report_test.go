package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// evaluation makes one of two skills; share of the tasks are solved in both runs.
func evaluation(step int, split string, share float64) journal.Eval {
	e := journal.Eval{Step: step, Split: split, Policy: "gorgonia", Version: step, Runs: 2}
	for _, name := range []string{"localization", "editing"} {
		k := journal.SkillEval{Name: name, Ends: map[string]int{"submitted": 20}}
		for i := range 20 {
			s := 0.0
			if float64(i) < 20*share {
				s = 1
			}
			k.Tasks = append(k.Tasks, fmt.Sprintf("%s/%d", name, i))
			k.Scores = append(k.Scores, []float64{s, s})
		}
		e.Skills = append(e.Skills, k)
	}
	return e
}

func step(n int, filtered float64) journal.Step {
	skills := map[string]*journal.SkillStep{}
	for _, name := range []string{"localization", "editing"} {
		skills[name] = &journal.SkillStep{Weight: 0.5, Realised: 0.5, Groups: 4, Episodes: 32, Score: 0.4, Kept: 0.8, Ends: map[string]int{"submitted": 30, "max_steps": 2}, Turns: 3, TurnTokens: 17}
	}
	skills["editing"].Filtered = filtered
	return journal.Step{
		Step: n, Version: n, Time: time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC), Loss: 0.01, Entropy: 0.5, Seconds: 60, RolloutSeconds: 50, TrainSeconds: 10,
		Skills: skills, Fates: map[string]int{"trained": 7, "no_signal": 1}, SampledTokens: 1000, Tokens: 5000,
	}
}

func hostile() journal.Episode {
	return journal.Episode{
		ID: "1", Task: "editing/<script>alert(1)</script>", Skill: "editing", End: "submitted", Outcome: journal.Scored, Score: 1, Turns: 2, SampledTokens: 40,
		Tools: map[string]int{"bash": 2},
		Trajectory: &atif.Trajectory{Steps: []atif.Step{
			{StepID: 1, Source: "user", Message: "</pre><img src=https://example.com/x>"},
			{StepID: 2, Source: "agent", ToolCalls: []atif.ToolCall{{ID: "1", Function: "bash", Arguments: map[string]any{"command": "cat <<X\n\"\n"}}}, Observation: &atif.Observation{Results: []atif.ObservationResult{{Content: strings.Repeat("long\xff ", 5000)}}}},
		}},
	}
}

// store makes a run directory.
func store(t *testing.T, steps int, filtered func(n int) float64, evals ...journal.Eval) string {
	t.Helper()
	dir := t.TempDir()
	d := journal.Dir(dir)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.WriteFile("config.toml", []byte("[run]\nname = \"joint <b>\"\nsteps = 12\n")))
	for n := 1; n <= steps; n++ {
		must(d.WriteStep(step(n, filtered(n)), []journal.Episode{hostile()}))
	}
	for _, e := range evals {
		must(d.WriteEval(e, []journal.Episode{hostile()}))
	}
	return dir
}

func none(int) float64 { return 0 }

func load(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTable(t *testing.T) {
	r := load(t, store(t, 2, none, evaluation(0, "eval", 0.25), evaluation(2, "eval", 0.75)))
	var b bytes.Buffer
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{
		"joint <b>  step 2/12  policy v2  2 min\n",
		"eval, Avg@2 with 95% intervals: step 0 before, step 2 after\n",
		"SKILL         TASKS  BEFORE                 AFTER                 DIFFERENCE\n",
		"localization     20   0.250 [0.",
		"  0.750 [0.", "  +0.500 [+0.", "\nmean ",
	} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("lacks %q:\n%s", w, b.String())
		}
	}
}

var outside = regexp.MustCompile(`(?i)<script|<link|<iframe|<img|@import|url\(|(src|href)\s*=`)

// The page must need nothing from elsewhere and must not let a run's texts become markup.
func TestPageIsSelfContained(t *testing.T) {
	r := load(t, store(t, 8, none, evaluation(0, "eval", 0.25), evaluation(8, "eval", 0.75), evaluation(0, "unseen", 0.1), evaluation(8, "unseen", 0.1)))
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if m := outside.FindString(strings.NewReplacer("&lt;", "", "&#34;", "").Replace(regexp.MustCompile(`(?s)<pre.*?</pre>|<span class="task-key">.*?</span>`).ReplaceAllString(page, ""))); m != "" {
		t.Errorf("the page reaches out: %q", m)
	}
	for _, w := range []string{"joint &lt;b&gt;", "rose from 25.0% to 75.0%", "Held-out tasks", "Unseen kinds of tasks", "Filtered share", "Fates of groups", "&lt;/pre&gt;&lt;img", "editing/&lt;script&gt;", "prefers-color-scheme: dark", "<svg"} {
		if !strings.Contains(page, w) {
			t.Errorf("lacks %q", w)
		}
	}
	for _, w := range []string{"NaN", "<script", "<img", "%!"} {
		if strings.Contains(page, w) {
			t.Errorf("holds %q", w)
		}
	}
}

func TestWriteIsReproducible(t *testing.T) {
	dir := store(t, 3, none, evaluation(0, "eval", 0.5), evaluation(3, "eval", 0.5))
	var pages []string
	for range 2 {
		r, err := Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		r.HTML(&b)
		pages = append(pages, b.String())
	}
	if pages[0] != pages[1] {
		t.Error("the same run gives two pages")
	}
	if !strings.Contains(pages[0], "did not change measurably") {
		t.Error("a difference of 0 must not be called a change")
	}
}

func TestPartialRuns(t *testing.T) {
	tests := []struct {
		name  string
		steps int
		evals []journal.Eval
		want  string
	}{
		{"one evaluation", 0, []journal.Eval{evaluation(0, "eval", 0.25)}, "solves 25.0%"},
		{"steps only", 3, nil, "Nothing has been measured yet."},
		{"evaluation without scores", 1, []journal.Eval{{Split: "eval", Skills: []journal.SkillEval{{Name: "x"}}}}, "no skill has scores"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := load(t, store(t, tt.steps, none, tt.evals...))
			var b, table bytes.Buffer
			if err := r.HTML(&b); err != nil {
				t.Fatal(err)
			}
			if err := r.Table(&table); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), tt.want) {
				t.Errorf("lacks %q", tt.want)
			}
			if strings.Contains(b.String(), "NaN") {
				t.Error("shows NaN")
			}
		})
	}
}

func TestEmptyFolder(t *testing.T) {
	_, err := Load(t.TempDir())
	if diag.KindOf(err) != diag.KindData {
		t.Errorf("got %v", err)
	}
}

func TestWarnsWhenFilteredShareClimbs(t *testing.T) {
	climbs := func(n int) float64 { return 0.07 * float64(n) }
	r := load(t, store(t, 9, climbs))
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "editing: the filtered share") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if r := load(t, store(t, 9, none)); len(r.Warnings) != 0 {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-1e6, 1e6).Draw(t, "lo")
		hi := lo + rapid.Float64Range(1e-6, 1e6).Draw(t, "span")
		n := rapid.IntRange(2, 8).Draw(t, "n")
		ts := niceTicks(lo, hi, n)
		if len(ts) > n+2 {
			t.Fatalf("%d ticks, about %d wanted: %v", len(ts), n, ts)
		}
		for _, x := range ts {
			if eps := 1e-6 * (math.Abs(hi) + math.Abs(lo) + hi - lo); x < lo-eps || x > hi+eps {
				t.Fatalf("tick %g outside [%g, %g]", x, lo, hi)
			}
		}
	})
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.25: "0.25", 5e-5: "5e-5", 12.34: "12.3", 1234: "1234", 31000: "31k", 1.25e6: "1.2M", -0.025: "-0.025", 3: "3"} {
		if got := number(f); got != want {
			t.Errorf("%g: got %s, want %s", f, got, want)
		}
	}
}

// Charts of whatever is stored must stay well-formed.
func TestChartsOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "n")
		s := series{name: "a", dots: rapid.Bool().Draw(t, "dots")}
		l := layer{name: "b"}
		for i := range n {
			y := rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.Just(math.NaN()), rapid.Just(math.Inf(1))).Draw(t, "y")
			s.x, s.y = append(s.x, float64(i)), append(s.y, y)
			s.low, s.high = append(s.low, y-1), append(s.high, y+1)
			l.y = append(l.y, rapid.Float64Range(0, 10).Draw(t, "v"))
		}
		for _, svg := range []string{string(lineChart("x", axes{}, s)), string(stackedBars("x", axes{}, s.x, []layer{l}))} {
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Fatal(svg)
			}
			if svg != string(nothing) && strings.Count(svg, "<svg") != 1 {
				t.Fatal(svg)
			}
		}
	})
}
