package chatserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// reachTime is how long a server may take to say that it is there.
const reachTime = 20 * time.Second

// Reach asks every endpoint, once, whether it is there and takes the key, by its list of
// models. A server without such a list is there. The error, an [*Error], says that none
// is there or that one refuses the key; endpoints that are not there beside others that
// are are logged. It costs no tokens.
func (c *Client) Reach(ctx context.Context) error {
	var gone []*Error
	for _, e := range c.endpoints {
		no := c.knock(ctx, strings.TrimSuffix(e.url, "/chat/completions")+"/models")
		switch {
		case no == nil:
		case no.Fault == Denied:
			return no
		default:
			gone = append(gone, no)
		}
	}
	if len(gone) == len(c.endpoints) {
		return gone[0]
	}
	for _, no := range gone {
		c.o.Log.Warn("a server is not there; the others are asked", "error", no)
	}
	return nil
}

// knock makes one request.
func (c *Client) knock(ctx context.Context, url string) *Error {
	limited, cancel := context.WithTimeoutCause(ctx, reachTime, fmt.Errorf("%w: %v", errTooLate, reachTime))
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, url, nil)
	if err != nil {
		return &Error{Fault: Yours, URL: url, Err: err}
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	res, err := c.http.Do(req)
	switch {
	case err == nil:
	case limited.Err() != nil:
		return &Error{Fault: Slow, URL: url, Err: over(limited)}
	default:
		return &Error{Fault: Cut, URL: url, Err: unaddressed(err)}
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // an error's text may be cut
		no := refused(res.StatusCode, res.Header, b, time.Now())
		no.URL = url
		return no
	}
	return nil
}
