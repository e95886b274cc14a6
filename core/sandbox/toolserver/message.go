package toolserver

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// Exec is one command.
type Exec struct {
	Shell   string
	Args    []string
	Dir     string
	Env     []string
	Stdin   []byte
	Timeout time.Duration // in whole milliseconds on the wire
	Output  uint64        // bytes to keep
}

// Encode appends r to e.
func (r *Exec) Encode(e *Encoder) {
	e.String(r.Shell)
	e.Strings(r.Args)
	e.String(r.Dir)
	e.Strings(r.Env)
	e.Bytes(r.Stdin)
	e.Uint(uint64(r.Timeout.Milliseconds()))
	e.Uint(r.Output)
}

// Decode takes r off d.
func (r *Exec) Decode(d *Decoder) {
	r.Shell = d.String()
	r.Args = d.Strings()
	r.Dir = d.String()
	r.Env = d.Strings()
	r.Stdin = d.Bytes()
	r.Timeout = time.Duration(d.Uint()) * time.Millisecond
	r.Output = d.Uint()
}

// Result is how a command ended; its fields are those of the sandbox contract.
type Result struct {
	Output    []byte
	ExitCode  int
	TimedOut  bool
	Truncated bool
	Bytes     int64
	Took      time.Duration
}

// Encode appends r to e.
func (r *Result) Encode(e *Encoder) {
	e.Bytes(r.Output)
	e.Uint(uint64(r.ExitCode))
	e.Bool(r.TimedOut)
	e.Bool(r.Truncated)
	e.Uint(uint64(r.Bytes))
	e.Uint(uint64(r.Took))
}

// Decode takes r off d. Output aliases the body.
func (r *Result) Decode(d *Decoder) {
	r.Output = d.Bytes()
	r.ExitCode = int(d.Uint())
	r.TimedOut = d.Bool()
	r.Truncated = d.Bool()
	r.Bytes = int64(d.Uint())
	r.Took = time.Duration(d.Uint())
}

// ErrTooLarge says that contents exceed the limit that came with the request.
var ErrTooLarge = errors.New("larger than the limit")

// failure appends err, which may be nil. What callers test for with errors.Is
// survives the way through the socket: system errors, and ErrTooLarge.
func (e *Encoder) failure(err error) {
	var op, name, text string
	var number syscall.Errno
	if err != nil {
		text = err.Error()
		var p *fs.PathError
		if errors.As(err, &p) {
			op, name = p.Op, p.Path
		}
		errors.As(err, &number)
	}
	e.String(op)
	e.String(name)
	e.Uint(uint64(number))
	e.Bool(errors.Is(err, ErrTooLarge))
	e.String(text)
}

// Failure takes what every answer begins with: nil, or why there is no more.
func (d *Decoder) Failure() error {
	op, name, number, large, text := d.String(), d.String(), d.Uint(), d.Bool(), d.String()
	if text == "" {
		return nil
	}
	var cause error
	switch {
	case large:
		cause = ErrTooLarge
	case number != 0:
		cause = syscall.Errno(number)
	default:
		cause = errors.New(text)
	}
	if name != "" {
		return &fs.PathError{Op: op, Path: name, Err: cause}
	}
	return &remoteError{text: text, cause: cause}
}

// remoteError is an error of the server in its own words.
type remoteError struct {
	text  string
	cause error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.cause }
