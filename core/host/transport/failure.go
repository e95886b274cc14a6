package transport

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
