package sandbox

import "errors"

// ErrTooLarge says that a file or a diff exceeds the limit that was asked for.
var ErrTooLarge = errors.New("larger than the limit")
