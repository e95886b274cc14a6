package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
)

// ref is what a reference led to.
type ref struct {
	Ref   string
	Image string // digest of the image for this machine
}

func (s *Store) refFile(reference string) string {
	return s.path("refs", digits(digestOf([]byte(reference)))+".json")
}

func readRef(file string) (*ref, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(ref)
	return r, json.Unmarshal(b, r)
}

// known opens what a reference led to when it was last pulled; [fs.ErrNotExist] if
// that is not kept.
func (s *Store) known(ctx context.Context, reference string) (*Image, error) {
	r, err := readRef(s.refFile(reference))
	if err != nil {
		return nil, err
	}
	return s.use(ctx, r.Image, nil)
}

// Pull gives the image that a reference names, repository:tag or repository@sha256:…,
// where a repository without a host is one of docker.io. What is not kept is fetched
// from a mirror or the registry, layers at the same time, each checked by its
// digest, and unpacked as it arrives. Of an index the entry for linux and this machine's
// processor is taken. Registries are spoken to over HTTPS; plain HTTP is for loopback
// and for private IPv4 addresses.
//
// An image pulled before by digest needs no registry. For a tag the registry is asked
// where it leads now; when it does not answer, the image that it led to is given, and
// the log says so.
//
// Pull blocks as long as it takes and ends with ctx. The caller closes the image. An
// [Error] says why there is none; nothing half-made stays.
func (s *Store) Pull(ctx context.Context, reference string) (*Image, error) {
	const op = "pull image"
	i, err := s.pull(ctx, reference)
	if err != nil {
		return nil, failed(op, reference, err)
	}
	if err := s.collect(ctx); err != nil {
		return nil, failed(op, reference, errors.Join(err, i.Close()))
	}
	return i, nil
}

func (s *Store) pull(ctx context.Context, reference string) (*Image, error) {
	parsed, err := name.ParseReference(reference)
	if err != nil {
		return nil, &Error{Invalid, err}
	}
	key := parsed.Name()
	if _, fixed := parsed.(name.Digest); fixed {
		if i, err := s.known(ctx, key); !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
	}
	places, err := repositories(parsed, s.mirrors)
	if err != nil {
		return nil, &Error{Invalid, err}
	}
	r, done := newRegistry(places, s.o.Pause, s.o.Log)
	defer done()
	c, err := r.image(ctx, parsed.Identifier())
	if reasonOf(err) == Unreachable {
		i, e := s.known(ctx, key)
		if e == nil {
			s.o.Log.Warn("the registry does not answer, the image is the one that was pulled before", "image", reference, "digest", i.Digest, "cause", err)
			return i, nil
		}
		if !errors.Is(e, fs.ErrNotExist) {
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	i, err := s.add(ctx, reference, c)
	if err != nil {
		return nil, err
	}
	if err := s.replaceFile(ctx, s.refFile(key), ref{key, c.digest}); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}
