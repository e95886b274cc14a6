package toolserver

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"sync"
)

// Client asks a server. Requests of any number of goroutines share its stream; they
// outlive it, and are asked again on the next one.
type Client struct {
	resumable bool

	writing sync.Mutex // held for each frame

	mu     sync.Mutex
	conn   io.ReadWriteCloser // nil: none at present
	later  bool               // there has been one
	next   uint32
	waits  map[uint32]*wait
	closed error // the answer to everything from now on
}

type wait struct {
	frame  Frame
	answer chan Frame
	failed chan struct{} // closed with the client
}

// NewClient gives a client without a stream: requests wait for Run. resumable is
// what the server's Config says.
func NewClient(resumable bool) *Client {
	return &Client{resumable: resumable, waits: map[uint32]*wait{}}
}

// Run sends what is awaited to conn and hands its answers to those who asked, until
// it ends; the error says how. It closes conn. One Run works at a time.
func (c *Client) Run(conn io.ReadWriteCloser) error {
	defer conn.Close()
	if err := c.attach(conn); err != nil {
		return err
	}
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	for {
		f, err := ReadFrame(conn)
		if err != nil {
			return err
		}
		c.mu.Lock()
		w := c.waits[f.ID]
		delete(c.waits, f.ID)
		c.mu.Unlock()
		if w == nil {
			continue
		}
		w.answer <- f
		if c.resumable && w.frame.Kind != KindRead && w.frame.Kind != KindDiff {
			c.send(Frame{ID: f.ID, Kind: KindSeen})
		}
	}
}

// attach says on conn what is still awaited, and asks for it again.
func (c *Client) attach(conn io.ReadWriteCloser) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return c.closed
	}
	c.conn = conn
	again := make([]Frame, 1, 1+len(c.waits))
	var e Encoder
	e.Uint(uint64(len(c.waits)))
	for _, id := range slices.Sorted(maps.Keys(c.waits)) {
		e.Uint(uint64(id))
		again = append(again, c.waits[id].frame)
	}
	again[0] = Frame{Kind: KindResume, Body: e.B}
	if !c.later {
		again = again[1:] // the server knows of nothing yet
	}
	c.later = true
	c.mu.Unlock()
	for _, f := range again {
		if err := WriteFrame(conn, f); err != nil {
			return err
		}
	}
	return nil
}

// send writes to the stream, if there is one. Where that fails the stream ends, and
// Run says so.
func (c *Client) send(f Frame) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil && WriteFrame(conn, f) != nil {
		conn.Close()
	}
}

// Call sends a request whose body ask appends, and gives its answer to answer,
// which may be nil. It waits for a stream where there is none. A failure of the
// server is its error; system errors and ErrTooLarge are found in it. After Close
// the error is Close's. When ctx ends, so does a command, and the error is ctx's.
func (c *Client) Call(ctx context.Context, k Kind, ask func(*Encoder), answer func(*Decoder)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var e Encoder
	ask(&e)
	w := &wait{answer: make(chan Frame, 1), failed: make(chan struct{})}
	c.mu.Lock()
	if err := c.closed; err != nil {
		c.mu.Unlock()
		return err
	}
	c.next++
	id := c.next
	w.frame = Frame{ID: id, Kind: k, Body: e.B}
	c.waits[id] = w
	c.mu.Unlock()
	c.send(w.frame)
	select {
	case f := <-w.answer:
		return take(f, answer)
	case <-w.failed:
		return c.closed
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waits, id)
		c.mu.Unlock()
		c.send(Frame{Kind: KindCancel, Body: binary.AppendUvarint(nil, uint64(id))})
		return ctx.Err()
	}
}

// take reads an answer: the failure, or else what body takes.
func take(f Frame, body func(*Decoder)) error {
	d := &Decoder{B: f.Body}
	if err := d.Failure(); err != nil {
		return err
	}
	if body != nil {
		body(d)
	}
	return d.Err()
}

// Close makes err, which is not nil, the answer to everything that is awaited or
// comes. Only the first call counts. It ends the stream, if there is one.
func (c *Client) Close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return
	}
	c.closed = err
	for _, w := range c.waits {
		close(w.failed)
	}
	c.waits = nil
	if c.conn != nil {
		c.conn.Close()
	}
}

// Cut ends the stream at present, if there is one, as a network may: what is awaited
// stays so, and Run returns.
func (c *Client) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
}
