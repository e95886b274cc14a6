// Package transport says how the host reaches a plugin, whatever the plugin is: a
// WASM module in this program or a process beside it. Both pass the conformance
// suite of package transporttest.
package transport

import (
	"context"

	"github.com/valence-rl/valence/sdk/wire"
)

// MaxMessage is the largest request, answer or host call, in bytes.
const MaxMessage = wire.MaxMessage

// HostFunc serves one call from the plugin back to the host; method is one of
// wire's Host numbers. It may block, and must return soon after ctx ends: only its
// own call waits for it.
type HostFunc func(ctx context.Context, method uint32, in []byte) ([]byte, error)

// Transport carries calls to one plugin. Call may be called from many goroutines.
type Transport interface {
	// Call serves one method and gives the answer's bytes, which are the caller's.
	// It returns when the plugin has answered or ctx has ended, and stops the
	// plugin's work on it then. Every error is a [*Failure].
	Call(ctx context.Context, method uint32, in []byte, serve HostFunc) ([]byte, error)
	// Close frees everything. Calls must have returned.
	Close() error
}
