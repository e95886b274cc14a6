package host

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valence-rl/valence/registry"
)

func TestHeavyModulesAreToldOnce(t *testing.T) {
	slow, quick := heavy+2*time.Millisecond, time.Millisecond
	folder := func(m *registry.Module) {}
	for _, c := range []struct {
		name   string
		calls  int
		slow   int // of them
		change func(*registry.Module)
		told   bool
	}{
		{"heavy", 100, 100, folder, true},
		{"half", 20, 10, folder, false},
		{"most", 20, 11, folder, true},
		{"too few", paceCalls - 1, paceCalls - 1, folder, false},
		{"quick", 100, 0, folder, false},
		{"already a process", 100, 100, func(m *registry.Module) { m.Transport = registry.Process }, false},
		{"only a module", 100, 100, func(m *registry.Module) { m.Ref = "heavy.wasm" }, false},
		{"in C", 100, 100, func(m *registry.Module) { m.Manifest.Language = "c" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			m := registry.Module{Ref: "heavy", Transport: registry.WASM, Manifest: registry.Manifest{Name: "heavy", Language: registry.Go}}
			c.change(&m)
			p := &Plugin{source: m, log: slog.New(slog.NewTextHandler(&log, nil))}
			for n := range c.calls {
				own := quick
				if n < c.slow {
					own = slow
				}
				p.computed(own)
			}
			want := 0
			if c.told {
				want = 1
			}
			if got := strings.Count(log.String(), `transport = \"process\"`); got != want {
				t.Errorf("told %d times, want %d: %s", got, want, &log)
			}
		})
	}
}

func TestServicesAreNotThePluginsTime(t *testing.T) {
	g := new(gate)
	g.served(3 * time.Second)
	g.served(2 * time.Second)
	if own := g.own(7 * time.Second); own != 2*time.Second {
		t.Errorf("own time %v, want 2s", own)
	}
	if own := g.own(time.Second); own != 0 { // services at once
		t.Errorf("own time %v, want 0", own)
	}
}
