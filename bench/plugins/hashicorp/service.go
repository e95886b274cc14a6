// Package hashicorp is what both sides of a plain hashicorp/go-plugin share: a gRPC
// service with one method that carries the messages of Valence as bytes.
package hashicorp

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Handshake tells a plugin of this benchmark from other programs.
var Handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BENCH_PLUGIN", MagicCookieValue: "bench"}

const path = "/bench.Skill/Evaluate"

// Skill serves Evaluate, or on the host's side asks for it.
type Skill struct {
	plugin.NetRPCUnsupportedPlugin
	Evaluate func([]byte) ([]byte, error)
}

// GRPCServer registers the service; it runs in the plugin.
func (s Skill) GRPCServer(_ *plugin.GRPCBroker, to *grpc.Server) error {
	to.RegisterService(&grpc.ServiceDesc{ServiceName: "bench.Skill", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Evaluate",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			out, err := s.Evaluate(in.Value)
			return wrapperspb.Bytes(out), err
		},
	}}}, nil)
	return nil
}

// GRPCClient gives a func([]byte) ([]byte, error); it runs in the host.
func (Skill) GRPCClient(ctx context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return func(in []byte) ([]byte, error) {
		out := new(wrapperspb.BytesValue)
		err := c.Invoke(ctx, path, wrapperspb.Bytes(in), out)
		return out.Value, err
	}, nil
}
