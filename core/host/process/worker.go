package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk/process"
)

const (
	// startLimit is the longest that a plugin's own start may take.
	startLimit = time.Minute
	// longestTemp is the longest folder that Unix sockets can be made in, in
	// bytes: their paths have 107 at most.
	longestTemp = 60
)

var errSlowStart = fmt.Errorf("not ready after %v", startLimit)

// worker is one running process and the connection to it.
type worker struct {
	program *program
	client  *goplugin.Client
	*link
	tls *tls.Config

	offering sync.Once
	offered  chan struct{} // closed when the host's services can be reached, or cannot
	services *grpc.Server  // after offered; nil if they cannot
	host     string        // the broker's id of services
	offerErr error

	users   int  // guarded by Process.mu
	buried  bool // guarded by Process.mu
	mu      sync.Mutex
	calls   map[string]*call // under way
	started uint64           // calls so far
}

// link is what go-plugin gives for the plugin.
type link struct {
	goplugin.NetRPCUnsupportedPlugin
	broker *goplugin.GRPCBroker
	conn   *grpc.ClientConn
}

// GRPCServer is the plugin's side, which is elsewhere.
func (*link) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("process: a host has no plugin's side")
}

// GRPCClient is called once, when the process is reached.
func (l *link) GRPCClient(_ context.Context, b *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	l.broker, l.conn = b, c
	return l, nil
}

// start starts a process and connects to it. It gives up when ctx ends.
func start(ctx context.Context, c Config) (*worker, *transport.Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlowStart)
	defer cancel()
	w := &worker{program: newProgram(c), link: new(link), offered: make(chan struct{}), calls: make(map[string]*call)}
	secure, certificate, err := identity()
	if err != nil {
		return nil, &transport.Failure{Reason: transport.ReasonTrap, Err: err}
	}
	config := &goplugin.ClientConfig{
		HandshakeConfig: process.Handshake(),
		Plugins:         goplugin.PluginSet{process.Plugin: w.link},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			w.program.dir, w.program.env = dir, append(cmd.Env, "PLUGIN_CLIENT_CERT="+string(certificate))
			return w.program, nil
		},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        secure, // go-plugin adds the process's certificate
		SkipHostEnv:      true,
		StartTimeout:     2 * startLimit, // ctx comes first
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: temp()},
		Logger:           hclog.NewNullLogger(),
	}
	w.client = goplugin.NewClient(config)
	unhand := context.AfterFunc(ctx, func() { w.program.kill(errKilled) })
	connected, err := w.client.Client()
	if err == nil {
		_, err = connected.Dispense(process.Plugin)
	}
	if err == nil {
		err = connected.Ping() // go-plugin has not minded yet whether anybody listens
	}
	if unhand() && err == nil {
		w.tls = config.TLSConfig
		return w, nil
	}
	if w.program.dir == "" { // go-plugin has not come to the program
		return nil, &transport.Failure{Reason: transport.ReasonTrap, Err: err}
	}
	own := w.program.ended() && w.program.killed() == nil
	w.close()
	f := &transport.Failure{Reason: transport.ReasonTrap, Printed: w.program.output.early()}
	switch {
	case ctx.Err() != nil:
		f = over(ctx)
		f.Printed = w.program.output.early()
	case w.program.first.refused != nil:
		f.Err = w.program.first.refused
	case own && w.program.cmd != nil && w.program.cmd.ProcessState != nil:
		f.Reason, f.Err = fate(w.program.cmd.ProcessState, f.Printed, c.Memory)
	default:
		// What go-plugin has to say after the first line is general advice.
		first, _, _ := strings.Cut(err.Error(), "\n")
		f.Err = errors.New(first)
	}
	return nil, f
}

// temp is where the folders of processes are made.
func temp() string {
	if dir := os.TempDir(); len(dir) <= longestTemp {
		return dir
	}
	return "/tmp"
}

// close kills the process and frees what belonged to it.
func (w *worker) close() {
	w.program.kill(errKilled)
	if w.conn != nil {
		// Without a connection go-plugin asks nobody for an orderly end.
		w.conn.Close()
	}
	<-w.program.gone
	w.offering.Do(func() { close(w.offered) })
	<-w.offered
	if w.services != nil {
		w.services.Stop()
	}
	w.client.Kill()
	os.RemoveAll(w.program.dir)
}

// offer makes the host's services reachable for the process, at its first call:
// go-plugin forgets an offer that is not taken up within seconds. It gives the
// broker's id of the server.
func (w *worker) offer(ctx context.Context) (string, error) {
	w.offering.Do(func() {
		go func() {
			defer close(w.offered)
			id := w.broker.NextId()
			l, err := w.broker.Accept(id)
			if err != nil {
				w.offerErr = status.Errorf(codes.Unavailable, "offer the host's services: %v", err)
				return
			}
			w.host = strconv.FormatUint(uint64(id), 10)
			w.services = grpc.NewServer(append(process.Limits(), grpc.Creds(credentials.NewTLS(w.tls)))...)
			process.Register(w.services, process.HostService, process.HostMethods(), w.serve)
			go w.services.Serve(l)
		}()
	})
	select {
	case <-w.offered:
		return w.host, w.offerErr
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// serve answers one call of the plugin's to the host.
func (w *worker) serve(ctx context.Context, method uint32, in []byte) ([]byte, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	ids := md.Get(process.MetaCall)
	if len(ids) != 1 {
		return nil, status.Errorf(codes.InvalidArgument, "a call to the host needs one %s, this has %d", process.MetaCall, len(ids))
	}
	w.mu.Lock()
	c := w.calls[ids[0]]
	w.mu.Unlock()
	if c == nil {
		return nil, status.Errorf(codes.InvalidArgument, "no call %.20q is under way", ids[0])
	}
	return c.ask(ctx, method, in)
}
