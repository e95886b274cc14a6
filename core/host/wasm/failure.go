package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/valence-rl/valence/core/host/transport"
)

// guestError is the text of an error that the guest returned in good order.
type guestError string

func (e guestError) Error() string { return string(e) }

// failure classifies how a call under ctx ended with err.
func (i *instance) failure(ctx context.Context, err error) *transport.Failure {
	f := &transport.Failure{
		Reason: transport.ReasonTrap, Printed: i.printed.String(), Err: err,
		HostErr: i.failed, Lastly: i.lastly, Waiting: i.inside,
	}
	var exit *sys.ExitError
	var returned guestError
	var bad violation
	var stop interrupted
	exited, orderly := errors.As(err, &exit), errors.As(err, &returned)
	line, died := transport.Fatal(f.Printed)
	switch {
	case errors.As(err, &bad):
		f.Err = bad
	case errors.As(err, &stop), (exited || orderly) && ctx.Err() != nil:
		f.Reason, f.Err = transport.ReasonDeadline, context.Cause(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			f.Reason = transport.ReasonCancelled
		}
	case orderly:
		f.Reason = transport.ReasonError
		if strings.HasPrefix(string(returned), "panic: ") {
			f.Reason = transport.ReasonPanic
		}
	case line == "stack overflow", strings.Contains(err.Error(), "stack overflow"),
		i.memory.refused && strings.Contains(f.Printed, "runtime.copystack("): // Go ran out of memory for a larger stack
		f.Reason, f.Err = transport.ReasonStack, errors.New("stack overflow")
	case i.memory.refused:
		f.Reason, f.Err = transport.ReasonMemory, fmt.Errorf("more than %d MiB of memory wanted", i.memory.limit>>20)
	case died:
		f.Err = fmt.Errorf("the plugin's runtime gave up: %s", line)
	case exited:
		f.Reason, f.Err = transport.ReasonExit, fmt.Errorf("the plugin ended its program with status %d", exit.ExitCode())
	default:
		// What follows the first line is a trace without names.
		first, _, _ := strings.Cut(err.Error(), "\n")
		f.Err = errors.New(first)
	}
	return f
}
