package transport

import (
	"context"
	"fmt"
)

// Guarded serves one call. A panic of f is the host's fault: it must neither pass
// for the plugin's nor end the program, and is an error here, as is an answer that
// no border lets pass.
func (f HostFunc) Guarded(ctx context.Context, method uint32, in []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("the host's service panicked: %v", p)
		}
	}()
	out, err = f(ctx, method, in)
	if err == nil && len(out) > MaxMessage {
		return nil, fmt.Errorf("reply of %d bytes, %d is the most", len(out), MaxMessage)
	}
	return out, err
}
