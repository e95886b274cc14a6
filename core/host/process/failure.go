package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/valence-rl/valence/core/host/transport"
)

// deathWait is how long a process whose connection broke may take to end by
// itself, which tells more than a kill.
const deathWait = 2 * time.Second

// crash is the status of Go's runtime when it gives up.
const crash = 2

// health is what a failed call tells of its process.
type health int

const (
	answers health = iota // it can serve other calls
	busy                  // it may still be at work on this call
	dead                  // its program has ended
)

// failure classifies how c ended with err.
func (c *call) failure(err error) (*transport.Failure, health) {
	f := &transport.Failure{Reason: transport.ReasonTrap}
	h := answers
	s := status.Convert(err)
	switch {
	case late(c.ctx):
		f, h = over(c.ctx), busy
	case s.Code() == codes.Unknown:
		f.Reason, f.Err = transport.ReasonError, errors.New(s.Message())
		if strings.HasPrefix(s.Message(), "panic: ") {
			f.Reason = transport.ReasonPanic
		}
	case s.Code() == codes.Unavailable:
		h = dead
	default:
		f.Err = fmt.Errorf("the plugin broke the protocol: %s: %s", s.Code(), s.Message())
	}
	p := c.worker.program
	if h == dead {
		select {
		case <-p.gone:
		case <-time.After(deathWait):
			p.kill(fmt.Errorf("the plugin broke the connection off: %s", s.Message()))
			<-p.gone
		}
	}
	p.drain()
	f.Printed = p.output.text(c.printed)
	if h == dead {
		if f.Err = p.killed(); f.Err == nil {
			f.Reason, f.Err = fate(p.cmd.ProcessState, f.Printed, p.config.Memory)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.HostErr, f.Lastly, f.Waiting = c.failed, c.lastly, c.waiting
	return f, h
}

// late tells whether ctx has ended, or would have if its timer were quicker: the
// plugin has the same deadline and may be the first to notice.
func late(ctx context.Context) bool {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// over is the failure of a call whose ctx has ended.
func over(ctx context.Context) *transport.Failure {
	f := &transport.Failure{Reason: transport.ReasonDeadline, Err: context.Cause(ctx)}
	if errors.Is(ctx.Err(), context.Canceled) {
		f.Reason = transport.ReasonCancelled
	}
	return f
}

// starting marks f as one of before the call.
func starting(f *transport.Failure) *transport.Failure {
	f.Starting = true
	return f
}

// fate says how a program ended that nobody had killed, by its status and by what
// it printed.
func fate(s *os.ProcessState, printed string, memory int64) (transport.Reason, error) {
	code := s.ExitCode() // -1 after a signal
	line, died := transport.Fatal(printed)
	switch {
	case !died || code != crash && code != -1:
	case line == "stack overflow", starved(line) && strings.Contains(printed, "runtime.copystack("): // Go ran out of memory for a larger stack
		return transport.ReasonStack, errors.New("stack overflow")
	case starved(line):
		return transport.ReasonMemory, fmt.Errorf("more than %d MiB of memory wanted", memory>>20)
	default:
		return transport.ReasonTrap, fmt.Errorf("the plugin's runtime gave up: %s", line)
	}
	if code == -1 {
		return transport.ReasonTrap, fmt.Errorf("the plugin's process ended by %s", s)
	}
	return transport.ReasonExit, fmt.Errorf("the plugin ended its program with status %d", code)
}

// starved tells whether the line is that of Go's runtime without memory.
func starved(line string) bool {
	return strings.Contains(line, "out of memory") || strings.Contains(line, "cannot allocate memory")
}
