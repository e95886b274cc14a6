package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"
)

// Reason says how a call failed.
type Reason string

// The ways to fail.
const (
	ReasonError     Reason = "error"     // the guest returned an error, in good order
	ReasonPanic     Reason = "panic"     // the author's code panicked and the SDK caught it
	ReasonTrap      Reason = "trap"      // the guest broke WASM's rules or the ABI's
	ReasonExit      Reason = "exit"      // the guest ended its program
	ReasonMemory    Reason = "memory"    // the guest asked for more than the limit and died
	ReasonStack     Reason = "stack"     // the guest recursed too deep
	ReasonDeadline  Reason = "deadline"  // the context's deadline passed
	ReasonCancelled Reason = "cancelled" // the context was cancelled
	ReasonAnswer    Reason = "answer"    // request or answer make no sense
)

// Failure is a call that gave no answer. Its instance is gone; the next call is
// not affected.
type Failure struct {
	Reason   Reason
	Starting bool   // it failed before the method was entered
	Printed  string // what the guest wrote to its standard output and error: beginning and end
	Err      error

	// HostErr is the last error of the host's services in this call, Lastly tells
	// that it was the very last service asked, Waiting that the deadline passed in it.
	HostErr error
	Lastly  bool
	Waiting bool
}

// Error is the cause in one line, without Printed.
func (f *Failure) Error() string {
	if f.Starting {
		return "start: " + f.Err.Error()
	}
	return f.Err.Error()
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// guestError is the text of an error that the guest returned in good order.
type guestError string

func (e guestError) Error() string { return string(e) }

// failure classifies how a call under ctx ended with err.
func (i *instance) failure(ctx context.Context, err error) *Failure {
	f := &Failure{
		Reason: ReasonTrap, Printed: i.printed.String(), Err: err,
		HostErr: i.failed, Lastly: i.failed != nil && i.lastly == i.failed, Waiting: i.inside,
	}
	var exit *sys.ExitError
	var returned guestError
	var bad violation
	exited, orderly := errors.As(err, &exit), errors.As(err, &returned)
	line, died := fatal(f.Printed)
	switch {
	case errors.As(err, &bad):
		f.Err = bad
	case (exited || orderly) && ctx.Err() != nil:
		f.Reason, f.Err = ReasonDeadline, context.Cause(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			f.Reason = ReasonCancelled
		}
	case orderly:
		f.Reason = ReasonError
		if strings.HasPrefix(string(returned), "panic: ") {
			f.Reason = ReasonPanic
		}
	case line == "stack overflow", strings.Contains(err.Error(), "stack overflow"),
		i.memory.refused && strings.Contains(f.Printed, "runtime.copystack("): // Go ran out of memory for a larger stack
		f.Reason, f.Err = ReasonStack, errors.New("stack overflow")
	case i.memory.refused:
		f.Reason, f.Err = ReasonMemory, fmt.Errorf("more than %d MiB of memory wanted", i.memory.limit>>20)
	case died:
		f.Err = fmt.Errorf("the plugin's runtime gave up: %s", line)
	case exited:
		f.Reason, f.Err = ReasonExit, fmt.Errorf("the plugin ended its program with status %d", exit.ExitCode())
	default:
		// What follows the first line is a trace without names.
		first, _, _ := strings.Cut(err.Error(), "\n")
		f.Err = errors.New(first)
	}
	return f
}

// fatal finds the line by which Go's runtime explains its end.
func fatal(printed string) (string, bool) {
	for line := range strings.Lines(printed) {
		if rest, ok := strings.CutPrefix(line, "fatal error: "); ok {
			return strings.TrimSpace(rest), true
		}
		if rest, ok := strings.CutPrefix(line, "panic: "); ok {
			return "panic: " + strings.TrimSpace(rest), true
		}
	}
	return "", false
}
