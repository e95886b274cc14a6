package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/valence-rl/valence/sdk/wire"
)

// Ask takes one request to the host; method is one of wire's Host numbers. It
// blocks until the host has answered or ctx has ended, and may be called from many
// goroutines while the call that it came with is under way.
type Ask func(ctx context.Context, method uint32, in []byte) ([]byte, error)

// Handler serves one call; method is one of wire's Method numbers. It is called
// from many goroutines. Its error's text goes to the host.
type Handler func(ctx context.Context, ask Ask, method uint32, in []byte) ([]byte, error)

// Wanted tells whether a host has started this program.
func Wanted() bool { return os.Getenv(CookieKey) == CookieValue }

// maxStack holds the stack of a goroutine, in bytes, so that recursion without end
// is told from a lack of memory.
const maxStack = 64 << 20

// Serve answers the host's calls by h until the host asks for an orderly end. The
// program exits when the host has died.
func Serve(h Handler) {
	debug.SetMaxStack(maxStack)
	holdOn(os.Getenv(Lifeline))
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{Plugin: &server{handler: h, stderr: os.Stderr, hosts: make(map[uint32]*host)}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}),
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, Limits()...)...)
		},
	})
}

// Limits are the options of a server of this protocol: bytes as they are, and no
// message beyond wire.MaxMessage.
func Limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec{}),
		grpc.MaxRecvMsgSize(wire.MaxMessage),
		grpc.MaxSendMsgSize(wire.MaxMessage),
	}
}

// server is the plugin's side.
type server struct {
	goplugin.NetRPCUnsupportedPlugin
	handler Handler
	dial    func(id uint32) (*grpc.ClientConn, error) // the broker's
	stderr  *os.File                                  // the real one
	printed sync.Once

	mu    sync.Mutex
	hosts map[uint32]*host // by the broker's id
}

// host is the connection to one server of the host. It is opened once.
type host struct {
	mu   sync.Mutex
	conn *grpc.ClientConn // nil until it is open
}

// GRPCServer registers the skill's service.
func (s *server) GRPCServer(b *goplugin.GRPCBroker, r *grpc.Server) error {
	s.dial = b.Dial
	Register(r, SkillService, SkillMethods(), s.serve)
	return nil
}

// GRPCClient is the host's side, which is elsewhere.
func (*server) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("process: a plugin has no client's side")
}

// Register adds a service of methods that take and give bytes to r.
func Register(r *grpc.Server, service string, methods []Method, serve func(ctx context.Context, method uint32, in []byte) ([]byte, error)) {
	d := &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for _, m := range methods {
		d.Methods = append(d.Methods, grpc.MethodDesc{
			MethodName: m.Name,
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var in []byte
				if err := decode(&in); err != nil {
					return nil, err
				}
				out, err := serve(ctx, m.Number, in)
				if err != nil {
					return nil, err
				}
				return &out, nil
			},
		})
	}
	r.RegisterService(d, struct{}{})
}

// serve answers one call. go-plugin has by now put pipes in place of the standard
// files, whose contents would get lost with the process.
func (s *server) serve(ctx context.Context, method uint32, in []byte) ([]byte, error) {
	s.printed.Do(func() { os.Stdout, os.Stderr = s.stderr, s.stderr })
	s.meet(ctx)
	out, err := s.handler(ctx, s.asker(ctx), method, in)
	if err != nil {
		return nil, Error(err)
	}
	return out, nil
}

// Error is the status by which err crosses the border.
func Error(err error) error {
	text := err.Error()
	return status.Error(codes.Unknown, strings.ToValidUTF8(text[:min(len(text), MaxError)], "\uFFFD"))
}

// asker gives what reaches the host's services for the call under ctx.
func (s *server) asker(ctx context.Context) Ask {
	md, _ := metadata.FromIncomingContext(ctx)
	names := HostMethods()
	return func(ctx context.Context, method uint32, in []byte) ([]byte, error) {
		conn, err := s.host(md.Get(MetaHost))
		if err != nil {
			return nil, fmt.Errorf("reach the host: %w", err)
		}
		var name string
		for _, m := range names {
			if m.Number == method {
				name = m.Name
			}
		}
		if calls := md.Get(MetaCall); len(calls) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, MetaCall, calls[0])
		}
		var out []byte
		err = conn.Invoke(ctx, "/"+HostService+"/"+name, &in, &out, grpc.ForceCodecV2(Codec{}),
			grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage))
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		return nil, errors.New(status.Convert(err).Message())
	}
}

// host gives the connection to the server that ids name.
func (s *server) host(ids []string) (*grpc.ClientConn, error) {
	if len(ids) == 0 {
		return nil, errors.New("the call brought no " + MetaHost)
	}
	id, err := strconv.ParseUint(ids[0], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", MetaHost, err)
	}
	h, _ := s.known(uint32(id))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		if h.conn, err = s.dial(uint32(id)); err != nil {
			h.conn = nil // the next question tries again
			return nil, err
		}
	}
	return h.conn, nil
}

// known gives the server with an id, and whether it is new.
func (s *server) known(id uint32) (h *host, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.hosts[id]; h == nil {
		h, first = new(host), true
		s.hosts[id] = h
	}
	return h, first
}

// meet opens the connection to the host's server with the first call that names it.
// go-plugin forgets an address that nobody wants within seconds, and the first
// question may come hours later.
func (s *server) meet(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	ids := md.Get(MetaHost)
	if len(ids) == 0 {
		return
	}
	if id, err := strconv.ParseUint(ids[0], 10, 32); err == nil {
		if _, first := s.known(uint32(id)); first {
			go s.host(ids)
		}
	}
}
