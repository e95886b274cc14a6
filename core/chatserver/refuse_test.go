package chatserver_test

import (
	"context"
	"net"
	"syscall"
)

// refuse is a network on which nobody listens.
func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}
