package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/host/transport"
)

// shownLines is how many of the first, and of the last, lines that a plugin printed
// an error shows.
const shownLines = 12

// failed is a call without an answer, as it is shown: the cause, and below it the
// what the plugin printed. Find the [transport.Failure] with errors.As.
type failed struct {
	*transport.Failure
	service error // of the host, which the plugin passed on; nil if it failed by itself
}

// passedOn tells whether the failure is that of a service: the plugin waited for
// it when the deadline passed, or returned its error, whole or in words of its own.
func passedOn(f *transport.Failure) bool {
	if f.HostErr == nil {
		return false
	}
	quoted := strings.Contains(f.Err.Error(), f.HostErr.Error())
	switch f.Reason {
	case transport.ReasonDeadline:
		return f.Waiting && f.Lastly
	case transport.ReasonError:
		return quoted || f.Lastly
	case transport.ReasonPanic:
		return quoted
	}
	return false
}

func (f *failed) Error() string {
	var b strings.Builder
	switch {
	case f.Reason == transport.ReasonDeadline && f.service != nil:
		fmt.Fprintf(&b, "%v, waiting for a service: %v", f.Failure, f.service)
	case f.Reason == transport.ReasonAnswer:
		fmt.Fprintf(&b, "the answer makes no sense: %v", f.Failure)
	case f.Reason == transport.ReasonDeadline:
		fmt.Fprintf(&b, "deadline: %v", f.Failure)
	default:
		b.WriteString(f.Failure.Error())
	}
	for _, l := range shown(f.Printed) {
		b.WriteString("\n" + l)
	}
	return b.String()
}

// shown gives the lines that a plugin printed as an error has them, those in the
// middle left out.
func shown(printed string) []string {
	if printed == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	if n := len(lines); n > 2*shownLines {
		lines = slices.Concat(lines[:shownLines], []string{"…"}, lines[n-shownLines:])
	}
	for i := range lines {
		lines[i] = "  | " + lines[i]
	}
	return lines
}

func (f *failed) Unwrap() []error {
	if f.service != nil {
		return []error{f.Failure, f.service}
	}
	return []error{f.Failure}
}
