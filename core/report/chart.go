package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// A chart is drawn at its natural size of about a phone's width, so that its text
// keeps its size wherever the page is read; wide screens put charts side by side.
const (
	chartWidth  = 340.0
	chartHeight = 180.0
	marginLeft  = 40.0
	marginRight = 12.0
	marginTop   = 8.0
	marginFoot  = 22.0
)

// series is one line. low and high, where given, are the band around it; NaN
// leaves a gap.
type series struct {
	name      string
	colour    int // of the page's palette
	x, y      []float64
	low, high []float64
	dots      bool // mark every point
	faint     bool // background information
}

// axes say how numbers are shown, which range must be seen, where lo < hi, and
// which steps are marked.
type axes struct {
	lo, hi float64
	format func(float64) string
	marks  []mark
}

func (a axes) text(f float64) string {
	if a.format == nil {
		return number(f)
	}
	return a.format(f)
}

// number shows a quantity with about three digits.
func number(f float64) string {
	switch a := math.Abs(f); {
	case f == 0:
		return "0"
	case a >= 1e6:
		return trimZeros(strconv.FormatFloat(f/1e6, 'f', 1, 64)) + "M"
	case a >= 1e4:
		return trimZeros(strconv.FormatFloat(f/1e3, 'f', 1, 64)) + "k"
	case a < 1e-3:
		return strings.Replace(strconv.FormatFloat(f, 'g', 2, 64), "e-0", "e-", 1)
	case a < 10:
		return trimZeros(strconv.FormatFloat(f, 'f', 3, 64))
	}
	return trimZeros(strconv.FormatFloat(f, 'f', 1, 64))
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func percent(f float64) string { return trimZeros(strconv.FormatFloat(100*f, 'f', 1, 64)) + "%" }

// niceTicks gives about n round numbers within lo to hi.
func niceTicks(lo, hi float64, n int) []float64 {
	if !(hi > lo) {
		return []float64{lo}
	}
	unit := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	step := unit
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		step = unit * m
		if (hi-lo)/step <= float64(n) {
			break
		}
	}
	var out []float64
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+step*1e-9 && len(out) < 100; i++ {
		out = append(out, i*step+0) // +0: no negative zero
	}
	return out
}

// frame maps values to the picture.
type frame struct{ x0, x1, y0, y1 float64 }

func (f frame) px(x float64) float64 {
	if f.x1 == f.x0 {
		return (marginLeft + chartWidth - marginRight) / 2
	}
	return marginLeft + (x-f.x0)/(f.x1-f.x0)*(chartWidth-marginLeft-marginRight)
}

