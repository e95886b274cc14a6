package wasm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/host/transport"
)

func TestPause(t *testing.T) {
	b := new(backoff)
	for n, want := range []time.Duration{0, 0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
		if got := b.pause(); got != want*time.Millisecond {
			t.Errorf("after %d failures: %v, want %v", n, got, want*time.Millisecond)
		}
		b.failed()
	}
	for range 1000 {
		b.failed()
	}
	if got := b.pause(); got != lastPause {
		t.Errorf("after a thousand failures: %v, want %v", got, lastPause)
	}
	b.succeeded()
	if got := b.pause(); got != 0 {
		t.Errorf("after a success: %v", got)
	}
}

// TestNote: what leaves nothing to be afraid of is no failure.
func TestNote(t *testing.T) {
	for _, c := range []struct {
		reason transport.Reason
		want   int // failures in a row, if there were ten
	}{
		{transport.ReasonTrap, 11}, {transport.ReasonExit, 11}, {transport.ReasonMemory, 11}, {transport.ReasonStack, 11},
		{transport.ReasonDeadline, 10}, {transport.ReasonCancelled, 10}, {transport.ReasonAnswer, 10},
		{transport.ReasonError, 0}, {transport.ReasonPanic, 0}, {"", 0},
	} {
		b := &backoff{failures: 10}
		var err error
		if c.reason != "" {
			err = &transport.Failure{Reason: c.reason, Err: errors.New("x")}
		}
		if b.note(err); b.failures != c.want {
			t.Errorf("%q: %d failures, want %d", c.reason, b.failures, c.want)
		}
	}
}

// TestBackoffEndsWithTheCall: whoever waits for a new instance waits no longer than
// for the answer.
func TestBackoffEndsWithTheCall(t *testing.T) {
	m := open(t, skill(unreachable), Config{})
	for range patience {
		_, err := m.Call(t.Context(), 1, nil, refuse)
		fails(t, err, transport.ReasonTrap, "unreachable")
	}
	if m.backoff.failures != patience {
		t.Errorf("%d failures, want %d", m.backoff.failures, patience)
	}
	m.backoff.failures = 1 << 30
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := m.Call(ctx, 1, nil, refuse)
	fails(t, err, transport.ReasonCancelled, "canceled")
	// A call after the pause is tried, not refused.
	m.backoff.failures = patience + 1
	_, err = m.Call(t.Context(), 1, nil, refuse)
	fails(t, err, transport.ReasonTrap, "unreachable")
	if m.backoff.failures != patience+2 {
		t.Errorf("%d failures, want %d", m.backoff.failures, patience+2)
	}
}
