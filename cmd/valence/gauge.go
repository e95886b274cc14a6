package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// gauge shows how far a verb has come on standard error: a bar that is drawn anew on a
// terminal, else a line every 30 s, or nothing. It is not safe for concurrent use and
// is closed before anything else is printed.
type gauge struct {
	w     io.Writer
	mode  progressMode
	what  string
	now   func() time.Time
	start time.Time
	shown time.Time
	drawn bool
	width int
}

// newGauge makes the gauge that --progress asks for.
func (a *app) newGauge(what string) *gauge {
	return gaugeOn(a.stderr, a.progressMode(), what, time.Now)
}

func gaugeOn(w io.Writer, mode progressMode, what string, now func() time.Time) *gauge {
	t := now()
	return &gauge{w: w, mode: mode, what: what, now: now, start: t, shown: t, width: 24}
}

// set shows that done of total, of bytes or whatever is counted, is done; text is what
// came of it.
func (g *gauge) set(done, total int64, text string) {
	t := g.now()
	switch {
	case g.mode == progressLive && (!g.drawn || t.Sub(g.shown) >= redraw):
		fmt.Fprintf(g.w, "\r%s\x1b[K", g.line(done, total, text, t))
		g.drawn = true
	case g.mode == progressPlain && t.Sub(g.shown) >= heartbeat:
		fmt.Fprintln(g.w, g.line(done, total, text, t))
	default:
		return
	}
	g.shown = t
}

func (g *gauge) line(done, total int64, text string, t time.Time) string {
	took := t.Sub(g.start)
	clock := briefly(took)
	share := 0.0
	if total > 0 {
		share = min(1, float64(done)/float64(total))
	}
	if took >= time.Second && share > 0 && share < 1 {
		clock += ", ~" + briefly(time.Duration(float64(took)*(1-share)/share)) + " left"
	}
	full := int(share * float64(g.width))
	bar := strings.Repeat("█", full) + strings.Repeat("░", g.width-full)
	if g.mode == progressPlain {
		bar = ""
	} else {
		bar += " "
	}
	return fmt.Sprintf("%s %s%3.0f%%  %s  %s", g.what, bar, 100*share, text, clock)
}

// said prints a line above the bar.
func (g *gauge) said(text string) {
	if g.mode == progressNone {
		return
	}
	g.clear()
	fmt.Fprintln(g.w, text)
}

func (g *gauge) clear() {
	if g.drawn {
		io.WriteString(g.w, "\r\x1b[K")
		g.drawn = false
	}
}

// close takes the bar away.
func (g *gauge) close() {
	g.clear()
	g.mode = progressNone
}
