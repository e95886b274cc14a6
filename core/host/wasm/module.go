// Package wasm runs skills as WASM modules under the ABI skill_v1, in wazero.
//
// A guest exports skill_v1_call(method, len) → status and imports four functions
// of the module skill_v1: input, output, host_call and host_result. It owns all
// memory; the host copies at once, calls no allocator of the guest and never
// enters it a second time while a call is under way.
//
// What a guest can reach is its own memory, a simulated clock, randomness that
// depends on the module and the request alone, and the host's services. There is
// no file system, no network, no argument, no environment. Each call is served by
// an instance in the state that the guest's start left, so that nothing carries over
// and the same request meets the same machine.
//
// A guest starts once. Its memory and globals are then kept as an image, from which
// instances are made and to which they are set back after a call; a guest whose state
// is more than that starts again for each call. Its code is rewritten so that it
// counts what it computes and looks up from time to time, which is how it obeys a
// deadline and lets the host's garbage collector pass.
package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/core/host/wasm/internal/binary"
	"github.com/valence-rl/valence/sdk/wire"
)

const (
	// DefaultMemory is the memory limit of one instance, in bytes.
	DefaultMemory = 512 << 20

	entry = "skill_v1_call"
	page  = 64 << 10 // of WASM memory, in bytes
)

// Config says how a module is run. The zero Config is usable.
type Config struct {
	// Memory limits one instance, in bytes; 0 means DefaultMemory. It is rounded
	// up to whole pages of 64 KiB, and 4 GiB is the most.
	Memory int64
	// Cache is a folder for compiled code, shared by processes; "" compiles anew.
	// An unusable folder is no error: compiling takes seconds, nothing else changes.
	Cache string
	// Warm is how many instances are made ahead of the calls where each has to be
	// started, which takes milliseconds; 0 means 1. From an image they are made as
	// they are needed. Instances that have served are kept for later calls, as many
	// as Warm or GOMAXPROCS, whichever is more.
	Warm int
}

// Module is a compiled skill. Its methods may be called from many goroutines.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache // nil if none
	state    *binary.State           // what the host does to start it; nil if nothing
	memory   uint64                  // limit in bytes
	digest   [sha256.Size]byte

	image    atomic.Pointer[image] // nil until it is taken, and if it cannot be
	freezing sync.Mutex
	obstacle error // why no image can be taken; nil if one can
	pool     *pool
	backoff  backoff
}

// Open compiles code. No instruction of it runs yet. The error says what is not
// as skill_v1 wants it.
func Open(ctx context.Context, code []byte, c Config) (*Module, error) {
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Memory < 0 {
		return nil, fmt.Errorf("memory limit of %d bytes is negative", c.Memory)
	}
	m := &Module{
		memory: min((uint64(c.Memory)+page-1)/page*page, 65536*page),
		digest: sha256.Sum256(code),
		pool:   newPool(c.Warm),
	}
	p := prepare(code)
	err := m.compile(ctx, p, c.Cache)
	if err != nil && c.Cache != "" && ctx.Err() == nil {
		m.close(ctx)
		err = m.compile(ctx, p, "") // the folder, not the code, may be at fault
	}
	if err != nil && p.metered && ctx.Err() == nil {
		m.close(ctx)
		p = prepared{code: code, obstacle: err}
		err = m.compile(ctx, p, "") // its error tells best what is wrong with the code
	}
	if err == nil {
		err = check(m.compiled, p.metered)
	}
	if err != nil {
		m.close(context.WithoutCancel(ctx))
		return nil, err
	}
	return m, nil
}

func (m *Module) compile(ctx context.Context, p prepared, folder string) error {
	m.state, m.obstacle = p.state, p.obstacle
	// A guest that computes without end must obey its deadline, and must not hold up
	// the host's garbage collector.
	rc := wazero.NewRuntimeConfig().WithCloseOnContextDone(!p.metered)
	m.cache = nil
	if folder != "" && os.MkdirAll(folder, 0o755) == nil {
		if cache, err := wazero.NewCompilationCacheWithDir(filepath.Clean(folder)); err == nil {
			m.cache = cache
			rc = rc.WithCompilationCache(cache)
		}
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, rc)
	for _, define := range []func(context.Context, wazero.Runtime) error{linkWASI, linkSkill, linkRefill} {
		if err := define(ctx, m.runtime); err != nil {
			return err
		}
	}
	var err error
	m.compiled, err = m.runtime.CompileModule(ctx, p.code)
	return err
}

// check refuses a module that cannot be a skill, by its exports and imports. The
// last import of a metered one is refill.
func check(c wazero.CompiledModule, metered bool) error {
	f, ok := c.ExportedFunctions()[entry]
	if !ok {
		if _, program := c.ExportedFunctions()["_start"]; program {
			return errors.New("a program, not a plugin: it exports _start and no " + entry + " (Go: build with -buildmode=c-shared)")
		}
		return errors.New("no export " + entry)
	}
	i32 := api.ValueTypeI32
	if p, r := f.ParamTypes(), f.ResultTypes(); len(p) != 2 || p[0] != i32 || p[1] != i32 || len(r) != 1 || r[0] != i32 {
		return errors.New("export " + entry + " has another signature than (i32, i32) → i32")
	}
	imports := c.ImportedFunctions()
	if metered {
		imports = imports[:len(imports)-1]
	}
	for _, f := range imports {
		from, name, _ := f.Import()
		switch {
		case from == wasi_snapshot_preview1.ModuleName:
		case from == wire.Module && (name == "input" || name == "output" || name == "host_call" || name == "host_result"):
		case strings.HasPrefix(from, "skill_v"):
			return fmt.Errorf("imports %s of %s, this host offers %s", name, from, wire.Module)
		default:
			return fmt.Errorf("imports %s of %s, which a plugin is not given", name, from)
		}
	}
	return nil
}

// Call serves one method in an instance that has served nothing or forgot all that
// it served. The bytes of the answer are the caller's. The guest is stopped when ctx
// ends. After failures in a row the next call waits, up to a second. Every error is
// a [*transport.Failure].
func (m *Module) Call(ctx context.Context, method uint32, in []byte, serve transport.HostFunc) ([]byte, error) {
	i, err := m.take(ctx)
	if err != nil {
		return nil, err
	}
	out, err := i.call(ctx, method, in, serve)
	m.give(i, err)
	return out, err
}

// Frozen tells whether instances are made from an image of a started one, and why
// if they are not. Before the first call this is not known yet.
func (m *Module) Frozen() (bool, error) {
	m.freezing.Lock()
	defer m.freezing.Unlock()
	return m.image.Load() != nil, m.obstacle
}

// Close frees everything. Calls must have returned.
func (m *Module) Close() error {
	m.pool.close()
	return m.close(context.Background())
}

func (m *Module) close(ctx context.Context) error {
	var errs []error
	if img := m.image.Load(); img != nil {
		img.memory.close()
	}
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	return errors.Join(errs...)
}
