package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/valence-rl/valence/core/host/transport"
)

// initLimit is the longest that a guest's own start may take.
const initLimit = time.Minute

// maxError is how much of an error's text is kept, in bytes.
const maxError = 16 << 10

var errSlowStart = fmt.Errorf("not ready after %v", initLimit)

// instance is one running guest and the call that it serves. It is used by one
// goroutine at a time.
type instance struct {
	of      *Module
	guest   api.Module
	entry   api.Function        // skill_v1_call
	globals []api.MutableGlobal // all that can change
	memory  linear
	printed transport.Printed
	clock   clock
	random  random

	// The call under way. serve is nil while there is none.
	serve  transport.HostFunc
	in     []byte
	out    []byte
	result []byte // of the last host_call, until host_result fetches it
	failed error  // of the last host_call that failed
	lastly bool   // that was the last one
	inside bool   // a host_call is being served
}

type instanceKey struct{}

// instantiate makes an instance, from the image if there is one.
func (m *Module) instantiate(ctx context.Context) (i *instance, err error) {
	i = &instance{of: m, memory: linear{limit: m.memory}}
	img := m.image.Load()
	if img != nil {
		i.memory.image = img.memory
	}
	i.random.seed(func() [32]byte { return m.digest })
	ctx, cancel := context.WithTimeoutCause(ctx, initLimit, errSlowStart)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			if !i.memory.refused {
				panic(r)
			}
			// The runtime has no other way to learn that the first pages were refused.
			err = fmt.Errorf("needs more than %d bytes of memory to start", m.memory)
		}
		if err != nil {
			i.close()
			f := i.failure(ctx, err)
			f.Starting = true
			i, err = nil, f
		}
	}()
	if ctx.Err() != nil {
		return i, interrupted{context.Cause(ctx)}
	}
	ctx = context.WithValue(ctx, instanceKey{}, i)
	ctx = experimental.WithMemoryAllocator(ctx, &i.memory)
	i.guest, err = m.runtime.InstantiateModule(ctx, m.compiled, wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions(). // see boot
		WithStdout(&i.printed).
		WithStderr(&i.printed).
		WithRandSource(&i.random).
		WithWalltime(i.clock.wall, tick).
		WithNanotime(i.clock.mono, tick).
		WithNanosleep(i.clock.sleep))
	if err != nil {
		return i, err
	}
	i.entry = i.guest.ExportedFunction(entry)
	if m.state != nil {
		i.changing(m.state.Globals)
	}
	if i.memory.image != nil {
		return i, i.thaw(img)
	}
	return i, i.boot(ctx)
}

// boot starts the guest as its author meant it.
func (i *instance) boot(ctx context.Context) error {
	starts := []string{"_initialize"}
	if s := i.of.state; s != nil {
		for _, d := range s.Data {
			if !i.guest.Memory().Write(d.Offset, d.Bytes) {
				return fmt.Errorf("its %d bytes of data at %d are not in memory", len(d.Bytes), d.Offset)
			}
		}
		starts = []string{s.Start, "_initialize"}
	}
	for _, name := range starts {
		if f := i.guest.ExportedFunction(name); f != nil {
			if _, err := f.Call(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// call serves one method.
func (i *instance) call(ctx context.Context, method uint32, in []byte, serve transport.HostFunc) ([]byte, error) {
	if len(in) > transport.MaxMessage {
		return nil, &transport.Failure{Reason: transport.ReasonAnswer, Err: fmt.Errorf("request of %d bytes, %d is the most", len(in), transport.MaxMessage)}
	}
	if ctx.Err() != nil {
		return nil, i.failure(ctx, interrupted{context.Cause(ctx)})
	}
	i.random.seed(func() [32]byte {
		h := sha256.New()
		h.Write(i.of.digest[:])
		binary.Write(h, binary.LittleEndian, method)
		h.Write(in)
		return [32]byte(h.Sum(nil))
	})

	i.serve, i.in = serve, in
	stack := []uint64{uint64(method), uint64(uint32(len(in)))}
	err := i.entry.CallWithStack(context.WithValue(ctx, instanceKey{}, i), stack)
	i.serve, i.in = nil, nil
	if err != nil {
		return nil, i.failure(ctx, err)
	}
	if int32(stack[0]) != 0 {
		return nil, i.failure(ctx, guestError(strings.ToValidUTF8(string(i.out[:min(len(i.out), maxError)]), "\uFFFD")))
	}
	return i.out, nil
}

func (i *instance) close() {
	if i.guest != nil {
		i.guest.Close(context.Background())
	}
	// A deadline that strikes while a call returns marks the guest as closed
	// without freeing its memory.
	i.memory.Free()
}
