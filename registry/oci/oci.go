// Package oci keeps modules in OCI registries, in the layout that the CNCF describes
// for WASM: an image manifest whose configuration says "wasm" and whose one layer is
// the module itself. What belongs to the module beyond its bytes, the text of
// plugin.toml and signatures, are annotations of the manifest: they can be read
// without the module, and every tool that copies the artifact copies them, since
// they are part of what its digest covers.
//
// Credentials come from the docker configuration and its helpers. Registries are
// spoken to over HTTPS; plain HTTP is for loopback and for private IPv4 addresses.
package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Client talks to registries. The zero Client is usable, also by many goroutines.
type Client struct {
	// Pause before the first further attempt; each further one doubles it. Default
	// 500 ms. What fails for a moment is tried four times; an answer that does not
	// begin within 30 s has failed.
	Pause time.Duration
}

// Reason says how a call failed.
type Reason string

// The ways to fail.
const (
	Invalid     Reason = "invalid"     // the address is none
	Unreachable Reason = "unreachable" // no answer, or one that says "later"
	Absent      Reason = "absent"      // the registry has no such artifact
	Denied      Reason = "denied"      // the registry wants other credentials
	Foreign     Reason = "foreign"     // there is something, and it is no module
	Changed     Reason = "changed"     // the bytes are not those that the digest names
	Refused     Reason = "refused"     // the registry says no for another cause
)

// Error is what every failure of a Client is, but for the end of a context.
type Error struct {
	Op      string // "find", "fetch", "push"
	Address string
	Reason  Reason
	Err     error
}

func (e *Error) Error() string { return e.Op + ": " + e.Address + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Found is an artifact that a registry has, without its module.
type Found struct {
	Digest string            // of the artifact
	Module string            // digest of the module
	Size   int64             // of the module, in bytes
	Notes  map[string]string // annotations
	Raw    []byte            // the artifact's manifest, which Digest names

	client  Client
	address string
	ref     name.Reference
}

// parse reads host/repository:tag or host/repository@sha256:….
func parse(address string) (name.Reference, error) {
	ref, err := name.ParseReference(address, name.StrictValidation)
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(ref.Context().RegistryStr(), ".:") && ref.Context().RegistryStr() != "localhost" {
		return nil, fmt.Errorf("%q is not a registry's host", ref.Context().RegistryStr())
	}
	return ref, nil
}

// Check tells whether an address can be one: host/repository:tag or
// host/repository@sha256:….
func Check(address string) error {
	_, err := parse(address)
	return err
}

// answer is how long a registry may take to begin an answer.
const answer = 30 * time.Second

// options are those of one call; done frees what it held.
func (c Client) options(ctx context.Context) (o []remote.Option, done func()) {
	pause := c.Pause
	if pause == 0 {
		pause = 500 * time.Millisecond
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = answer
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(t), remote.WithUserAgent("valence"), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithRetryBackoff(remote.Backoff{Duration: pause, Factor: 2, Jitter: 0.1, Steps: 4}),
	}, t.CloseIdleConnections
}

// Find asks for the artifact at an address, which is host/repository:tag or
// host/repository@sha256:…. It moves a few kilobytes.
func (c Client) Find(ctx context.Context, address string) (*Found, error) {
	ref, err := parse(address)
	if err != nil {
		return nil, &Error{"find", address, Invalid, err}
	}
	options, done := c.options(ctx)
	defer done()
	got, err := remote.Get(ref, options...)
	if err != nil {
		return nil, failure(ctx, "find", address, err)
	}
	f, err := Open(got.Manifest)
	if err != nil {
		return nil, &Error{"find", address, Foreign, err}
	}
	f.client, f.address, f.ref = c, address, ref
	return f, nil
}

// Open reads what was found before, from its Raw. It can say everything, and fetch nothing.
func Open(raw []byte) (*Found, error) {
	m, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return &Found{Digest: digest(raw), Module: m.Layers[0].Digest, Size: m.Layers[0].Size, Notes: m.Annotations, Raw: raw}, nil
}

// Fetch gives the module, whose bytes have the digest and the size that were found.
// It is for what [Client.Find] gave.
func (f *Found) Fetch(ctx context.Context) ([]byte, error) {
	options, done := f.client.options(ctx)
	defer done()
	layer, err := remote.Layer(f.ref.Context().Digest(f.Module), options...)
	if err != nil {
		return nil, failure(ctx, "fetch", f.address, err)
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, failure(ctx, "fetch", f.address, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, f.Size+1))
	if digest(b) == f.Module {
		return b, nil
	}
	if err != nil {
		err = failure(ctx, "fetch", f.address, err)
	}
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Reason != Changed) {
		return nil, err
	}
	return nil, &Error{"fetch", f.address, Changed, fmt.Errorf("want %s, got %d bytes of %s", f.Module, len(b), digest(b))}
}

// Push stores an artifact at host/repository:tag, where it replaces what is there,
// and gives its digest.
func (c Client) Push(ctx context.Context, address string, a *Artifact) (string, error) {
	ref, err := parse(address)
	if err != nil {
		return "", &Error{"push", address, Invalid, err}
	}
	if _, ok := ref.(name.Tag); !ok {
		return "", &Error{"push", address, Invalid, errors.New("a digest cannot be chosen; want a tag")}
	}
	m, raw, rawConfig, err := a.encode()
	if err != nil {
		return "", err
	}
	img, err := partial.CompressedToImage(&image{module: static.NewLayer(a.Module, ModuleType), manifest: m, raw: raw, config: rawConfig})
	if err != nil {
		return "", err
	}
	options, done := c.options(ctx)
	defer done()
	if err := remote.Write(ref, img, options...); err != nil {
		return "", failure(ctx, "push", address, err)
	}
	return digest(raw), nil
}

// image shows an artifact to the library that writes it.
type image struct {
	module      v1.Layer
	manifest    manifest
	raw, config []byte
}

func (i *image) RawConfigFile() ([]byte, error)      { return i.config, nil }
func (i *image) RawManifest() ([]byte, error)        { return i.raw, nil }
func (i *image) MediaType() (types.MediaType, error) { return ManifestType, nil }
func (i *image) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if h.String() == i.manifest.Config.Digest {
		return partial.ConfigLayer(i)
	}
	return i.module, nil
}

// failure classifies what the library reports.
func failure(ctx context.Context, op, address string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &Error{op, address, Unreachable, err}
	var answered *transport.Error
	var broken net.Error
	if !errors.As(err, &answered) {
		// What is no failure of the network is the library's word on a digest.
		if !errors.As(err, &broken) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			e.Reason = Changed
		}
		return e
	}
	switch code := answered.StatusCode; {
	case code == http.StatusNotFound:
		e.Reason = Absent
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		e.Reason = Denied
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
	default:
		e.Reason = Refused
	}
	return e
}
