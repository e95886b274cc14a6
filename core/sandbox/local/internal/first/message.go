package first

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// Setup is what the server needs to make its surroundings.
type Setup struct {
	Base     string   // any directory that the sandbox's user can reach; the scratch file system covers it
	Disk     uint64   // size of the scratch file system in bytes
	Inodes   uint64   // its number of files
	Binds    []Bind   // of the host, read-only
	Lower    string   // path of the workspace's files; "" when it comes as an open tree
	Joins    uint64   // files of control groups that come after the trees
	Links    []string // pairs: name in the root, target
	Files    []string // pairs: name in the root, contents
	Dir      string   // where the workspace appears
	Filter   []byte   // assembled seccomp program
	Proc     bool     // mount a fresh /proc; else bind the host's
	MaxData  uint64   // RLIMIT_DATA of every command; 0: none
	MaxProcs uint64   // RLIMIT_NPROC; 0: none
	Scratch  string   // directory that takes the place of the scratch file system; "": one in memory
	Given    bool     // it comes as a tree, after all others
	Bare     bool     // without namespaces: Dir, Base and Lower are directories of the host, and commands may use nothing but them and the binds
}

// Bind is a directory or file of the host that the sandbox sees. Its tree is
// either handed over as an open descriptor, in the order of the list from
// firstTreeFD on, or opened by the server at Path.
type Bind struct {
	Path   string // on the host
	Target string // in the sandbox
	File   bool   // it is a file
	Tree   bool   // it comes as a descriptor
}

// Encode appends s to e.
func (s *Setup) Encode(e *Encoder) {
	e.String(s.Base)
	e.Uint(s.Disk)
	e.Uint(s.Inodes)
	e.Uint(uint64(len(s.Binds)))
	for _, b := range s.Binds {
		e.String(b.Path)
		e.String(b.Target)
		e.Bool(b.File)
		e.Bool(b.Tree)
	}
	e.String(s.Lower)
	e.Uint(s.Joins)
	e.Strings(s.Links)
	e.Strings(s.Files)
	e.String(s.Dir)
	e.Bytes(s.Filter)
	e.Bool(s.Proc)
	e.Uint(s.MaxData)
	e.Uint(s.MaxProcs)
	e.Bool(s.Bare)
	e.String(s.Scratch)
	e.Bool(s.Given)
}

// Decode takes s off d.
func (s *Setup) Decode(d *Decoder) {
	s.Base = d.String()
	s.Disk = d.Uint()
	s.Inodes = d.Uint()
	for range d.count() {
		s.Binds = append(s.Binds, Bind{Path: d.String(), Target: d.String(), File: d.Bool(), Tree: d.Bool()})
	}
	s.Lower = d.String()
	s.Joins = d.Uint()
	s.Links = d.Strings()
	s.Files = d.Strings()
	s.Dir = d.String()
	s.Filter = d.Bytes()
	s.Proc = d.Bool()
	s.MaxData = d.Uint()
	s.MaxProcs = d.Uint()
	s.Bare = d.Bool()
	s.Scratch = d.String()
	s.Given = d.Bool()
}

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

func (r *Result) encode(e *Encoder) {
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
