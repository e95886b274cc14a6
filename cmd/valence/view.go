package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
)

// heartbeat is how long lines may be silent before they say that the run lives.
const heartbeat = 30 * time.Second

// redraw is the time between two pictures on a terminal.
const redraw = 200 * time.Millisecond

// view shows a run's progress on standard error: a picture that is drawn
// anew on a terminal, else one line a step and a heartbeat. Its methods are safe
// for concurrent use and return at once. It is closed before anything else is printed.
type view struct {
	mu    sync.Mutex
	w     io.Writer
	paint palette
	mode  progressMode
	now   func() time.Time
	width func() int

	start    time.Time
	lastLine time.Time
	drawn    int // lines of the picture that is on the screen

	phase   string // what is under way, in words
	phaseAt time.Time
	done    int
	total   int
	loss    float64 // of supervised training
	hasLoss bool
	version int
	errors  map[string]int
	step    *journal.Step
	steps   int           // the run's
	first   int           // step that this process finished first, 0: none
	trained time.Duration // that this process spent on its steps
	stale   int

	emit func(kind string, v any) error // lines of -o jsonl; nil: none
	stop chan struct{}
	idle sync.WaitGroup
}

type progressMode int

const (
	progressNone progressMode = iota
	progressPlain
	progressLive
)

// progressMode is what --progress and --quiet ask for.
func (a *app) progressMode() progressMode {
	switch {
	case a.progress == "none" || a.quiet:
		return progressNone
	case a.progress == "auto" && isTerminal(a.stderr):
		return progressLive
	}
	return progressPlain
}

// newView makes the view that --progress asks for.
func (a *app) newView(cfg *config.Config) *view {
	p := viewOn(a.stderr, a.paint(a.stderr), a.progressMode(), time.Now)
	p.steps = cfg.Run.Steps
	p.emit = a.out.event
	if f, ok := a.stderr.(*os.File); ok {
		p.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
			return 100
		}
	}
	if p.mode != progressNone {
		p.idle.Add(1)
		go p.beat()
	}
	return p
}

func viewOn(w io.Writer, paint palette, mode progressMode, now func() time.Time) *view {
	t := now()
	return &view{w: w, paint: paint, mode: mode, now: now, start: t, lastLine: t, phaseAt: t, width: func() int { return 100 }, stop: make(chan struct{})}
}

// beat redraws, or sends the heartbeat, until the view is closed.
func (p *view) beat() {
	defer p.idle.Done()
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.tick()
		case <-p.stop:
			return
		}
	}
}

func (p *view) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mode == progressLive:
		p.draw()
	case p.mode == progressPlain && p.now().Sub(p.lastLine) >= heartbeat:
		p.line(p.headline())
	}
}

// close leaves the last picture on the screen and ends the view; a second call
// does nothing.
func (p *view) close() {
	p.mu.Lock()
	select {
	case <-p.stop:
		p.mu.Unlock()
		return
	default:
	}
	close(p.stop)
	p.mu.Unlock()
	p.idle.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == progressLive {
		p.draw()
		p.drawn = 0
	}
	p.mode = progressNone
}

// opening says what is being opened.
func (p *view) opening(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter("opening "+what, 0)
	if p.mode == progressPlain {
		p.line(p.phase)
	}
}

// pulling shows how far an image is, unless something else is under way that matters more.
func (p *view) pulling(ref string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	phase := "pulling " + ref + ", MiB"
	if !strings.HasPrefix(p.phase, "opening ") && !strings.HasPrefix(p.phase, "pulling ") {
		return
	}
	if p.phase != phase {
		p.enter(phase, total)
	}
	p.done, p.total = done, total
}

// started says that total episodes of a step or of an evaluation are under way.
func (p *view) started(what string, total, version, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(what, total)
	p.version = version
	if steps > 0 {
		p.steps = steps
	}
}

func (p *view) enter(phase string, total int) {
	p.phase, p.phaseAt, p.done, p.total = phase, p.now(), 0, total
}

// finished counts the episodes that ended, and the attempts that failed so far.
func (p *view) finished(what string, done, total int, errors map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != "" && what != p.phase {
		p.enter(what, total)
	}
	p.done = done
	if total > 0 {
		p.total = total
	}
	if errors != nil {
		p.errors = errors
	}
}

// learning shows supervised training.
func (p *view) learning(what string, done, total int, loss float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != what {
		p.enter(what, total)
	}
	p.done, p.total, p.loss, p.hasLoss = done, total, loss, true
}

// stepped says that a step is complete; steps is the run's number of them.
func (p *view) stepped(s *journal.Step, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == 0 {
		p.first = s.Step
	}
	p.trained += time.Duration(s.Seconds * float64(time.Second))
	p.step, p.version = s, s.Version
	if steps > 0 {
		p.steps = steps
	}
	p.stale += s.Fates["stale"]
	p.hasLoss = false
	if p.mode != progressPlain {
		return
	}
	var scores []string
	for _, n := range slices.Sorted(maps.Keys(s.Skills)) {
		if k := s.Skills[n]; k.Episodes > 0 {
			scores = append(scores, fmt.Sprintf("%s %.2f", n, k.Score))
		}
	}
	p.line(p.headline() + "  " + lossLine(s) + "  " + strings.Join(scores, " "))
}

// noted keeps a sentence on the screen above the picture: an evaluation's
// result, a checkpoint, a warning.
func (p *view) noted(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.mode {
	case progressLive:
		p.erase()
		fmt.Fprintln(p.w, text)
		p.draw()
	case progressPlain:
		p.line(text)
	}
}

