package process

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk/process"
)

// call is one call under way, and what the plugin may ask of the host for it.
type call struct {
	worker  *worker
	id      string
	ctx     context.Context // of the caller
	serve   transport.HostFunc
	printed *transport.Printed

	inner  context.Context // of the services; ends with the call
	cancel context.CancelFunc
	asked  sync.WaitGroup // services under way

	mu      sync.Mutex
	over    bool  // no service may be asked any more
	waiting bool  // ctx ended while a service was busy
	lastly  bool  // the service that ended last failed
	failed  error // how the last one failed that did
}

// begin makes a call known to the host's services.
func (w *worker) begin(ctx context.Context, serve transport.HostFunc) *call {
	c := &call{worker: w, ctx: ctx, serve: serve, printed: w.program.output.open()}
	c.inner, c.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	c.id = strconv.FormatUint(w.started, 10)
	w.calls[c.id] = c
	return c
}

// invoke asks the plugin. Its error is a gRPC status, or ctx's.
func (c *call) invoke(method uint32, in []byte) (out []byte, err error) {
	host, err := c.worker.offer(c.ctx)
	if err != nil {
		return nil, err
	}
	name := strconv.FormatUint(uint64(method), 10)
	for _, m := range process.SkillMethods() {
		if m.Number == method {
			name = m.Name
		}
	}
	ctx := metadata.AppendToOutgoingContext(c.ctx, process.MetaHost, host, process.MetaCall, c.id)
	err = c.worker.conn.Invoke(ctx, "/"+process.SkillService+"/"+name, &in, &out, grpc.ForceCodecV2(process.Codec{}),
		grpc.MaxCallRecvMsgSize(transport.MaxMessage), grpc.MaxCallSendMsgSize(transport.MaxMessage))
	return out, err
}

// end lets no service be asked any more, and waits for those under way. What the
// process prints is kept until forget.
func (c *call) end() {
	c.worker.mu.Lock()
	delete(c.worker.calls, c.id)
	c.worker.mu.Unlock()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.cancel()
	c.asked.Wait()
}

// forget gives up what was printed.
func (c *call) forget() { c.worker.program.output.close(c.printed) }

// ask serves one call of the plugin's to the host.
func (c *call) ask(rpc context.Context, method uint32, in []byte) ([]byte, error) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return nil, status.Errorf(codes.InvalidArgument, "call %s has ended", c.id)
	}
	c.asked.Add(1)
	c.mu.Unlock()
	defer c.asked.Done()

	ctx, cancel := context.WithCancel(c.inner)
	defer cancel()
	defer context.AfterFunc(rpc, func() {
		if !late(c.ctx) { // then ctx ends by its deadline
			cancel()
		}
	})()
	out, err := c.serve.Guarded(ctx, method, in)
	tooLate := late(c.ctx)
	givenUp := rpc.Err() != nil && !tooLate // by the plugin, which hears of no error

	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = c.waiting || tooLate
	c.lastly = err != nil && !givenUp
	if c.lastly {
		c.failed = err
	}
	if err != nil {
		return nil, process.Error(err)
	}
	return out, nil
}
