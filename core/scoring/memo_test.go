package scoring

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

type countingRunner struct {
	calls atomic.Int64
	run   func(n int64, r *sdk.RunRequest) (*sdk.RunResponse, error)
}

func (c *countingRunner) Run(_ context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	return c.run(c.calls.Add(1), r)
}

func request(shell string) *sdk.RunRequest {
	return &sdk.RunRequest{Commands: []sdk.Command{{Shell: shell}}}
}

func echo(_ int64, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	return &sdk.RunResponse{Logs: []sdk.Log{{Output: r.Commands[0].Shell}}}, nil
}

func TestMemoRunsTheSameOnce(t *testing.T) {
	c := &countingRunner{run: echo}
	m := NewMemo(c, 0)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			want := strconv.Itoa(i % 4)
			r, err := m.Run(t.Context(), request(want))
			if err != nil || r.Logs[0].Output != want {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if n := c.calls.Load(); n != 4 {
		t.Errorf("%d runs for 4 different requests", n)
	}
}

func TestMemoForgetsErrorsAndTimeouts(t *testing.T) {
	boom := errors.New("sandbox died")
	c := &countingRunner{run: func(n int64, r *sdk.RunRequest) (*sdk.RunResponse, error) {
		switch n {
		case 1:
			return nil, boom
		case 2:
			return &sdk.RunResponse{Logs: []sdk.Log{{TimedOut: true}}}, nil
		}
		return echo(n, r)
	}}
	m := NewMemo(c, 0)
	if _, err := m.Run(t.Context(), request("x")); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if r, err := m.Run(t.Context(), request("x")); err != nil || !r.Logs[0].TimedOut {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := m.Run(t.Context(), request("x")); err != nil || r.Logs[0].Output != "x" {
		t.Errorf("a failure or a timeout must not be remembered: %v, %v", r, err)
	}
}

func TestMemoOutlivesACallerWhoGivesUp(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := &countingRunner{}
	c.run = func(n int64, r *sdk.RunRequest) (*sdk.RunResponse, error) {
		if n == 1 {
			close(started)
			<-release
			return nil, context.Canceled
		}
		return echo(n, r)
	}
	m := NewMemo(c, 0)
	first, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { _, err := m.Run(first, request("x")); gone <- err }()
	<-started
	second := make(chan error)
	go func() { _, err := m.Run(t.Context(), request("x")); second <- err }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the second caller must not inherit the first one's end: %v", err)
	}
}

func TestMemoIsBounded(t *testing.T) {
	c := &countingRunner{run: func(int64, *sdk.RunRequest) (*sdk.RunResponse, error) {
		return &sdk.RunResponse{Logs: []sdk.Log{{Output: string(make([]byte, 1000))}}}, nil
	}}
	m := NewMemo(c, 10_000)
	for i := range 100 {
		if _, err := m.Run(t.Context(), request(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if m.size > 10_000 || len(m.known) != m.order.Len() {
		t.Errorf("holds %d bytes in %d entries", m.size, len(m.known))
	}
}
