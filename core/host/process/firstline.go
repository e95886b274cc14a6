package process

import (
	"bytes"
	"io"
)

// firstLine lets go-plugin read the first line of a process's standard output,
// once it is known to be a handshake, and passes the others on.
type firstLine struct {
	others  io.Writer
	got     []byte
	done    bool
	lines   chan []byte // of go-plugin; closed after the first
	rest    []byte      // of it, that go-plugin has not read yet
	refused error       // why the line is no handshake; set before lines is closed
}

func newFirstLine(others io.Writer) *firstLine {
	return &firstLine{others: others, lines: make(chan []byte, 1)}
}

// Write takes what the process prints. Calls come one after the other.
func (f *firstLine) Write(b []byte) (int, error) {
	if f.done {
		return f.others.Write(b)
	}
	f.got = append(f.got, b...)
	n := bytes.IndexByte(f.got, '\n') + 1
	if n == 0 && len(f.got) < maxLine {
		return len(b), nil
	}
	if n == 0 {
		n = len(f.got)
	}
	line := f.got[:n]
	if f.refused = checkHandshake(string(line)); f.refused == nil {
		f.lines <- line
	} else {
		f.others.Write(line)
	}
	f.end()
	f.others.Write(f.got[n:])
	return len(b), nil
}

// end says that no line will come any more.
func (f *firstLine) end() {
	if !f.done {
		f.done = true
		close(f.lines)
	}
}

// Read is go-plugin's. It blocks until there is a line or none will come.
func (f *firstLine) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		line, ok := <-f.lines
		if !ok {
			return 0, io.EOF
		}
		f.rest = line
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