func (f frame) py(y float64) float64 {
	if f.y1 == f.y0 {
		return (marginTop + chartHeight - marginFoot) / 2
	}
	return chartHeight - marginFoot - (y-f.y0)/(f.y1-f.y0)*(chartHeight-marginTop-marginFoot)
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// extent finds the range of everything that is drawn; ok is false for nothing.
func extent(a axes, ss []series) (f frame, ok bool) {
	f = frame{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, s := range ss {
		for i := range s.x {
			if !finite(s.y[i]) {
				continue
			}
			f.x0, f.x1 = min(f.x0, s.x[i]), max(f.x1, s.x[i])
			for _, v := range [][]float64{s.y, s.low, s.high} {
				if i < len(v) && finite(v[i]) {
					f.y0, f.y1 = min(f.y0, v[i]), max(f.y1, v[i])
				}
			}
		}
	}
	if f.x0 > f.x1 {
		return f, false
	}
	if a.lo < a.hi {
		f.y0, f.y1 = min(f.y0, a.lo), max(f.y1, a.hi)
		return f, true
	}
	if f.y0 == f.y1 {
		f.y0, f.y1 = min(0, f.y0), max(0, f.y1)
	}
	pad := (f.y1 - f.y0) * 0.08
	if pad == 0 {
		pad = 0.5
	}
	if f.y0 >= 0 && f.y0-pad < 0 {
		f.y0 = 0
	} else {
		f.y0 -= pad
	}
	f.y1 += pad
	return f, true
}

// pen collects the elements of a picture.
type pen struct{ b strings.Builder }

func (p *pen) f(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func coord(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

func (p *pen) open(height float64, label string) {
	class := "plot"
	if height != chartHeight {
		class = "rows"
	}
	p.f(`<svg class="%s" viewBox="0 0 %g %g" role="img" aria-label="%s">`, class, chartWidth, height, html.EscapeString(label))
}

func (p *pen) done() template.HTML {
	p.b.WriteString("</svg>")
	return template.HTML(p.b.String())
}

const nothing = template.HTML(`<p class="none">nothing to show yet</p>`)

// grid draws the rules and the numbers of both axes; x counts steps.
func (p *pen) grid(f frame, a axes) {
	for _, t := range niceTicks(f.y0, f.y1, 4) {
		y := coord(f.py(t))
		p.f(`<line class="rule" x1="%s" x2="%s" y1="%s" y2="%s"/>`, coord(marginLeft), coord(chartWidth-marginRight), y, y)
		p.f(`<text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`, coord(marginLeft-6), coord(f.py(t)+3.5), html.EscapeString(a.text(t)))
	}
	for _, t := range niceTicks(f.x0, f.x1, 6) {
		if t == math.Trunc(t) {
			p.f(`<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, coord(f.px(t)), coord(chartHeight-marginFoot+15), number(t))
		}
	}
}

// lineChart draws lines over steps, each with its band.
func lineChart(label string, a axes, ss ...series) template.HTML {
	f, ok := extent(a, ss)
	if !ok {
		return nothing
	}
	var p pen
	p.open(chartHeight, label)
	p.grid(f, a)
	for _, s := range ss {
		p.band(f, s)
	}
	for _, s := range ss {
		p.line(f, s)
		if !s.dots && len(s.x) > 1 {
			continue
		}
		for i := range s.x {
			if !finite(s.y[i]) {
				continue
			}
			p.f(`<circle class="dot c%d" cx="%s" cy="%s" r="2.8"><title>%s, step %s: %s`, s.colour, coord(f.px(s.x[i])), coord(f.py(s.y[i])), html.EscapeString(s.name), number(s.x[i]), a.text(s.y[i]))
			if i < len(s.low) && finite(s.low[i]) {
				p.f(` (%s to %s)`, a.text(s.low[i]), a.text(s.high[i]))
			}
			p.f(`</title></circle>`)
		}
	}
	for _, m := range a.marks {
		p.mark(f, m)
	}
	return p.done()
}

// mark draws a vertical line where something changed; what lies outside the steps
// that are drawn stands at their end.
func (p *pen) mark(f frame, m mark) {
	x := f.px(min(max(m.x, f.x0), f.x1))
	p.f(`<g class="change"><title>%s: step %s, %s</title><line x1="%s" x2="%s" y1="%s" y2="%s"/>`, html.EscapeString(m.label), number(m.x), html.EscapeString(m.title),
		coord(x), coord(x), coord(marginTop), coord(chartHeight-marginFoot))
	anchor, by := "start", 3.0
	if x > chartWidth-marginRight-20 {
		anchor, by = "end", -3
	}
	p.f(`<text x="%s" y="%s" text-anchor="%s">%s</text></g>`, coord(x+by), coord(marginTop+8), anchor, html.EscapeString(m.label))
}

func (p *pen) line(f frame, s series) {
	var d strings.Builder
	gap := true
	for i := range s.x {
		if !finite(s.y[i]) {
			gap = true
			continue
		}
		op := "L"
		if gap {
			op = "M"
		}
		gap = false
		fmt.Fprintf(&d, "%s%s %s", op, coord(f.px(s.x[i])), coord(f.py(s.y[i])))
	}
	class := "line"
	if s.faint {
		class = "line faint"
	}
	p.f(`<path class="%s c%d" d="%s"><title>%s</title></path>`, class, s.colour, d.String(), html.EscapeString(s.name))
}

// band fills between low and high, a polygon for each stretch without gaps.
func (p *pen) band(f frame, s series) {
	from := -1
	for i := 0; i <= len(s.x); i++ {
		if i < len(s.x) && i < len(s.low) && finite(s.low[i]) && finite(s.high[i]) {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 {
			p.polygon(f, s, from, i)
		}
		from = -1
	}
}

func (p *pen) polygon(f frame, s series, from, to int) {
	var d strings.Builder
	for i := from; i < to; i++ {
		op := "L"
		if i == from {
			op = "M"
		}
		fmt.Fprintf(&d, "%s%s %s", op, coord(f.px(s.x[i])), coord(f.py(s.high[i])))
	}
	for i := to - 1; i >= from; i-- {
		fmt.Fprintf(&d, "L%s %s", coord(f.px(s.x[i])), coord(f.py(s.low[i])))
	}
	p.f(`<path class="band c%d" d="%sZ"/>`, s.colour, d.String())
}

// layer is one part of every stacked bar.
type layer struct {
	name   string
	colour int
	y      []float64
}

// stackedBars draws one bar a step, the layers upon one another.
func stackedBars(label string, a axes, x []float64, layers []layer) template.HTML {
	top := 0.0
	for i := range x {
		sum := 0.0
		for _, l := range layers {
			sum += l.y[i]
		}
		top = max(top, sum)
	}
	if len(x) == 0 || top == 0 {
		return nothing
	}
	if a.lo < a.hi {
		top = max(top, a.hi)
	}
	f := frame{x[0] - 0.5, x[len(x)-1] + 0.5, 0, top}
	var p pen
	p.open(chartHeight, label)
	p.grid(f, a)
	width := max(0.6, (f.px(x[0]+1)-f.px(x[0]))*0.86)
	for i := range x {
		base := 0.0
		for _, l := range layers {
			if l.y[i] <= 0 {
				continue
			}
			y1, y0 := f.py(base+l.y[i]), f.py(base)
			p.f(`<rect class="bar c%d" x="%s" y="%s" width="%s" height="%s"><title>%s, step %s: %s</title></rect>`, l.colour,
				coord(f.px(x[i])-width/2), coord(y1), coord(width), coord(max(0.3, y0-y1)), html.EscapeString(l.name), number(x[i]), a.text(l.y[i]))
			base += l.y[i]
		}
	}
	return p.done()
}

// bar is one row of barRows: what is, and the mark of what was intended.
type bar struct {
	name        string
	colour      int
	value, mark float64
}

// barRows draws horizontal bars, each with a mark.
func barRows(label string, format func(float64) string, bars []bar) template.HTML {
	const row, left, right = 26.0, 96.0, 56.0
	top := 0.0
	for _, b := range bars {
		top = max(top, b.value, b.mark)
	}
	if len(bars) == 0 || top == 0 {
		return nothing
	}
	at := func(v float64) float64 { return left + v/top*(chartWidth-left-right) }
	var p pen
	p.open(row*float64(len(bars))+6, label)
	for i, b := range bars {
		y := row*float64(i) + 4
		p.f(`<text class="name" x="0" y="%s">%s</text>`, coord(y+14), html.EscapeString(shorten(b.name, 14)))
		p.f(`<rect class="bar c%d" x="%s" y="%s" width="%s" height="16" rx="2"><title>%s: %s, configured %s</title></rect>`, b.colour,
			coord(left), coord(y+2), coord(max(0.5, at(b.value)-left)), html.EscapeString(b.name), format(b.value), format(b.mark))
		p.f(`<line class="mark" x1="%s" x2="%s" y1="%s" y2="%s"/>`, coord(at(b.mark)), coord(at(b.mark)), coord(y-1), coord(y+21))
		p.f(`<text class="tick" x="%s" y="%s">%s</text>`, coord(max(at(b.value), at(b.mark))+6), coord(y+14), html.EscapeString(format(b.value)))
	}
	return p.done()
}

// shift is one row of a before-after picture.
type shift struct {
	name          string
	before, after interval
	strong        bool
}

// shifts draws, for every row, the interval before and the one after on one scale
// from 0 to 1.
func shifts(label string, rows []shift) template.HTML {
	const row, left, right = 30.0, 92.0, 12.0
	at := func(v float64) float64 { return left + v*(chartWidth-left-right) }
	height := row*float64(len(rows)) + 22
	var p pen
	p.open(height, label)
	for _, t := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.f(`<line class="rule" x1="%s" x2="%s" y1="4" y2="%s"/>`, coord(at(t)), coord(at(t)), coord(height-18))
		p.f(`<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, coord(at(t)), coord(height-5), number(t))
	}
	whisker := func(y float64, v interval, class, name string) {
		if !v.ok {
			return
		}
		p.f(`<line class="whisker %s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, class, coord(at(v.low)), coord(at(v.high)), coord(y), coord(y))
		p.f(`<circle class="end %s" cx="%s" cy="%s" r="4"><title>%s %s: %.3f (%.3f to %.3f)</title></circle>`, class, coord(at(v.mean)), coord(y), html.EscapeString(name), class, v.mean, v.low, v.high)
	}
	for i, r := range rows {
		y := row*float64(i) + 16
		class := "name"
		if r.strong {
			class = "name strong"
		}
		p.f(`<text class="%s" x="0" y="%s">%s</text>`, class, coord(y+4), html.EscapeString(shorten(r.name, 13)))
		whisker(y-4.5, r.before, "before", r.name)
		whisker(y+4.5, r.after, "after", r.name)
	}
	return p.done()
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
