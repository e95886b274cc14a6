package toolserver

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peer is a server's end of a stream that a test plays.
type peer struct {
	*testing.T
	conn  net.Conn
	ended chan error
}

func attach(t *testing.T, c *Client) *peer {
	ours, theirs := net.Pipe()
	p := &peer{T: t, conn: theirs, ended: make(chan error, 1)}
	t.Cleanup(func() { theirs.Close() })
	go func() { p.ended <- c.Run(ours) }()
	return p
}

func (p *peer) want(kind Kind, id uint32) Frame {
	p.Helper()
	f, err := ReadFrame(p.conn)
	if err != nil || f.Kind != kind || f.ID != id {
		p.Fatalf("got %+v, %v; want kind %d, id %d", f, err, kind, id)
	}
	return f
}

func (p *peer) answer(id uint32, text string) {
	p.Helper()
	var e Encoder
	e.failure(nil)
	e.String(text)
	if err := WriteFrame(p.conn, Frame{ID: id, Kind: KindAnswer, Body: e.B}); err != nil {
		p.Error(err)
	}
}

// ask sends a request in the background and gives what becomes of it.
func ask(ctx context.Context, c *Client, k Kind) <-chan string {
	out := make(chan string, 1)
	go func() {
		var text string
		if err := c.Call(ctx, k, func(e *Encoder) { e.String("ask") }, func(d *Decoder) { text = d.String() }); err != nil {
			text = err.Error()
		}
		out <- text
	}()
	return out
}

// TestResume: what was not answered on one stream is asked again on the next, and
// nothing else is.
func TestResume(t *testing.T) {
	c := NewClient(true)
	p := attach(t, c)
	one := ask(t.Context(), c, KindExec)
	p.want(KindExec, 1)
	two := ask(t.Context(), c, KindExec)
	p.want(KindExec, 2)
	go p.answer(1, "one")
	if got := <-one; got != "one" {
		t.Error(got)
	}
	p.want(KindSeen, 1)
	p.conn.Close()
	<-p.ended
	three := ask(t.Context(), c, KindRead) // waits for a stream
	ctx, cancel := context.WithCancel(t.Context())
	four := ask(ctx, c, KindExec)
	cancel()
	if got := <-four; got != context.Canceled.Error() {
		t.Error(got)
	}
	q := attach(t, c)
	f, err := ReadFrame(q.conn)
	if err != nil || f.Kind != KindResume {
		t.Fatalf("%+v, %v", f, err)
	}
	d := &Decoder{B: f.Body}
	var awaited []uint32
	for range d.Count() {
		awaited = append(awaited, uint32(d.Uint()))
	}
	if d.Err() != nil || !slices.Contains(awaited, 2) {
		t.Fatalf("awaited %v, %v", awaited, d.Err())
	}
	again := map[uint32]Kind{}
	for len(again) < 2 {
		f, err := ReadFrame(q.conn)
		if err != nil {
			t.Fatal(err)
		}
		again[f.ID] = f.Kind
	}
	var read uint32
	for id, k := range again {
		if k == KindRead {
			read = id
		}
	}
	if d := cmp.Diff(map[uint32]Kind{2: KindExec, read: KindRead}, again); d != "" {
		t.Fatal(d)
	}
	go q.answer(2, "two")
	if got := <-two; got != "two" {
		t.Error(got)
	}
	q.want(KindSeen, 2)
	go q.answer(read, "three")
	if got := <-three; got != "three" {
		t.Error(got)
	}
}

func TestClose(t *testing.T) {
	c := NewClient(false)
	p := attach(t, c)
	pending := ask(t.Context(), c, KindExec)
	p.want(KindExec, 1)
	gone := errors.New("it is gone")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { c.Close(gone) })
	}
	all.Wait()
	if got := <-pending; got != gone.Error() {
		t.Error(got)
	}
	<-p.ended
	if got := <-ask(t.Context(), c, KindExec); got != gone.Error() {
		t.Error(got)
	}
	if err := c.Run(closed{}); err != gone {
		t.Errorf("a stream after the end: %v", err)
	}
}

type closed struct{}

func (closed) Read([]byte) (int, error)  { return 0, io.EOF }
func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (closed) Close() error              { return nil }
