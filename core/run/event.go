package run

import (
	"github.com/valence-rl/valence/core/data/decontaminate"
	"github.com/valence-rl/valence/core/journal"
)

// EventKind says what an Event tells.
type EventKind int

// The kinds.
const (
	Opening  EventKind = iota // Text: what is being opened
	Started                   // a step's or an evaluation's episodes are under way; Total says how many
	Finished                  // one episode ended; Done counts them
	Stepped                   // Step is complete
	Measured                  // Eval is complete
	Learning                  // supervised training: Done of Total tokens or trajectories, Loss
	Saved                     // a checkpoint was written: Text is its folder
	Warned                    // Text deserves the user's attention; with a Swap, it was refused
	Pulling                   // an image, Text, is being had: Done of Total MiB
	Swapped                   // Swap holds from its group on
	Cleaned                   // Cleaned says what training data was dropped because it is measured
)

// Event is one thing that happened in a run, for a progress view.
type Event struct {
	Kind    EventKind
	Text    string
	Done    int
	Total   int
	Loss    float64
	Version int
	Errors  map[string]int // failed attempts so far, by kind
	Step    *journal.Step
	Eval    *journal.Eval
	Swap    *journal.Swap
	Steps   int // the run's
	Cleaned *decontaminate.Report
}
