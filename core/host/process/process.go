// Package process runs skills as processes of their own, over hashicorp/go-plugin:
// gRPC on a private socket with mutual TLS, the host's services over its broker.
package process

import (
	"context"
	"errors"
	"log/slog"

	"github.com/valence-rl/valence/core/host/transport"
)

// Config says how a plugin's process is run.
type Config struct {
	Command []string     // absolute program and its arguments
	Memory  int64        // limit of one process, in bytes; 0: none
	Log     *slog.Logger // nil is silent
}

// Open starts the process.
func Open(context.Context, Config) (transport.Transport, error) {
	return nil, errors.New("processes are not offered by this build")
}
