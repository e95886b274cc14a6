package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Limits of what one call may log.
const (
	maxLines = 1000
	maxLine  = 4 << 10 // bytes
)

// kinds of the errors of services that carry none.
var kinds = map[uint32]diag.Kind{
	wire.HostRun:   diag.KindSandbox,
	wire.HostModel: diag.KindPolicy,
	wire.HostJudge: diag.KindJudge,
}

// gate is what one call reaches the services through, from one goroutine or many.
// It lets pass what the plugin declared and the run granted.
type gate struct {
	plugin   *Plugin
	op       string
	services Services // may be nil

	mu     sync.Mutex
	lines  int           // logged so far
	waited time.Duration // for services
}

// serve is the transport's HostFunc. The error's text is what the plugin gets to see.
func (g *gate) serve(ctx context.Context, method uint32, in []byte) ([]byte, error) {
	defer func(since time.Time) { g.served(time.Since(since)) }(time.Now())
	return g.pass(ctx, method, in)
}

func (g *gate) served(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waited += d
}

// own is what remains of a call's time without that of the services.
func (g *gate) own(all time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, all-g.waited)
}

// pass refuses or relays one call to the host.
func (g *gate) pass(ctx context.Context, method uint32, in []byte) ([]byte, error) {
	name := wire.Capability(method)
	if name == "" {
		return nil, diag.Errorf(diag.KindPlugin, "call the host", "", "there is no method %d in skill_v%d", method, wire.ABI)
	}
	if !slices.Contains(g.plugin.granted, name) {
		g.plugin.denied(name)
		return nil, diag.Errorf(diag.KindPlugin, "call the host", "capability "+name,
			"denied: plugin %s does not declare it", g.plugin.source.Manifest.Name)
	}
	if g.services == nil {
		return nil, diag.Errorf(diag.KindPlugin, "call the host", "capability "+name, "not offered to %s", g.op)
	}
	switch method {
	case wire.HostRun:
		return relay(ctx, method, in, g.services.Run)
	case wire.HostModel:
		return relay(ctx, method, in, g.services.Model)
	case wire.HostJudge:
		return relay(ctx, method, in, g.services.Ask)
	default:
		return g.log(ctx, in)
	}
}

// message is a pointer to T that crosses the border.
type message[T any] interface {
	*T
	wire.Message
}

// relay decodes a request, has it served and encodes the response.
func relay[Q, S any, PQ message[Q], PS message[S]](ctx context.Context, method uint32, in []byte, serve func(context.Context, PQ) (PS, error)) ([]byte, error) {
	req := PQ(new(Q))
	if err := wire.Unmarshal(in, req); err != nil {
		return nil, diag.Wrap(diag.KindPlugin, "call the host", "capability "+wire.Capability(method), err)
	}
	res, err := serve(ctx, req)
	if err != nil {
		return nil, diag.Wrap(kinds[method], "", "", err)
	}
	if res == nil {
		return nil, diag.Errorf(kinds[method], "", "", "the host's %s gave no response", wire.Capability(method))
	}
	return wire.Marshal(res), nil
}

// log passes a line on, cut to a bearable length and number.
func (g *gate) log(ctx context.Context, in []byte) ([]byte, error) {
	var l wire.LogLine
	if err := wire.Unmarshal(in, &l); err != nil {
		return nil, diag.Wrap(diag.KindPlugin, "call the host", "capability log", err)
	}
	g.mu.Lock()
	g.lines++
	n := g.lines
	g.mu.Unlock()
	switch {
	case n == maxLines:
		g.services.Log(ctx, "warn", fmt.Sprintf("the plugin has logged %d lines; the others of this call are dropped", maxLines-1))
	case n < maxLines:
		if len(l.Text) > maxLine {
			l.Text = strings.ToValidUTF8(l.Text[:maxLine], "") + "…"
		}
		if !slices.Contains([]string{"debug", "info", "warn", "error"}, l.Level) {
			l.Level = "info"
		}
		g.services.Log(ctx, l.Level, l.Text)
	}
	return nil, nil
}

// denied tells the log once a capability, because an author who ignores errors
// would look for the cause in vain.
func (p *Plugin) denied(capability string) {
	if _, told := p.told.LoadOrStore(capability, true); !told {
		p.log.Warn("capability denied: the plugin does not declare it", "plugin", p.String(), "capability", capability)
	}
}

// building are the services while tasks are built: those of the run without the
// judge, whose opinion no task may depend on, and the log in any case.
type building struct {
	to *slog.Logger
	of Services // may be nil
}

func (b building) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if b.of == nil {
		return nil, unavailable("sandbox")
	}
	return b.of.Run(ctx, r)
}

func (b building) Model(ctx context.Context, r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	if b.of == nil {
		return nil, unavailable("model")
	}
	return b.of.Model(ctx, r)
}

func (building) Ask(context.Context, *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return nil, unavailable("judge")
}

func (b building) Log(ctx context.Context, level, text string) {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	b.to.Log(ctx, l, text)
}

func unavailable(capability string) error {
	return diag.Errorf(diag.KindPlugin, "call the host", "capability "+capability, "not offered while tasks are built")
}
