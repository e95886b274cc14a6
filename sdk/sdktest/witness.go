package sdktest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/valence-rl/valence/sdk"
)

// witness passes capability calls on and remembers which were made. A capability
// that is not declared is denied, as a run denies it.
type witness struct {
	of       sdk.Host
	declared []string // nil: not known, and everything is let through

	mu     sync.Mutex
	asked  []string // each capability once, in the order of the first call
	failed error    // the last failure of the host itself since it was cleared
}

func (w *witness) ask(capability string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.asked, capability) {
		w.asked = append(w.asked, capability)
	}
	if w.declared != nil && !slices.Contains(w.declared, capability) {
		return fmt.Errorf("call the host: capability %s: denied: the plugin does not declare it", capability)
	}
	return nil
}

// undeclared are the capabilities that were asked for without being declared.
func (w *witness) undeclared() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, c := range w.asked {
		if w.declared != nil && !slices.Contains(w.declared, c) {
			out = append(out, c)
		}
	}
	return out
}

func (w *witness) note(err error) {
	if err != nil {
		w.mu.Lock()
		w.failed = err
		w.mu.Unlock()
	}
}

// failure gives the host's last failure, and forgets it.
func (w *witness) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.failed
	w.failed = nil
	return err
}

func (w *witness) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if err := w.ask("sandbox"); err != nil {
		return nil, err
	}
	a, err := w.of.Run(ctx, r)
	w.note(err)
	return a, err
}

func (w *witness) Model(ctx context.Context, r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	if err := w.ask("model"); err != nil {
		return nil, err
	}
	a, err := w.of.Model(ctx, r)
	w.note(err)
	return a, err
}

func (w *witness) Ask(ctx context.Context, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	if err := w.ask("judge"); err != nil {
		return nil, err
	}
	a, err := w.of.Ask(ctx, r)
	w.note(err)
	return a, err
}

func (w *witness) Log(ctx context.Context, level, text string) {
	if w.ask("log") == nil {
		w.of.Log(ctx, level, text)
	}
}
