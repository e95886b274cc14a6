package image

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/valence-rl/valence/core/diag"
)

// explanation is an error with the diagnostic of it.
type explanation struct {
	diagnostic *diag.Diagnostic
	cause      error
}

func (e *explanation) Error() string { return e.diagnostic.Error() }

// Unwrap gives both.
func (e *explanation) Unwrap() []error { return []error{e.diagnostic, e.cause} }

// explain adds to why an image cannot be had what is to be done about it. dir is the
// store's folder.
func explain(dir, reference string, err error) error {
	if err == nil {
		return nil
	}
	host := "its registry"
	if r, e := name.ParseReference(reference); e == nil {
		host = r.Context().RegistryStr()
	}
	d := &diag.Diagnostic{Kind: diag.KindOf(err), Detail: []string{"cause: " + strings.ReplaceAll(err.Error(), "\n", "; ")}}
	what := ""
	switch reason := reasonOf(err); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		d.Code, what = "S009", "there is no room to unpack it in "+dir
		d.Hint = "make room there, or put the store elsewhere: [sandbox.images] store; `valence sandbox gc` removes what is not in use"
	case reason == Invalid:
		d.Code, what = "S004", "that is no reference"
		d.Hint = "write repository:tag, registry/repository@sha256:…, or tar:PATH, oci:PATH or dir:PATH"
	case reason == Absent:
		d.Code, what = "S004", "there is no such image"
		d.Hint = fmt.Sprintf("check repository, tag and processor; it was looked for at %s", host)
	case reason == Denied:
		d.Code, what = "S005", host+" refuses it"
		d.Hint = fmt.Sprintf("log in, as by `docker login %s`: credentials are those of ~/.docker/config.json; a repository that does not exist is often refused too", host)
	case reason == Unreachable:
		d.Code, what = "S006", host+" does not answer"
		d.Hint = "try again later, name a mirror in [sandbox.images.mirrors], or pull before the run: valence sandbox prewarm"
	case reason == Changed:
		d.Code, what = "S007", "the bytes are not those that its digests name"
		d.Hint = fmt.Sprintf("the transfer or %s is broken: try again, or take another mirror", host)
	case reason == Malformed, reason == Unsafe, reason == TooLarge:
		d.Code, what = "S008", "it is refused ("+string(reason)+")"
		d.Hint = "the image is at fault, every attempt ends like this: build it anew, or take another one"
	default:
		return err
	}
	d.Summary = fmt.Sprintf("image %s: %s", reference, what)
	return &explanation{d, err}
}
