package wasm

import (
	"fmt"
	"os"
	"testing"
)

// Compiled is the cache that tests share: a guest of the Go compiler takes seconds to
// compile, and half a minute under the race detector.
var Compiled string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "compiled")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Compiled = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
