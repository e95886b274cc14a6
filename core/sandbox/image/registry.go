package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// answer is how long a registry may take to begin an answer, or to go on with one.
const answer = 30 * time.Second

// attempts are made at what may be a passing failure.
const attempts = 5

// registry reads one image from the places that may have it.
type registry struct {
	sources []*source
	pause   time.Duration
	log     *slog.Logger
}

// source is one place: a repository of a registry.
type source struct {
	repository name.Repository
	base       http.RoundTripper

	mu     sync.Mutex
	client *http.Client // once the registry has answered
}

func newRegistry(repositories []name.Repository, pause time.Duration, log *slog.Logger) (r *registry, done func()) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = answer
	r = &registry{pause: pause, log: log}
	for _, repository := range repositories {
		r.sources = append(r.sources, &source{repository: repository, base: transport.NewUserAgent(t, "valence")})
	}
	return r, t.CloseIdleConnections
}

// connect finds out how the registry wants to be spoken to. Credentials are those of
// docker's configuration.
func (s *source) connect(ctx context.Context) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, s.repository)
	if err != nil {
		return nil, refuse(Denied, "credentials for %s: %w", s.repository.RegistryStr(), err)
	}
	t, err := transport.NewWithContext(ctx, s.repository.Registry, auth, s.base, []string{s.repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	s.client = &http.Client{Transport: t, CheckRedirect: s.redirect}
	return s.client, nil
}

// redirect lets a registry send us to where its blobs are, but not from HTTPS to HTTP,
// nor from outside into this machine's networks.
func (s *source) redirect(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	switch {
	case len(via) >= 10:
		return errors.New("it redirects without end")
	case from.Scheme == "https" && to.URL.Scheme != "https":
		return refuse(Denied, "%s redirects from HTTPS to %s", from.Host, to.URL.Scheme)
	case isInner(to.URL) && !isInner(from) && to.URL.Host != from.Host:
		return refuse(Denied, "%s redirects to %s, which is an address of an inner network", from.Host, to.URL.Host)
	}
	return nil
}

func isInner(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
}

// get asks for a document of the repository from offset on. If offset is not 0, the
// answer may begin at 0 all the same: status tells.
func (s *source) get(ctx context.Context, sort, id, accept string, offset int64) (*http.Response, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: s.repository.Scheme(), Host: s.repository.RegistryStr(), Path: fmt.Sprintf("/v2/%s/%s/%s", s.repository.RepositoryStr(), sort, id)}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(response, http.StatusOK, http.StatusPartialContent); err != nil {
		response.Body.Close()
		wait, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return nil, &refused{err, min(time.Duration(max(wait, 0))*time.Second, answer)}
	}
	return response, nil
}

