//go:build !linux

package wasm

import "errors"

// snapshot is not offered by this system; see the Linux one.
type snapshot struct{}

func take([]byte) (*snapshot, error) { return nil, errors.ErrUnsupported }

func (*snapshot) over([]byte) error { return errors.ErrUnsupported }

func (*snapshot) restore([]byte) error { return errors.ErrUnsupported }

func (*snapshot) close() {}