// warned shows a sentence that deserves attention, in every mode but none.
func (p *view) warned(text string) {
	p.noted(p.paint.in(p.paint.yellow, "warning:") + " " + text)
}

// told is what goes to -o jsonl while a verb is at work.
func (p *view) told(kind string, v any) {
	if p.emit != nil {
		p.emit(kind, v)
	}
}

func (p *view) line(s string) {
	p.lastLine = p.now()
	fmt.Fprintln(p.w, s)
}

// headline is where the run is.
func (p *view) headline() string {
	var parts []string
	if p.step != nil {
		parts = append(parts, fmt.Sprintf("step %d/%d", p.step.Step, p.steps), fmt.Sprintf("policy v%d", p.version))
	}
	if p.phase != "" {
		s := p.phase
		if p.total > 0 {
			s += fmt.Sprintf(" %d/%d", p.done, p.total)
		}
		if p.hasLoss {
			s += fmt.Sprintf(" loss %.3f", p.loss)
		}
		parts = append(parts, s)
	}
	took := p.now().Sub(p.start)
	clock := briefly(took)
	if left := p.left(); left > 0 {
		clock += ", ~" + briefly(left) + " left"
	}
	parts = append(parts, clock)
	if p.stale > 0 {
		parts = append(parts, fmt.Sprintf("stale %d", p.stale))
	}
	if e := tally(p.errors); e != "" {
		parts = append(parts, "errors "+e)
	}
	return strings.Join(parts, "  ")
}

// left estimates what is left from the steps that this process has made, or from
// the part of the phase that is done.
func (p *view) left() time.Duration {
	switch {
	case p.step != nil && p.steps > p.step.Step:
		per := p.trained / time.Duration(p.step.Step-p.first+1)
		return per*time.Duration(p.steps-p.step.Step) - min(per, p.now().Sub(p.phaseAt))
	case p.step == nil && p.total > 0 && p.done > 0:
		return time.Duration(float64(p.now().Sub(p.phaseAt)) / float64(p.done) * float64(p.total-p.done))
	}
	return 0
}

// tally is "7 (sandbox 6, judge 1)", or "" for none.
func tally(m map[string]int) string {
	sum := 0
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int { return m[b] - m[a] })
	var parts []string
	for _, k := range keys {
		sum += m[k]
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, ", "))
}

func lossLine(s *journal.Step) string {
	return fmt.Sprintf("loss %.3f  clipped %.1f%%  entropy %.2f  step %s (rollout %s, train %s)",
		s.Loss, 100*s.ClipShare, s.Entropy, seconds(s.Seconds), seconds(s.RolloutSeconds), seconds(s.TrainSeconds))
}

func seconds(s float64) string { return fmt.Sprintf("%.0fs", s) }

// briefly shows a duration with its two largest units.
func briefly(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h > 0:
		return fmt.Sprintf("%dh%02dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%02ds", m, s)
	}
	return fmt.Sprintf("%ds", s)
}

// skillGrid is the table of the latest step's skills.
func skillGrid(s *journal.Step) grid {
	g := grid{head: []string{"SKILL", "WEIGHT", "MIX", "GROUPS", "AVG", "KEPT", "FILTERED", "ALL-0", "ALL-1"}}
	for _, n := range slices.Sorted(maps.Keys(s.Skills)) {
		k := s.Skills[n]
		avg := "-"
		if k.Episodes > 0 {
			avg = fmt.Sprintf("%.2f", k.Score)
		}
		g.add(n, fmt.Sprintf("%.2f", k.Weight), fmt.Sprintf("%.2f", k.Realised), fmt.Sprint(k.Groups), avg,
			fmt.Sprintf("%.0f%%", 100*k.Kept), fmt.Sprintf("%.0f%%", 100*k.Filtered), fmt.Sprint(k.AllZero), fmt.Sprint(k.AllOne))
	}
	return g
}

// draw puts the picture in the place of the one before.
func (p *view) draw() {
	lines := []string{p.paint.in(p.paint.bold, clip(p.headline(), p.width()-1))}
	if p.step != nil {
		g := skillGrid(p.step)
		for i, l := range g.lines() {
			l = clip(l, p.width()-1)
			if i == 0 {
				l = p.paint.in(p.paint.dim, l)
			}
			lines = append(lines, l)
		}
		lines = append(lines, clip(lossLine(p.step), p.width()-1))
	}
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r" + l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	io.WriteString(p.w, b.String())
	p.drawn = len(lines)
}

func (p *view) erase() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\r\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// clip cuts a line to the screen's width, since a wrapped one would break the picture.
func clip(s string, width int) string {
	r := []rune(s)
	if width > 1 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// evalLine sums an evaluation up: the mean over the tasks of each skill.
func evalLine(e *journal.Eval) string {
	var parts []string
	var sum float64
	n := 0
	for _, s := range e.Skills {
		total, tasks := 0.0, 0
		for _, row := range s.Scores {
			if len(row) == 0 {
				continue
			}
			mean := 0.0
			for _, x := range row {
				mean += x
			}
			total += mean / float64(len(row))
			tasks++
		}
		if tasks == 0 {
			parts = append(parts, s.Name+" -")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.3f", s.Name, total/float64(tasks)))
		sum += total / float64(tasks)
		n++
	}
	line := fmt.Sprintf("%s at step %d, Avg@%d: %s", e.Split, e.Step, e.Runs, strings.Join(parts, " "))
	if n > 1 {
		line += fmt.Sprintf(", mean %.3f", sum/float64(n))
	}
	return line
}