// refused is an answer that is none.
type refused struct {
	err  error
	wait time.Duration // that the registry asked for
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// classified says why a request failed.
func classified(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if reasonOf(err) != "" {
		return err
	}
	var answered *transport.Error
	if !errors.As(err, &answered) {
		return &Error{Unreachable, err}
	}
	switch code := answered.StatusCode; {
	case code == http.StatusNotFound:
		return &Error{Absent, err}
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &Error{Denied, err}
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return &Error{Unreachable, err}
	}
	return &Error{Denied, err}
}

// again waits before attempt n, which is 1 or more, after err. It tells whether one is
// to be made.
func (r *registry) again(ctx context.Context, n int, err error) bool {
	if reasonOf(err) != Unreachable || n >= attempts {
		return false
	}
	pause := r.pause << (n - 1)
	var asked *refused
	if errors.As(err, &asked) {
		pause = max(pause, asked.wait)
	}
	r.log.Debug("a registry is asked again", "attempt", n+1, "pause", pause, "cause", err)
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// each asks the sources in turn, each several times, until one answers.
func (r *registry) each(ctx context.Context, ask func(*source) error) error {
	var last error
	for i, s := range r.sources {
		for n := 1; ; n++ {
			err := ask(s)
			if err == nil {
				return nil
			}
			last = classified(ctx, err)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !r.again(ctx, n, last) {
				break
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if i+1 < len(r.sources) {
			r.log.Warn("a mirror does not give the image, the next source is asked", "mirror", s.repository.Name(), "cause", last)
		}
	}
	return last
}

// document reads a small one. If id is a digest, the bytes have it.
func (r *registry) document(ctx context.Context, sort, id string, most int64) (raw []byte, err error) {
	err = r.each(ctx, func(s *source) error {
		accept := ""
		if sort == "manifests" {
			accept = mediaTypes
		}
		response, err := s.get(ctx, sort, id, accept, 0)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		raw, err = io.ReadAll(io.LimitReader(watch(response.Body), most+1))
		switch {
		case err != nil:
			return err
		case int64(len(raw)) > most:
			return refuse(TooLarge, "its %s has more than %d bytes", sort[:len(sort)-1], most)
		case digestForm.MatchString(id) && digestOf(raw) != id:
			return refuse(Changed, "%s: want %s, got bytes of %s", s.repository.Name(), id, digestOf(raw))
		}
		return nil
	})
	return raw, err
}

// image finds what id, a tag or a digest, is on this machine.
func (r *registry) image(ctx context.Context, id string) (*content, error) {
	var digest string
	var m *manifest
	for depth := 0; m == nil || m.Manifests != nil; depth++ {
		if depth == 4 {
			return nil, refuse(Malformed, "its index holds indexes without end")
		}
		if m != nil {
			d, err := m.pick()
			if err != nil {
				return nil, err
			}
			id = d.Digest.String()
		}
		raw, err := r.document(ctx, "manifests", id, maxManifest)
		if err != nil {
			return nil, err
		}
		digest = digestOf(raw)
		if m, err = readManifest(raw); err != nil {
			return nil, err
		}
	}
	raw, err := r.document(ctx, "blobs", m.Config.Digest.String(), maxConfig)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(raw)
	if err != nil {
		return nil, err
	}
	var layers []layer
	for _, d := range m.Layers {
		layers = append(layers, r.layer(d))
	}
	return assemble(digest, c, layers)
}

func (r *registry) layer(d v1.Descriptor) layer {
	digest := d.Digest.String()
	return layer{digest: digest, size: d.Size, sources: len(r.sources), open: func(ctx context.Context, source int) (io.ReadCloser, error) {
		return &download{ctx: ctx, registry: r, digest: digest, size: d.Size, source: source}, nil
	}}
}

// download reads a blob. Where it is cut it goes on, if need be from another source.
type download struct {
	ctx      context.Context
	registry *registry
	digest   string
	size     int64

	at     int64 // bytes read
	body   io.ReadCloser
	source int   // the one that body is from
	tried  int   // attempts that failed without much progress
	since  int64 // where the last failure was
}

// enough progress between two failures that they are not counted together.
const enough = 1 << 20

func (d *download) Read(p []byte) (int, error) {
	for {
		err := error(nil)
		if d.body == nil {
			err = d.connect()
		}
		if err == nil {
			n, e := d.body.Read(p)
			d.at += int64(n)
			if n > 0 || e == nil {
				return n, nil
			}
			if e == io.EOF && d.at >= d.size {
				return 0, io.EOF
			}
			if err = e; e == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		}
		if err := d.failed(classified(d.ctx, err)); err != nil {
			return 0, err
		}
	}
}

// failed decides what is next: nil to go on.
func (d *download) failed(err error) error {
	d.Close()
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	if d.at-d.since >= enough {
		d.tried = 0
	}
	d.since = d.at
	d.tried++
	if d.registry.again(d.ctx, d.tried, err) {
		return nil
	}
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	if d.source++; d.source == len(d.registry.sources) {
		return err
	}
	d.registry.log.Warn("a mirror does not give a layer, the next source is asked", "layer", d.digest, "cause", err)
	d.tried = 0
	return nil
}

// connect asks for what is left. A server that cannot start in the middle gives all,
// of which the beginning is passed over: the digest covers both halves.
func (d *download) connect() error {
	s := d.registry.sources[d.source]
	response, err := s.get(d.ctx, "blobs", d.digest, "", d.at)
	if err != nil {
		return err
	}
	d.body = watch(response.Body)
	begin := int64(0)
	if response.StatusCode == http.StatusPartialContent {
		begin = d.at
	}
	if n := response.ContentLength; n >= 0 && n != d.size-begin {
		return refuse(Changed, "the registry has %d bytes of it, %d were announced", begin+n, d.size)
	}
	if d.at == 0 {
		return nil
	}
	if response.StatusCode == http.StatusPartialContent {
		if want := fmt.Sprintf("bytes %d-", d.at); !strings.HasPrefix(response.Header.Get("Content-Range"), want) {
			return refuse(Changed, "asked for bytes from %d on, got %q", d.at, response.Header.Get("Content-Range"))
		}
		return nil
	}
	_, err = io.CopyN(io.Discard, d.body, d.at)
	return err
}

// Close ends the transfer.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	err := d.body.Close()
	d.body = nil
	return err
}

// watched is a body that fails when it stalls.
type watched struct {
	io.ReadCloser
	timer *time.Timer
}

func watch(body io.ReadCloser) *watched {
	return &watched{body, time.AfterFunc(answer, func() { body.Close() })}
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(answer)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop() // what the reader does with it takes its own time
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	return w.ReadCloser.Close()
}
