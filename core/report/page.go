package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template is filled with.
type page struct {
	Title    string
	Style    template.CSS
	Lead     string
	Facts    []fact
	Warnings []string
	Splits   []pageSplit
	Sections []pageSection
	Swaps    []pageSwap
	Samples  []sample
	Config   string
}

type fact struct{ Name, Value string }

type pageSplit struct {
	Name, Caption string
	HasBefore     bool
	Rows          []pageRow
	Picture       template.HTML
}

type pageRow struct {
	Name, Tasks, Before, BeforeCI, After, AfterCI, Delta, DeltaCI string
	Better, Worse, Strong                                         bool
}

type pageSection struct {
	Title, Text string
	Charts      []pageChart
}

type pageChart struct {
	Title, Text string
	Wide        bool
	Picture     template.HTML
	Legend      []legend
}

type legend struct {
	Name   string
	Colour int
}

// WriteFile writes report.html into the run directory, by rename.
func (r *Report) WriteFile(dir string) error {
	var b strings.Builder
	if err := r.HTML(&b); err != nil {
		return err
	}
	return journal.Dir(dir).WriteFile("report.html", []byte(b.String()))
}

// HTML writes the page. It needs nothing from outside: no script, no font, no
// address.
func (r *Report) HTML(w io.Writer) error {
	p := page{Title: r.Name, Style: template.CSS(pageStyle), Lead: r.lead(), Facts: r.facts(), Warnings: r.Warnings, Swaps: r.pageSwaps(), Samples: r.samples, Config: r.Config}
	for i := range r.Splits {
		p.Splits = append(p.Splits, r.Splits[i].page())
	}
	for _, s := range []pageSection{r.curves(), r.mixture(), r.behaviour(), r.optimisation(), r.health()} {
		if len(s.Charts) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	return diag.Wrap(diag.KindUnknown, "write report", r.Name, pageTemplate.Execute(w, p))
}

// lead is the run in one sentence.
func (r *Report) lead() string {
	if len(r.Splits) == 0 {
		return "Nothing has been measured yet."
	}
	s := r.Splits[0]
	skills := fmt.Sprintf("%d skills", len(s.rows))
	if len(s.rows) == 1 {
		skills = "one skill"
	}
	if s.Before == nil {
		return fmt.Sprintf("On tasks it was not trained on the policy solves %s, on average over %s.", percent2(s.mean.after.mean), skills)
	}
	d := s.mean.delta
	verb := "did not change measurably: from"
	if d.ok && d.low > 0 {
		verb = "rose from"
	} else if d.ok && d.high < 0 {
		verb = "fell from"
	}
	return fmt.Sprintf("On tasks it was not trained on, averaged over %s, the share that the policy solves %s %s to %s (%s points, 95%% interval %s to %s) between step %d and step %d.",
		skills, verb, percent2(s.mean.before.mean), percent2(s.mean.after.mean), points(d.mean), points(d.low), points(d.high), s.Before.Step, s.After.Step)
}

func percent2(f float64) string { return fmt.Sprintf("%.1f%%", 100*f) }

func points(f float64) string {
	return strings.ReplaceAll(fmt.Sprintf("%+.1f", 100*f), "-", "−")
}

func signed(f float64) string { return strings.ReplaceAll(fmt.Sprintf("%+.3f", f), "-", "−") }

func (r *Report) facts() []fact {
	var out []fact
	add := func(n, v string) { out = append(out, fact{n, v}) }
	if n := len(r.Steps); n > 0 {
		steps := fmt.Sprint(r.Steps[n-1].Step)
		if r.Planned > 0 {
			steps += " of " + fmt.Sprint(r.Planned)
		}
		add("steps", steps)
		var secs float64
		var sampled, trained, episodes int
		for _, s := range r.Steps {
			secs += s.Seconds
			sampled += s.SampledTokens
			trained += s.Tokens
			for _, k := range s.Skills {
				episodes += k.Episodes
			}
		}
		add("training time", hours(secs))
		add("episodes", grouped(episodes))
		add("sampled tokens", number(float64(sampled)))
		add("trained tokens", number(float64(trained)))
		add("policy version", fmt.Sprintf("v%d", r.Steps[n-1].Version))
		add("last step", r.Steps[n-1].Time.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if len(r.Splits) > 0 {
		add("policy", r.Splits[0].After.Policy)
	}
	if u := ModelUse(r.model()); u != "" {
		add("model", u)
	}
	return out
}

func hours(s float64) string {
	h, m := int(s)/3600, int(s)/60%60
	switch {
	case h > 0:
		return fmt.Sprintf("%d h %02d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min", m)
	}
	return fmt.Sprintf("%.0f s", s)
}

// grouped writes thousands apart.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

var splitCaptions = map[string]string{
	"eval":   "Held-out tasks",
	"unseen": "Unseen kinds of tasks",
}

func (s *Split) page() pageSplit {
	p := pageSplit{Name: s.Name, HasBefore: s.Before != nil, Caption: splitCaptions[s.Name]}
	if p.Caption == "" {
		p.Caption = "Split " + s.Name
	}
	var rows []shift
	for i, k := range append(slices.Clone(s.rows), s.mean) {
		strong := i == len(s.rows)
		if strong && len(s.rows) == 1 {
			break
		}
		v := pageRow{Name: k.name, Strong: strong}
		if k.tasks > 0 {
			v.Tasks = grouped(k.tasks)
		}
		v.Before, v.BeforeCI = k.before.text()
		v.After, v.AfterCI = k.after.text()
		if k.delta.ok {
			v.Delta, v.DeltaCI = signed(k.delta.mean), signed(k.delta.low)+" to "+signed(k.delta.high)
			v.Better, v.Worse = k.delta.low > 0, k.delta.high < 0
		}
		p.Rows = append(p.Rows, v)
		rows = append(rows, shift{k.name, k.before, k.after, strong})
	}
	p.Picture = shifts("scores before and after, "+s.Name, rows)
	return p
}

func (v interval) text() (mean, ci string) {
	if !v.ok {
		return "–", ""
	}
	return fmt.Sprintf("%.3f", v.mean), fmt.Sprintf("%.3f to %.3f", v.low, v.high)
}

// curves are the learning curves: one chart a skill, and the mean.
func (r *Report) curves() pageSection {
	sec := pageSection{Title: "Learning curves", Text: "Avg@k with its 95% interval on measured tasks (dots), and the mean score of the training episodes of each step (thin line). The two are drawn from different tasks."}
	if len(r.marks("")) > 0 {
		sec.Text += " Dashed lines are swaps, numbered as in their table below."
	}
	steps := r.x()
	for i, name := range r.Skills() {
		var ss []series
		if len(steps) > 1 {
			if y, ok := r.skillSeries(name, func(k *journal.SkillStep) float64 { return k.Score }); ok {
				ss = append(ss, series{name: "training", colour: i, x: steps, y: y, faint: true})
			}
		}
		for n, split := range r.Splits {
			s := series{name: split.Name, colour: i, dots: true}
			if n > 0 {
				s.colour = 9
			}
			for _, e := range r.Evals {
				if e.Split != split.Name {
					continue
				}
				for _, k := range e.Skills {
					if k.Name == name {
						v := r.average(k)
						if v.ok {
							s.x, s.y = append(s.x, float64(e.Step)), append(s.y, v.mean)
							s.low, s.high = append(s.low, v.low), append(s.high, v.high)
						}
					}
				}
			}
			if len(s.x) > 0 {
				ss = append(ss, s)
			}
		}
		if len(ss) == 0 {
			continue
		}
		c := pageChart{Title: name, Picture: lineChart("score of "+name, axes{lo: 0, hi: 1, marks: r.marks(name)}, ss...)}
		if len(r.Splits) > 1 {
			for _, s := range ss {
				if !s.faint {
					c.Legend = append(c.Legend, legend{s.name, s.colour})
				}
			}
		}
		sec.Charts = append(sec.Charts, c)
	}
	if c, ok := r.meanCurve(); ok {
		sec.Charts = append(sec.Charts, c)
	}
	return sec
}

// meanCurve is the mean over the skills of every evaluation.
func (r *Report) meanCurve() (pageChart, bool) {
	c := pageChart{Title: "mean over the skills"}
	var ss []series
	for n, split := range r.Splits {
		s := series{name: split.Name, colour: 8, dots: true}
		if n > 0 {
			s.colour = 9
		}
		for _, e := range r.Evals {
			if e.Split != split.Name {
				continue
			}
			if v := r.macro(e); v.ok {
				s.x, s.y = append(s.x, float64(e.Step)), append(s.y, v.mean)
				s.low, s.high = append(s.low, v.low), append(s.high, v.high)
			}
		}
		ss = append(ss, s)
		c.Legend = append(c.Legend, legend{s.name, s.colour})
	}
	if len(r.Splits) == 0 || len(r.Splits[0].rows) < 2 {
		return c, false
	}
	if len(r.Splits) == 1 {
		c.Legend = nil
	}
	c.Picture = lineChart("mean score", axes{lo: 0, hi: 1, marks: r.marks("")}, ss...)
	return c, true
}

// x lists the steps.
func (r *Report) x() []float64 {
	out := make([]float64, len(r.Steps))
	for i, s := range r.Steps {
		out[i] = float64(s.Step)
	}
	return out
}

// skillSeries reads one number of a skill from every step that has episodes of it.
func (r *Report) skillSeries(name string, get func(*journal.SkillStep) float64) (y []float64, ok bool) {
	for _, s := range r.Steps {
		v := math.NaN()
		if k := s.Skills[name]; k != nil && k.Episodes > 0 {
			v, ok = get(k), true
		}
		y = append(y, v)
	}
	return y, ok
}

// bySkill is a chart with one line a skill.
func (r *Report) bySkill(title, text string, a axes, get func(*journal.SkillStep) float64) (pageChart, bool) {
	c := pageChart{Title: title, Text: text}
	var ss []series
	for i, name := range r.Skills() {
		if y, ok := r.skillSeries(name, get); ok {
			ss = append(ss, series{name: name, colour: i, x: r.x(), y: r.smooth(y)})
			c.Legend = append(c.Legend, legend{name, i})
		}
	}
	if len(ss) == 0 {
		return c, false
	}
	a.marks = r.marks("")
	c.Picture = lineChart(title, a, ss...)
	return c, true
}

// smoothFrom is the number of steps from which charts of several skills show
// moving means over smoothOver steps; before, they show every step.
const (
	smoothFrom = 20
	smoothOver = 5
)

// smooth gives the moving means, centred, gaps left out.
func (r *Report) smooth(y []float64) []float64 {
	if len(r.Steps) < smoothFrom {
		return y
	}
	out := make([]float64, len(y))
	for i := range y {
		sum, n := 0.0, 0
		for j := max(0, i-smoothOver/2); j <= min(len(y)-1, i+smoothOver/2); j++ {
			if finite(y[j]) {
				sum += y[j]
				n++
			}
		}
		out[i] = sum / float64(n)
		if !finite(y[i]) {
			out[i] = math.NaN()
		}
	}
	return out
}

// smoothed says how lines are drawn.
func (r *Report) smoothed() string {
	if len(r.Steps) < smoothFrom {
		return ""
	}
	return fmt.Sprintf("Lines of skills are moving means over %d steps.", smoothOver)
}

// ofSteps is a chart of one number a step.
func (r *Report) ofSteps(title, text string, a axes, get func(journal.Step) float64) pageChart {
	s := series{name: title, colour: 8, x: r.x()}
	for _, st := range r.Steps {
		s.y = append(s.y, get(st))
	}
	a.marks = r.marks("")
	return pageChart{Title: title, Text: text, Picture: lineChart(title, a, s)}
}

func (r *Report) mixture() pageSection {
	sec := pageSection{Title: "What it was trained on", Text: r.smoothed()}
	if len(r.Steps) == 0 {
		return sec
	}
	last := r.Steps[len(r.Steps)-1]
	var bars []bar
	for i, name := range r.Skills() {
		if k := last.Skills[name]; k != nil {
			bars = append(bars, bar{name, i, k.Realised, k.Weight})
		}
	}
	sec.Charts = append(sec.Charts, pageChart{Title: "Mix of skills", Text: "Share of all groups so far; the mark is the configured share.", Picture: barRows("realised and configured mix", percent2, bars)})
	if c, ok := r.bySkill("Groups with a signal", "Share of groups whose rewards differ; the others teach nothing.", axes{lo: 0, hi: 1, format: percent}, func(k *journal.SkillStep) float64 { return k.Kept }); ok {
		sec.Charts = append(sec.Charts, c)
	}
	if c, ok := r.bySkill("Filtered share", "Episodes masked out by compact filtering. If it climbs, the policy hides there.", axes{lo: 0, hi: 1, format: percent}, func(k *journal.SkillStep) float64 { return k.Filtered }); ok {
		sec.Charts = append(sec.Charts, c)
	}
	fates := map[string]bool{}
	for _, s := range r.Steps {
		for f := range s.Fates {
			fates[f] = true
		}
	}
	if len(fates) > 0 {
		sec.Charts = append(sec.Charts, r.stacked("Fates of groups", "How the groups that ended in a step ended.", axes{}, fateOrder(fates), func(s journal.Step) map[string]int { return s.Fates }, false))
	}
	return sec
}

// colourOf gives ends and fates colours of their own.
var colourOf = map[string]int{"trained": 2, "submitted": 2, "no_signal": 9, "stale": 1, "filtered": 6, "max_steps": 1, "max_context": 6, "timeout": 4, "error": 3}

func fateOrder(m map[string]bool) []string {
	order := []string{"trained", "submitted", "no_signal", "stale", "filtered", "max_steps", "max_context", "timeout"}
	names := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(names, func(a, b string) int { return place(order, a) - place(order, b) })
	return names
}

// stacked is a chart of counts by name, or of their shares.
func (r *Report) stacked(title, text string, a axes, names []string, get func(journal.Step) map[string]int, shares bool) pageChart {
	c := pageChart{Title: title, Text: text}
	layers := make([]layer, len(names))
	for i, n := range names {
		colour, ok := colourOf[n]
		if !ok {
			colour = 3
		}
		layers[i] = layer{name: strings.ReplaceAll(n, "_", " "), colour: colour}
		c.Legend = append(c.Legend, legend{layers[i].name, colour})
	}
	for _, s := range r.Steps {
		m := get(s)
		sum := 0
		for _, v := range m {
			sum += v
		}
		for i, n := range names {
			v := float64(m[n])
			if shares && sum > 0 {
				v /= float64(sum)
			}
			layers[i].y = append(layers[i].y, v)
		}
	}
	c.Picture = stackedBars(title, a, r.x(), layers)
	return c
}

func (r *Report) behaviour() pageSection {
	sec := pageSection{Title: "How it works", Text: strings.TrimSpace("What the policy does in its training episodes. " + r.smoothed())}
	if len(r.Steps) == 0 {
		return sec
	}
	ends := func(s journal.Step) map[string]int {
		m := map[string]int{}
		for _, k := range s.Skills {
			for e, n := range k.Ends {
				m[e] += n
			}
		}
		return m
	}
	names := map[string]bool{}
	for _, s := range r.Steps {
		for e := range ends(s) {
			names[e] = true
		}
	}
	sec.Charts = append(sec.Charts, r.stacked("How episodes end", "Share of scored episodes.", axes{lo: 0, hi: 1, format: percent}, fateOrder(names), ends, true))
	for _, q := range []struct {
		title, text string
		get         func(*journal.SkillStep) float64
	}{
		{"Turns", "Mean turns of an episode.", func(k *journal.SkillStep) float64 { return k.Turns }},
		{"Length of a turn", "Mean sampled tokens of one turn.", func(k *journal.SkillStep) float64 { return k.TurnTokens }},
		{"Runs before submission", "Mean number of commands that ran tests or scripts.", func(k *journal.SkillStep) float64 { return k.TestRuns }},
	} {
		if c, ok := r.bySkill(q.title, q.text, axes{}, q.get); ok {
			sec.Charts = append(sec.Charts, c)
		}
	}
	if c, ok := r.episodeLength(); ok {
		sec.Charts = append(sec.Charts, c)
	}
	if c, ok := r.toolUse(); ok {
		sec.Charts = append(sec.Charts, c)
	}
	return sec
}

// episodeLength is read off the stored episodes.
func (r *Report) episodeLength() (pageChart, bool) {
	c := pageChart{Title: "Length of an episode", Text: "Mean sampled tokens, all turns."}
	var ss []series
	for i, name := range r.Skills() {
		s := series{name: name, colour: i}
		for _, t := range r.tools {
			if v := t.tokens[name]; v[1] > 0 {
				s.x, s.y = append(s.x, float64(t.step)), append(s.y, float64(v[0])/float64(v[1]))
			}
		}
		if len(s.x) > 0 {
			s.y = r.smooth(s.y)
			ss = append(ss, s)
			c.Legend = append(c.Legend, legend{name, i})
		}
	}
	c.Picture = lineChart(c.Title, axes{marks: r.marks("")}, ss...)
	return c, len(ss) > 0
}

// toolUse is read off the stored episodes.
func (r *Report) toolUse() (pageChart, bool) {
	c := pageChart{Title: "Tool calls", Text: "Mean calls of an episode, by tool."}
	names := map[string]bool{}
	for _, t := range r.tools {
		for n := range t.calls {
			names[n] = true
		}
	}
	var ss []series
	for i, n := range slices.Sorted(maps.Keys(names)) {
		s := series{name: n, colour: i}
		for _, t := range r.tools {
			if t.episodes > 0 {
				s.x, s.y = append(s.x, float64(t.step)), append(s.y, float64(t.calls[n])/float64(t.episodes))
			}
		}
		s.y = r.smooth(s.y)
		ss = append(ss, s)
		c.Legend = append(c.Legend, legend{n, i})
	}
	c.Picture = lineChart(c.Title, axes{marks: r.marks("")}, ss...)
	return c, len(ss) > 0
}

func (r *Report) optimisation() pageSection {
	sec := pageSection{Title: "Optimisation"}
	if len(r.Steps) == 0 {
		return sec
	}
	sec.Charts = []pageChart{
		r.ofSteps("Loss", "The clipped surrogate; its sign means little, its jumps do.", axes{}, func(s journal.Step) float64 { return s.Loss }),
		r.ofSteps("Clipped share", "Tokens whose gradient the clip removed.", axes{format: percent}, func(s journal.Step) float64 { return s.ClipShare }),
		r.ofSteps("Entropy", "Nats a token. A fall to 0 ends exploration.", axes{}, func(s journal.Step) float64 { return s.Entropy }),
		r.ofSteps("Gradient norm", "Before clipping.", axes{}, func(s journal.Step) float64 { return s.GradNorm }),
		r.ofSteps("Importance ratio", "Mean over the trained tokens; 1 is on-policy.", axes{}, func(s journal.Step) float64 { return s.Ratio }),
		r.ofSteps("Learning rate", "", axes{}, func(s journal.Step) float64 { return s.LearningRate }),
	}
	return sec
}

func (r *Report) health() pageSection {
	sec := pageSection{Title: "Time and failures"}
	if len(r.Steps) == 0 {
		return sec
	}
	rollout := layer{name: "rollouts and verdicts", colour: 8}
	train := layer{name: "training", colour: 9}
	for _, s := range r.Steps {
		rollout.y = append(rollout.y, s.RolloutSeconds)
		train.y = append(train.y, s.TrainSeconds)
	}
	sec.Charts = append(sec.Charts, pageChart{
		Title: "Time of a step", Text: "Seconds.", Picture: stackedBars("time of a step", axes{}, r.x(), []layer{rollout, train}),
		Legend: []legend{{rollout.name, 8}, {train.name, 9}},
	})
	kinds := map[string]bool{}
	for _, s := range r.Steps {
		for k := range s.Errors {
			kinds[k] = true
		}
	}
	if len(kinds) > 0 {
		c := pageChart{Title: "Failed attempts", Text: "By kind, those that were tried again included. They are never scored."}
		var layers []layer
		for i, k := range slices.Sorted(maps.Keys(kinds)) {
			l := layer{name: k, colour: i + 2}
			for _, s := range r.Steps {
				l.y = append(l.y, float64(s.Errors[k]))
			}
			layers = append(layers, l)
			c.Legend = append(c.Legend, legend{k, i + 2})
		}
		c.Picture = stackedBars(c.Title, axes{}, r.x(), layers)
		sec.Charts = append(sec.Charts, c)
	}
	return sec
}
