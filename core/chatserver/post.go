package chatserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

var (
	errSilent  = errors.New("the server fell silent")
	errTooLate = errors.New("no answer in time")
	errTooBig  = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
)

// post makes one HTTP request. The error's URL is set.
func (c *Client) post(ctx context.Context, at *endpoint, q *Question, body []byte) (a *Answer, shown bool, no *Error) {
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(c.o.Timeout, func() { cancel(fmt.Errorf("%w: %v", errTooLate, c.o.Timeout)) })
	defer late.Stop()

	alive := false // a piece of a stream has come
	lost := func(err error) *Error {
		switch {
		case ctx.Err() != nil && alive:
			return &Error{Fault: Ended, URL: at.url, Err: over(ctx)}
		case ctx.Err() != nil:
			return &Error{Fault: Slow, URL: at.url, Err: over(ctx)}
		case attempt.Err() != nil:
			return &Error{Fault: Slow, URL: at.url, Err: context.Cause(attempt)}
		}
		return &Error{Fault: Cut, URL: at.url, Err: err}
	}
	req, err := http.NewRequestWithContext(attempt, http.MethodPost, at.url, bytes.NewReader(body))
	if err != nil {
		return nil, false, &Error{Fault: Yours, URL: at.url, Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if q.Stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if q.Session != "" {
		req.Header.Set("X-Session-ID", printable(q.Session))
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, false, lost(unaddressed(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // an error's text may be cut
		if attempt.Err() != nil {
			return nil, false, lost(nil)
		}
		no := refused(res.StatusCode, res.Header, b, time.Now())
		no.URL = at.url
		return nil, false, no
	}
	in := &bounded{r: res.Body, left: maxAnswer}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		b, err := io.ReadAll(in)
		switch {
		case errors.Is(err, errTooBig):
			return nil, false, &Error{Fault: Garbled, URL: at.url, Err: err}
		case err != nil:
			return nil, false, lost(err)
		}
		a, no := readWhole(b)
		if no != nil {
			no.URL = at.url
			return nil, false, no
		}
		a.Endpoint = at.url
		return a, false, nil
	}

	quiet := time.AfterFunc(c.o.Silence, func() { cancel(fmt.Errorf("%w: for %v", errSilent, c.o.Silence)) })
	defer quiet.Stop()
	var s stream
	events := newEvents(in)
	for {
		data, err := events.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errTooBig) || errors.Is(err, errNotUTF8) {
			return nil, shown, &Error{Fault: Garbled, URL: at.url, Err: err}
		}
		if err != nil {
			return nil, shown, lost(err)
		}
		quiet.Reset(c.o.Silence)
		alive = true
		piece, done, no := s.add(data)
		if no != nil {
			no.URL = at.url
			return nil, shown, no
		}
		if piece != "" && q.Piece != nil {
			shown = true
			q.Piece(piece)
		}
		if done {
			break
		}
	}
	a, no = s.answer()
	if no != nil {
		if no.Fault == Cut && attempt.Err() != nil {
			no = lost(no.Err)
		}
		no.URL = at.url
		return nil, shown, no
	}
	a.Endpoint = at.url
	return a, shown, nil
}

// printable is s as a header may have it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7F {
			return '_'
		}
		return r
	}, s)
}

// over is why ctx ended: its cause and, where that says something else, its error.
func over(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, ctx.Err())
}

// unaddressed takes method and address off an error of net/http; [Error] has them.
func unaddressed(err error) error {
	type wrapped interface{ Unwrap() error }
	if w, ok := err.(wrapped); ok {
		return w.Unwrap()
	}
	return err
}

// bounded reads until more than left bytes came, which is errTooBig.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooBig
	}
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooBig
	}
	return n, err
}
