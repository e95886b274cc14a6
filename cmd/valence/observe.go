package main

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/core/data/decontaminate"
	"github.com/valence-rl/valence/core/run"
)

// observe shows what a run tells. It is safe for concurrent use.
func (p *view) observe(e run.Event) {
	switch e.Kind {
	case run.Opening:
		p.opening(e.Text)
	case run.Started:
		p.started(e.Text, e.Total, e.Version, e.Steps)
	case run.Finished:
		p.finished(e.Text, e.Done, e.Total, e.Errors)
	case run.Stepped:
		p.stepped(e.Step, e.Steps)
		p.told("step", e.Step)
	case run.Measured:
		p.noted(evalLine(e.Eval))
		p.told("eval", e.Eval)
	case run.Learning:
		p.learning(e.Text, e.Done, e.Total, e.Loss)
	case run.Saved:
		p.noted("saved " + e.Text)
		p.told("saved", map[string]string{"folder": e.Text})
	case run.Warned:
		p.warned(e.Text)
		p.told("warning", map[string]string{"text": e.Text})
		if e.Swap != nil {
			p.told("swap", e.Swap)
		}
	case run.Pulling:
		p.pulling(e.Text, e.Done, e.Total)
	case run.Cleaned:
		p.noted(cleanLine(e.Cleaned))
		p.told("decontamination", e.Cleaned)
	case run.Swapped:
		p.noted("swapped " + swapLine(e.Swap))
		p.told("swap", e.Swap)
	}
}

// cleanLine sums up what was kept out of training.
func cleanLine(r *decontaminate.Report) string {
	text := fmt.Sprintf("decontamination: %d of %s dropped", r.Dropped, counted(r.Records, "training record"))
	var most []string
	for i, d := range r.Reasons {
		if i == 3 {
			most = append(most, fmt.Sprintf("%d more", len(r.Reasons)-i))
			break
		}
		most = append(most, fmt.Sprintf("%d of %s (%s)", d.Records, d.What, d.Suite))
	}
	if len(most) > 0 {
		text += ": " + strings.Join(most, ", ")
	}
	return text
}
