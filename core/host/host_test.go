package host

import (
	"context"
	"testing"

	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// module resolves a plugin of testdata. The caches are those of the user, as in a
// run: a plugin is built once, not once a test.
func module(t testing.TB, name string) *registry.Module {
	t.Helper()
	m, err := registry.Resolve(t.Context(), "testdata/"+name, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func load(t testing.TB, name string, o Options) *Plugin {
	t.Helper()
	p, err := Load(t.Context(), module(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func TestMinimal(t *testing.T) {

	p := load(t, "minimal", Options{})
	r, err := p.Build(context.Background(), &sdk.BuildRequest{Record: sdk.Record{ID: "r1", Problem: "fix"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		v, err := p.Evaluate(t.Context(), nil, &sdk.EvaluateRequest{Task: r.Tasks[0]})
		if err != nil || v.Score != 1 {
			t.Fatal(v, err)
		}
	}
}
