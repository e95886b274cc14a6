package wasm

import (
	"testing"

	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// wild opens the plugin that does as it is told.
func wild(t testing.TB, c Config) *Module {
	t.Helper()
	built, err := registry.Resolve(t.Context(), "../testdata/wild", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cache == "" {
		c.Cache = Compiled
	}
	m, err := Open(t.Context(), built.Wasm, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// prompt is a request to wild.
func prompt(text, message string) []byte {
	return wire.Marshal(&sdk.EvaluateRequest{Task: sdk.Task{Key: "wild/1", Prompt: text}, Output: sdk.Output{Message: message}})
}
