package local

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/valence-rl/valence/core/sandbox"
)

// setup is what the server needs to make its surroundings.
type setup struct {
	base     string   // any directory that the sandbox's user can reach; the scratch file system covers it
	disk     uint64   // size of the scratch file system in bytes
	inodes   uint64   // its number of files
	binds    []bind   // of the host, read-only
	lower    string   // path of the workspace's files; "" when it comes as an open tree
	links    []string // pairs: name in the root, target
	files    []string // pairs: name in the root, contents
	dir      string   // where the workspace appears
	filter   []byte   // assembled seccomp program
	proc     bool     // mount a fresh /proc; else bind the host's
	maxData  uint64   // RLIMIT_DATA of every command; 0: none
	maxProcs uint64   // RLIMIT_NPROC; 0: none
}

// bind is a directory or file of the host that the sandbox sees. Its tree is
// either handed over as an open descriptor, in the order of the list from
// firstTree on, or opened by the server at path.
type bind struct {
	path   string
	target string
	file   bool
	tree   bool
}

func (s *setup) encode(e *encoder) {
	e.string(s.base)
	e.uint(s.disk)
	e.uint(s.inodes)
	e.uint(uint64(len(s.binds)))
	for _, b := range s.binds {
		e.string(b.path)
		e.string(b.target)
		e.bool(b.file)
		e.bool(b.tree)
	}
	e.string(s.lower)
	e.strings(s.links)
	e.strings(s.files)
	e.string(s.dir)
	e.bytes(s.filter)
	e.bool(s.proc)
	e.uint(s.maxData)
	e.uint(s.maxProcs)
}

func (s *setup) decode(d *decoder) {
	s.base = d.string()
	s.disk = d.uint()
	s.inodes = d.uint()
	for range d.count() {
		s.binds = append(s.binds, bind{path: d.string(), target: d.string(), file: d.bool(), tree: d.bool()})
	}
	s.lower = d.string()
	s.links = d.strings()
	s.files = d.strings()
	s.dir = d.string()
	s.filter = d.bytes()
	s.proc = d.bool()
	s.maxData = d.uint()
	s.maxProcs = d.uint()
}

// execRequest is one command.
type execRequest struct {
	shell   string
	args    []string
	dir     string
	env     []string
	stdin   []byte
	timeout time.Duration // in whole milliseconds on the wire
	output  uint64        // bytes to keep
}

func (r *execRequest) encode(e *encoder) {
	e.string(r.shell)
	e.strings(r.args)
	e.string(r.dir)
	e.strings(r.env)
	e.bytes(r.stdin)
	e.uint(uint64(r.timeout.Milliseconds()))
	e.uint(r.output)
}

func (r *execRequest) decode(d *decoder) {
	r.shell = d.string()
	r.args = d.strings()
	r.dir = d.string()
	r.env = d.strings()
	r.stdin = d.bytes()
	r.timeout = time.Duration(d.uint()) * time.Millisecond
	r.output = d.uint()
}

func encodeResult(e *encoder, r *sandbox.Result) {
	e.bytes(r.Output)
	e.uint(uint64(r.ExitCode))
	e.bool(r.TimedOut)
	e.bool(r.Truncated)
	e.uint(uint64(r.Bytes))
	e.uint(uint64(r.Took))
}

func decodeResult(d *decoder) sandbox.Result {
	return sandbox.Result{Output: d.bytes(), ExitCode: int(d.uint()), TimedOut: d.bool(),
		Truncated: d.bool(), Bytes: int64(d.uint()), Took: time.Duration(d.uint())}
}

// failure is an error on its way through the socket. What callers test for with
// errors.Is survives: system errors by their number, and sandbox.ErrTooLarge.
type failure struct {
	op, path string
	errno    uint64
	large    bool
	text     string
}

func failureOf(err error) failure {
	var f failure
	if err == nil {
		return f
	}
	f.text = err.Error()
	var p *fs.PathError
	if errors.As(err, &p) {
		f.op, f.path, f.text = p.Op, p.Path, p.Err.Error()
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		f.errno = uint64(n)
	}
	f.large = errors.Is(err, sandbox.ErrTooLarge)
	return f
}

func (f *failure) encode(e *encoder) {
	e.string(f.op)
	e.string(f.path)
	e.uint(f.errno)
	e.bool(f.large)
	e.string(f.text)
}

func (f *failure) decode(d *decoder) {
	f.op = d.string()
	f.path = d.string()
	f.errno = d.uint()
	f.large = d.bool()
	f.text = d.string()
}

// err is nil for the zero failure.
func (f *failure) err() error {
	if f.text == "" {
		return nil
	}
	var cause error
	switch {
	case f.large:
		cause = sandbox.ErrTooLarge
	case f.errno != 0:
		cause = syscall.Errno(f.errno)
	default:
		cause = errors.New(f.text)
	}
	if f.path != "" {
		return &fs.PathError{Op: f.op, Path: f.path, Err: cause}
	}
	return &remoteError{text: f.text, cause: cause}
}

// remoteError is an error of the server in its own words.
type remoteError struct {
	text  string
	cause error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.cause }
